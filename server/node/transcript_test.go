package node_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stile-lock/stile/server/fencing"
	"github.com/stile-lock/stile/server/node"
)

const spec = "../../protocol/SPEC.md"

// The node that the transcripts are written for (SPEC.md 16).
const (
	transcriptEpoch = 60_000_000
	transcriptAddr  = "127.0.0.1:5625"
)

// TestTranscripts replays every transcript of SPEC.md, byte by byte and on
// virtual time.
func TestTranscripts(t *testing.T) {
	blocks := transcripts(t)
	if len(blocks) < 12 {
		t.Fatalf("%s has %d transcripts: they are the heart of it", spec, len(blocks))
	}
	for _, b := range blocks {
		t.Run(b.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { b.replay(t) })
		})
	}
}

type transcript struct {
	name, secret string
	at           int // line number of the first step
	steps        []string
}

func transcripts(t *testing.T) (blocks []transcript) {
	raw, err := os.ReadFile(spec)
	if err != nil {
		t.Fatal(err)
	}
	var b *transcript
	for i, line := range strings.Split(string(raw), "\n") {
		switch {
		case b == nil && strings.HasPrefix(line, "```transcript"):
			b = &transcript{at: i + 2}
			for _, attr := range strings.Fields(line)[1:] {
				switch k, v, _ := strings.Cut(attr, "="); k {
				case "name":
					b.name = v
				case "secret":
					b.secret = v
				default:
					t.Fatalf("%s:%d: unknown attribute %q", spec, i+1, attr)
				}
			}
		case b != nil && line == "```":
			blocks, b = append(blocks, *b), nil
		case b != nil:
			b.steps = append(b.steps, line)
		}
	}
	return blocks
}

// secrets are those of its node.
func (b *transcript) secrets() (set [][]byte) {
	if b.secret != "" {
		set = append(set, []byte(b.secret))
	}
	return set
}

// replay plays one transcript against a fresh node.
func (b *transcript) replay(t *testing.T) {
	n := newNode(t, node.Config{Advertise: transcriptAddr, Secrets: b.secrets()})
	conns := map[string]*peer{}
	for i, step := range b.steps {
		at := fmt.Sprintf("%s:%d: %s", spec, b.at+i, step)
		who, what, _ := strings.Cut(step, " ")
		if who == "" || who[0] == '#' {
			continue
		}
		if who == "wait" {
			seconds, err := strconv.ParseFloat(what, 64)
			if err != nil {
				t.Fatalf("%s: %v", at, err)
			}
			time.Sleep(time.Duration(seconds * float64(time.Second)))
			synctest.Wait()
			continue
		}
		id := strings.TrimRight(who, "<>")
		c := conns[id]
		if c == nil {
			c = dial(t, n)
			conns[id] = c
		}
		switch {
		case strings.HasSuffix(who, ">"):
			c.send(t, what)
			synctest.Wait()
		case strings.HasSuffix(who, "<"):
			got, ok := c.next()
			if !ok {
				t.Fatalf("%s: nothing was received", at)
			}
			if got != what && !(what[0] == 'E' && strings.HasPrefix(got, what+" ")) {
				t.Fatalf("%s\nreceived %q", at, got)
			}
		case what == "drop":
			c.Close()
			synctest.Wait()
		case what == "closed":
			if !c.closed() {
				t.Fatalf("%s: the server has not closed it", at)
			}
		default:
			t.Fatalf("%s: not a step", at)
		}
	}
	for id, c := range conns {
		if got, ok := c.next(); ok {
			t.Errorf("%s: transcript %s leaves %q unread on connection %s", spec, b.name, got, id)
		}
	}
}

// newNode returns a node with the tokens of the transcripts that is stopped
// at the end of the test.
func newNode(t *testing.T, cfg node.Config) *node.Node {
	t.Helper()
	if cfg.Tokens == nil {
		cfg.Tokens = fencing.NewAllocator(transcriptEpoch, 0, 0).Next
	}
	n := node.New(cfg)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := n.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return n
}

// peer is the client's end of a connection in memory. A goroutine reads it
// all the time.
type peer struct {
	net.Conn
	mu    sync.Mutex
	lines []string
	eof   bool
}

func dial(t *testing.T, n *node.Node) *peer {
	t.Helper()
	ours, theirs := net.Pipe()
	if !n.ServeConn(theirs) {
		t.Fatal("the node has no room for the connection")
	}
	c := &peer{Conn: ours}
	go func() {
		in := bufio.NewReader(ours)
		for {
			line, err := in.ReadString('\n')
			c.mu.Lock()
			if err != nil {
				c.eof = true
				c.mu.Unlock()
				return
			}
			c.lines = append(c.lines, strings.TrimSuffix(line, "\n"))
			c.mu.Unlock()
		}
	}()
	t.Cleanup(func() { ours.Close() })
	return c
}

// send writes lines at once.
func (c *peer) send(t *testing.T, lines ...string) {
	t.Helper()
	if _, err := c.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		t.Fatalf("sending %q: %v", lines, err)
	}
}

// next takes the next line received so far.
func (c *peer) next() (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lines) == 0 {
		return "", false
	}
	line := c.lines[0]
	c.lines = slices.Delete(c.lines, 0, 1)
	return line, true
}

// all takes all lines received so far.
func (c *peer) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := c.lines
	c.lines = nil
	return lines
}

func (c *peer) closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.eof
}
