// Package redis drives Redis as a lock: SET with NX and PX, and a script that
// deletes the key only if it still has the holder's value. It speaks RESP
// itself, as batched as the driver of Stile does.
package redis

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/stile-lock/stile/bench/load"
)

const script = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`

// Driver drives the Redis at Addr.
type Driver struct{ Addr string }

// Name is part of load.Driver.
func (d Driver) Name() string { return "redis" }

// Run is part of load.Driver. Redis has no line to wait in: who finds a key held
// asks again after Plan.Retry.
func (d Driver) Run(ctx context.Context, p load.Plan) (*load.Result, error) {
	return load.RunWires(ctx, p, load.Wires{
		Driver: d.Name(),
		Target: d.Addr,
		Traits: load.Traits{Ordered: true},
		Dial:   load.TCP(d.Addr),
		New: func(_ int, space *load.Space, p *load.Plan) load.Wire {
			return newWire(space, p)
		},
	})
}

// valueDigits makes all values equally long, so that what stands around them is
// always the same.
const valueDigits = 20

type wire struct {
	space                    *load.Space
	lease                    time.Duration
	set, setEnd, del, delKey []byte
}

func newWire(space *load.Space, p *load.Plan) *wire {
	sum := sha1.Sum([]byte(script))
	key := fmt.Sprintf("$%d\r\n", p.KeyLength)
	value := fmt.Sprintf("\r\n$%d\r\n", valueDigits)
	lease := strconv.FormatInt(p.Lease.Milliseconds(), 10)
	return &wire{
		space:  space,
		lease:  p.Lease,
		set:    []byte("*6\r\n$3\r\nSET\r\n" + key),
		setEnd: fmt.Appendf(nil, "\r\n$2\r\nNX\r\n$2\r\nPX\r\n$%d\r\n%s\r\n", len(lease), lease),
		del:    []byte("*5\r\n$7\r\nEVALSHA\r\n$40\r\n" + hex.EncodeToString(sum[:]) + "\r\n$1\r\n1\r\n" + key),
		delKey: []byte(value),
	}
}

// Open loads the script.
func (w *wire) Open(c net.Conn) error {
	if _, err := fmt.Fprintf(c, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%d\r\n%s\r\n", len(script), script); err != nil {
		return err
	}
	answer := make([]byte, len("$40\r\n\r\n")+40)
	if n, err := io.ReadFull(c, answer); err != nil || !bytes.HasPrefix(answer, []byte("$40\r\n")) {
		return fmt.Errorf("SCRIPT LOAD is answered %q: is this a Redis? (%v)", answer[:n], err)
	}
	return nil
}

func appendValue(out []byte, s *load.Slot) []byte {
	var digits [valueDigits]byte
	n := s.Serial
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = '0' + byte(n%10)
		n /= 10
	}
	return append(out, digits[:]...)
}

func (w *wire) Acquire(out []byte, s *load.Slot) []byte {
	out = append(out, w.set...)
	out = w.space.Append(out, s.Key)
	out = append(out, w.delKey...)
	out = appendValue(out, s)
	return append(out, w.setEnd...)
}

func (w *wire) Release(out []byte, s *load.Slot) []byte {
	out = append(out, w.del...)
	out = w.space.Append(out, s.Key)
	out = append(out, w.delKey...)
	out = appendValue(out, s)
	return append(out, '\r', '\n')
}

func (w *wire) Cancel(out []byte, _ *load.Slot) []byte { return out }

func (w *wire) Next(in []byte, a *load.Answer) (int, error) {
	end := bytes.IndexByte(in, '\n')
	if end < 0 {
		return 0, nil
	}
	*a = load.Answer{Key: -1, Lease: w.lease}
	switch string(in[:end+1]) {
	case "+OK\r\n":
		a.What = load.Granted
	case "$-1\r\n":
		a.What = load.Busy
	case ":1\r\n":
		a.What = load.Released
	case ":0\r\n":
		a.What = load.NotHeld
	default:
		return end + 1, fmt.Errorf("%w: nothing was asked that it could answer", load.ErrWrong)
	}
	return end + 1, nil
}
