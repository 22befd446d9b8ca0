package lockspace

import (
	"testing"

	"github.com/stile-lock/stile/server/internal/purity"
)

// TestImports keeps I/O, clocks and goroutines out: what time it is comes in
// as an argument, and the table's behaviour is a matter of its calls alone.
func TestImports(t *testing.T) {
	purity.Check(t, map[string][]string{
		"bytes":     nil,
		"fmt":       {"Sprintf"},
		"math":      nil,
		"math/bits": nil,
		"slices":    nil,
		"strconv":   nil,
		"time":      {"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"},

		"github.com/stile-lock/stile/protocol":             nil,
		"github.com/stile-lock/stile/protocol/invariants":  nil,
		"github.com/stile-lock/stile/server/internal/hist": nil,
		"github.com/zeebo/xxh3":                            nil,
	})
}
