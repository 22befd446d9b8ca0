//go:build !linux

package host

import "time"

var origin = time.Now()

// clock is monotonic. Whether it runs while the machine sleeps depends on the
// system.
func clock() time.Duration { return time.Since(origin) + time.Hour }
