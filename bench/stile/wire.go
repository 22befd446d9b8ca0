// Package stile drives Stile: by its wire protocol, or by the Go client.
package stile

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strconv"

	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/protocol"
)

// Raw speaks the wire protocol as a core client does, or with nonces as the Go
// client does.
type Raw struct {
	Addr   string
	Nonces bool
	Secret string
}

// Name is part of load.Driver.
func (d Raw) Name() string {
	if d.Nonces {
		return "stile, nonces"
	}
	return "stile, core"
}

// Run is part of load.Driver.
func (d Raw) Run(ctx context.Context, p load.Plan) (*load.Result, error) {
	return load.RunWires(ctx, p, d.Wires())
}

// Wires says how the load is made.
func (d Raw) Wires() load.Wires {
	return load.Wires{
		Driver: d.Name(),
		Target: d.Addr,
		Traits: load.Traits{Fenced: true, Queues: true, Cancels: d.Nonces},
		Dial:   load.TCP(d.Addr),
		New:    d.wire,
	}
}

func (d Raw) wire(connection int, space *load.Space, p *load.Plan) load.Wire {
	w := &wire{space: space, connection: uint64(connection), secret: d.Secret, hello: d.Nonces || d.Secret != ""}
	// A new line is only a copy: what is the same in each is made once.
	w.terms = append(protocol.AppendWait([]byte(" "), 0), ' ')
	w.terms = protocol.AppendSeconds(w.terms, p.Lease)
	if d.Nonces {
		w.nonce = []byte(rand.Text()[:16])
	}
	return w
}

type wire struct {
	space      *load.Space
	connection uint64
	terms      []byte // " wait lease"
	nonce      []byte // begin of all nonces; empty: none are sent
	hello      bool
	secret     string
	parsed     protocol.Answer
}

func (w *wire) Open(c net.Conn) error {
	if !w.hello {
		return nil
	}
	if _, err := c.Write(protocol.AppendHello(nil, []byte("stile-bench"), []byte(w.secret))); err != nil {
		return err
	}
	line, err := readLine(c)
	if err != nil {
		return fmt.Errorf("no answer to the hello: %w", err)
	}
	if err := protocol.ParseAnswer(line, &w.parsed); err != nil || w.parsed.Op != protocol.OpHello {
		return fmt.Errorf("the hello is answered %q: is this a Stile node, and the secret right?", line)
	}
	if len(w.nonce) > 0 && !w.parsed.HasProfile("resume") {
		return fmt.Errorf("the node at %s takes no nonces: drive it as core", c.RemoteAddr())
	}
	return nil
}

// readLine reads a line byte by byte, so that nothing behind it is lost.
func readLine(c net.Conn) ([]byte, error) {
	var line []byte
	for one := make([]byte, 1); len(line) < protocol.MaxLine; {
		if _, err := c.Read(one); err != nil {
			return nil, err
		}
		if one[0] == '\n' {
			return line, nil
		}
		line = append(line, one[0])
	}
	return nil, protocol.ErrLineTooLong
}

func (w *wire) Acquire(out []byte, s *load.Slot) []byte {
	out = append(out, 'A', ' ')
	out = w.space.Append(out, s.Key)
	out = append(out, w.terms...)
	if len(w.nonce) > 0 {
		out = append(out, ' ')
		out = w.appendNonce(out, s)
	}
	return append(out, '\n')
}

// serialBits of a serial number are counted on one connection. The nonce has
// only those, and so fits: other connections have another begin.
const serialBits = 40

func (w *wire) appendNonce(out []byte, s *load.Slot) []byte {
	out = append(out, w.nonce...)
	return strconv.AppendUint(out, s.Serial&(1<<serialBits-1), 10)
}

func (w *wire) Release(out []byte, s *load.Slot) []byte {
	out = append(out, 'R', ' ')
	out = w.space.Append(out, s.Key)
	out = append(out, ' ')
	out = strconv.AppendUint(out, s.Token, 10)
	return append(out, '\n')
}

func (w *wire) Cancel(out []byte, s *load.Slot) []byte {
	out = append(out, 'C', ' ')
	out = w.space.Append(out, s.Key)
	out = append(out, ' ')
	out = w.appendNonce(out, s)
	return append(out, '\n')
}

func (w *wire) Next(in []byte, a *load.Answer) (int, error) {
	end := bytes.IndexByte(in, '\n')
	if end < 0 {
		return 0, nil
	}
	p := &w.parsed
	if err := protocol.ParseAnswer(in[:end], p); err != nil {
		return end + 1, fmt.Errorf("%w: %w", load.ErrWrong, err)
	}
	*a = load.Answer{Key: w.space.Index(p.Key), Token: p.Token, Lease: p.Lease}
	switch {
	case p.Op == protocol.OpAcquire:
		a.What = load.Granted
	case p.Op == protocol.OpRelease:
		a.What = load.Released
	case p.Op == protocol.OpTimeout:
		a.What = load.TimedOut
	case p.Op == protocol.OpCancel:
		a.What = load.Cancelled
		a.Serial = w.serial(p.Nonce)
	case p.Op == protocol.OpError && p.For == protocol.OpRelease && p.Code == protocol.CodeNotHeld:
		a.What = load.NotHeld
	default:
		if err := Refused(p); err != nil {
			return end + 1, err
		}
		return end + 1, fmt.Errorf("%w: nothing was asked that it could answer", load.ErrWrong)
	}
	return end + 1, nil
}

// Refused returns an error that wraps load.ErrRefused if an answer refuses a
// request that has nothing wrong with it, else nil.
func Refused(a *protocol.Answer) error {
	if a.Op == protocol.OpMoved {
		return fmt.Errorf("%w: another node is active: give the load its address, %s", load.ErrRefused, a.Addr)
	}
	if a.Op != protocol.OpError {
		return nil
	}
	switch a.Code {
	case protocol.CodeQueueFull, protocol.CodeLimit, protocol.CodeUnauthorized, protocol.CodeNoActive, protocol.CodeStopping:
		return fmt.Errorf("%w: %s: %s", load.ErrRefused, a.CodeName, a.Code.Meaning())
	}
	return nil
}

// serial returns the serial number that a nonce of this connection was made of,
// 0 for another nonce.
func (w *wire) serial(nonce []byte) uint64 {
	if !bytes.HasPrefix(nonce, w.nonce) || len(nonce) == len(w.nonce) {
		return 0
	}
	var n uint64
	for _, d := range nonce[len(w.nonce):] {
		if d < '0' || d > '9' {
			return 0
		}
		n = 10*n + uint64(d-'0')
	}
	return w.connection<<serialBits | n
}
