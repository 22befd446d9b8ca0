package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestMisfits starts and kills nodes whose settings differ, so that there is no
// link between them. One that starts must see that the other is there: never do
// two serve. And whoever has the table takes over, whatever misfits are there.
func TestMisfits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w *world
		w = newWorld(rapid.IntRange(2, 4).Draw(t, "nodes"), usual(), func(format string, args ...any) {
			t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), w.tail())
		})
		boot := func(n *node) {
			n.settings = rapid.IntRange(0, 1).Draw(t, "settings")
			w.printf("---- boot %d, settings %d", n.id, n.settings)
			n.start(w.cfg.FailureTimeout)
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			n := w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(t, "node")]
			if n.m == nil {
				boot(n)
			} else {
				w.printf("---- crash %d", n.id)
				n.crash()
			}
			w.tick(25*time.Millisecond*time.Duration(rapid.IntRange(1, 200).Draw(t, "ticks")), true)
			if strings.Contains(w.out.String(), "these serve at the same time") {
				t.Fatalf("two serve\n%s", w.tail())
			}
		}
		// Who has the table of the last reign, and nobody else, is one to serve.
		w.tick(5*time.Second, true)
		var has, serves *node
		for _, n := range w.nodes {
			if n.m != nil && n.mode == Serve {
				serves = n
			}
			if n.m != nil && !n.m.hasNothing() {
				has = n
			}
		}
		if has != nil && serves == nil {
			t.Fatalf("%d has a table, and nobody serves\n%s", has.id, w.tail())
		}
		// Alone, anybody serves.
		for _, n := range w.nodes[1:] {
			if n.m != nil {
				n.crash()
			}
		}
		if w.nodes[0].m == nil {
			boot(w.nodes[0])
		}
		w.tick(time.Second, true)
		if w.nodes[0].mode != Serve {
			t.Fatalf("0 is alone, and does not serve\n%s", w.tail())
		}
	})
}
