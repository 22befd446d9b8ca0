package peer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stile-lock/stile/server/fencing"
)

// What is no first line of a node of this release is refused before anything
// is made of it: node ids are places in tables of fencing.MaxNodes.
func TestParseLine(t *testing.T) {
	nonce := strings.Repeat("0a", nonceSize)
	line := func(from, to any) string {
		return fmt.Sprintf("N %d %v %v 1f 2e %s\n", version, from, to, nonce)
	}
	g, _, err := parseLine([]byte(line(fencing.MaxNodes-1, 0)))
	if err != nil || g.from != fencing.MaxNodes-1 || g.to != 0 || g.boot != 0x1f || g.dial != 0x2e {
		t.Errorf("%+v, %v", g, err)
	}
	for _, bad := range []string{
		line(fencing.MaxNodes, 0), line(0, fencing.MaxNodes), line(255, 1), line(1, 256), line(-1, 0), line("x", 0),
		"N\n", "N x\n", "N 0 1 2\n", strings.TrimSuffix(line(0, 1), "0a\n") + "\n", strings.TrimSuffix(line(0, 1), "\n") + " more\n", "M" + line(0, 1)[1:],
	} {
		if g, _, err := parseLine([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, g)
		}
	}
}
