package cluster

import (
	"testing"

	"github.com/stile-lock/stile/server/internal/purity"
)

// TestImports keeps I/O, clocks and goroutines out: what a node is must be a
// matter of its events and their times alone.
func TestImports(t *testing.T) {
	purity.Check(t, map[string][]string{
		"encoding/binary": nil,
		"errors":          nil,
		"fmt":             {"Sprintf"},
		"log/slog": {
			"Attr", "Any", "Bool", "Duration", "Int", "String", "Uint64",
			"Level", "LevelDebug", "LevelInfo", "LevelWarn", "LevelError",
		},
		"math/bits": nil,
		"slices":    nil,
		"strconv":   nil,
		"strings":   {"Join"},
		"time":      {"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"},

		"github.com/stile-lock/stile/server/internal/broken": {"Rule"},
		"github.com/stile-lock/stile/server/replica":         nil,
	})
}
