package gate

import (
	"testing"

	"github.com/stile-lock/stile/server/internal/purity"
)

// TestImports keeps I/O, clocks and goroutines out.
func TestImports(t *testing.T) {
	purity.Check(t, map[string][]string{
		"time": {"Duration"},

		"github.com/stile-lock/stile/protocol":         nil,
		"github.com/stile-lock/stile/server/cluster":   {"Mode", "Hold", "Freeze", "Serve", "Redirect", "Refuse", "Ending"},
		"github.com/stile-lock/stile/server/lockspace": nil,
	})
}
