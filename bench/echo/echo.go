// Package echo is the ceiling that a lock server is measured against: a server
// that sends back each line that it gets, in the same shape of connections as a
// Stile node (one goroutine to each, buffered, answers flushed when the reader
// runs dry), and the load to it, which looks like that of Stile.
package echo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/protocol"
)

// Serve echoes on the connections of a listener until it is closed.
func Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go serve(c)
	}
}

func serve(c net.Conn) {
	defer c.Close()
	in, out := bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		out.Write(line)
		// What is left may be the begin of a line whose rest is not here yet: only
		// a whole one may wait for its answer to be sent.
		if rest, _ := in.Peek(in.Buffered()); bytes.IndexByte(rest, '\n') < 0 {
			if out.Flush() != nil {
				return
			}
		}
	}
}

// Driver drives an echo server with the lines of Stile's pairs.
type Driver struct{ Addr string }

// Name is part of load.Driver.
func (d Driver) Name() string { return "echo" }

// Run is part of load.Driver.
func (d Driver) Run(ctx context.Context, p load.Plan) (*load.Result, error) {
	if p.Shared || p.Skew > 0 || p.Contended > 0 || p.Cancel > 0 {
		return nil, errors.New("an echo server knows no keys: they cannot be shared, and no wait cancelled")
	}
	return load.RunWires(ctx, p, load.Wires{
		Driver: d.Name(),
		Target: d.Addr,
		Traits: load.Traits{Ordered: true, Queues: true},
		Dial:   load.TCP(d.Addr),
		New: func(_ int, space *load.Space, p *load.Plan) load.Wire {
			terms := append(protocol.AppendWait([]byte(" "), 0), ' ')
			return &wire{space: space, lease: p.Lease, terms: append(protocol.AppendSeconds(terms, p.Lease), '\n')}
		},
	})
}

// firstToken makes the lines as long as those of a Stile node.
const firstToken = 257698037760000000

type wire struct {
	space  *load.Space
	lease  time.Duration
	terms  []byte
	parsed protocol.Request
}

func (w *wire) Open(net.Conn) error { return nil }

func (w *wire) Acquire(out []byte, s *load.Slot) []byte {
	out = append(out, 'A', ' ')
	out = w.space.Append(out, s.Key)
	return append(out, w.terms...)
}

func (w *wire) Release(out []byte, s *load.Slot) []byte {
	out = append(out, 'R', ' ')
	out = w.space.Append(out, s.Key)
	out = append(out, ' ')
	out = strconv.AppendUint(out, firstToken+s.Serial, 10)
	return append(out, '\n')
}

func (w *wire) Cancel(out []byte, _ *load.Slot) []byte { return out }

func (w *wire) Next(in []byte, a *load.Answer) (int, error) {
	end := bytes.IndexByte(in, '\n')
	if end < 0 {
		return 0, nil
	}
	p := &w.parsed
	if code := protocol.ParseRequest(in[:end], p); code != 0 {
		return end + 1, fmt.Errorf("%w: not a line that was sent", load.ErrWrong)
	}
	*a = load.Answer{What: load.Granted, Key: w.space.Index(p.Key), Lease: w.lease}
	if p.Op == protocol.OpRelease {
		a.What = load.Released
		a.Token = p.Token - firstToken
	}
	return end + 1, nil
}
