package member

import (
	"testing"

	"github.com/stile-lock/stile/server/internal/purity"
)

// TestImports keeps I/O, clocks and goroutines out. What the writers of the
// links pull is shared with them, so there are locks.
func TestImports(t *testing.T) {
	purity.Check(t, map[string][]string{
		"errors": nil,
		"log/slog": {
			"Attr", "Any", "Bool", "Duration", "Int", "String", "Uint64",
			"Level", "LevelDebug", "LevelInfo", "LevelWarn", "LevelError",
		},
		"math/bits":   nil,
		"slices":      nil,
		"sync":        {"Mutex"},
		"sync/atomic": nil,
		"time":        {"Duration"},

		"github.com/stile-lock/stile/server/cluster":         nil,
		"github.com/stile-lock/stile/server/internal/broken": {"Rule"},
		"github.com/stile-lock/stile/server/fencing":         {"Node", "Epoch", "Token"},
		"github.com/stile-lock/stile/server/lockspace":       nil,
		"github.com/stile-lock/stile/server/replica":         nil,
	})
}
