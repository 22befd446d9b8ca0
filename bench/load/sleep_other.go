//go:build !linux

package load

import "time"

func preciseSleep() {}

func sleep(d time.Duration) { time.Sleep(d) }
