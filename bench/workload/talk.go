package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"time"

	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/proc"
	"github.com/stile-lock/stile/bench/stile"
	"github.com/stile-lock/stile/protocol"
)

// talk is a connection of a workload that says each line by itself. One goroutine
// may read while another writes.
type talk struct {
	nc    net.Conn
	out   []byte
	lines protocol.Lines
	a     protocol.Answer
}

const (
	// patience is how long any answer may take.
	patience = 30 * time.Second
	// longLease outlasts every measurement.
	longLease = 12 * time.Hour
)

func dial(ctx context.Context, dial load.Dial) (*talk, error) {
	nc, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	// Who waits in a read has to hear of the end, too.
	context.AfterFunc(ctx, func() { nc.Close() })
	return &talk{nc: nc}, nil
}

// Close closes the connection.
func (t *talk) Close() error { return t.nc.Close() }

func closeAll[C io.Closer](conns []C) {
	for _, c := range conns {
		c.Close()
	}
}

func (t *talk) acquire(key string, wait, lease time.Duration, nonce string) {
	t.out = protocol.AppendAcquire(t.out, []byte(key), wait, lease, []byte(nonce))
}

func (t *talk) release(key string, token uint64) {
	t.out = protocol.AppendRelease(t.out, []byte(key), token)
}

func (t *talk) cancel(key, nonce string) {
	t.out = protocol.AppendCancel(t.out, []byte(key), []byte(nonce))
}

func (t *talk) send() error {
	_, err := t.nc.Write(t.out)
	t.out = t.out[:0]
	return err
}

// answer reads the next answer. It is valid until the next call.
func (t *talk) answer(limit time.Duration) (*protocol.Answer, error) {
	for {
		line, ok, err := t.lines.Next()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", load.ErrWrong, err)
		}
		if ok {
			if err := protocol.ParseAnswer(line, &t.a); err != nil {
				return nil, fmt.Errorf("%w: %q: %w", load.ErrWrong, line, err)
			}
			return &t.a, nil
		}
		t.nc.SetReadDeadline(time.Now().Add(limit))
		n, err := t.nc.Read(t.lines.Free())
		if err != nil {
			return nil, err
		}
		t.lines.Fed(n)
	}
}

// expect reads an answer that must be of an op and a key.
func (t *talk) expect(op protocol.Op, key string) (*protocol.Answer, error) {
	a, err := t.answer(patience)
	if err != nil {
		return nil, fmt.Errorf("no answer %s %s: %w", op, key, err)
	}
	if a.Op != op || string(a.Key) != key {
		return nil, unexpected(a, fmt.Sprintf("%s %s", op, key))
	}
	return a, nil
}

// unexpected is the error of an answer that is not the one that was due.
func unexpected(a *protocol.Answer, due string) error {
	if err := stile.Refused(a); err != nil {
		return err
	}
	return fmt.Errorf("%w: %.200q, where %s was due", load.ErrWrong, protocol.AppendAnswer(nil, a), due)
}

// greet says what a client says first in a way.
func (t *talk) greet(w way) error {
	if !w.nonces {
		return nil
	}
	t.out = protocol.AppendHello(t.out, []byte("stile-bench"), nil)
	if err := t.send(); err != nil {
		return err
	}
	_, err := t.expect(protocol.OpHello, protocol.Version)
	return err
}

func (t *talk) ping(word string) error {
	t.out = protocol.AppendPing(t.out, []byte(word))
	if err := t.send(); err != nil {
		return err
	}
	_, err := t.expect(protocol.OpPing, word)
	return err
}

// giveUp asks for a key and cancels that at once. It reports whether the key was
// granted in between; the cancel then gave it back.
func (t *talk) giveUp(key, nonce string, lease time.Duration) (granted bool, err error) {
	t.acquire(key, 0, lease, nonce)
	t.cancel(key, nonce)
	if err := t.send(); err != nil {
		return false, err
	}
	var ended, cancelled bool
	for !ended || !cancelled {
		a, err := t.answer(patience)
		switch {
		case err != nil:
			return false, fmt.Errorf("no answer to an acquire and its cancel: %w", err)
		case string(a.Key) != key:
			return false, unexpected(a, "the end of a cancelled acquire of "+key)
		case a.Op == protocol.OpCancel && string(a.Nonce) == nonce && !cancelled:
			cancelled = true
		case (a.Op == protocol.OpTimeout || a.Op == protocol.OpAcquire) && !ended:
			ended, granted = true, a.Op == protocol.OpAcquire
		default:
			return false, unexpected(a, "the end of a cancelled acquire of "+key)
		}
	}
	return granted, nil
}

// nonce is the nonce of the n-th acquire of some kind, in ways that have any.
func (w way) nonce(kind string, n int) string {
	if !w.nonces {
		return ""
	}
	return "bench-" + kind + "-" + strconv.Itoa(n)
}

// cancels reports whether the n-th wait is one of those that are cancelled.
func (w way) cancels(n int) bool {
	return w.cancel > 0 && n%int(math.Round(1/w.cancel)) == 0
}

// idle opens connections that say a little and are silent then. In the way in
// which waits are cancelled that happens to some of them before.
func idle(ctx context.Context, addr string, n int, w way) (open []*talk, err error) {
	const spare = 200 // files that are open besides
	if most, known := proc.MaxFiles(); known && n+spare > most {
		return nil, fmt.Errorf("%w: %d connections need %d open files, %d are allowed (ulimit -n)", errors.ErrUnsupported, n, n+spare, most)
	}
	defer func() {
		if err != nil {
			closeAll(open)
			err = fmt.Errorf("connection %d of %d that stay open: %w", len(open), n, err)
		}
	}()
	const key = "idle/0000000000000000000a" // held by the first, if somebody waits
	for i := range n {
		t, err := dial(ctx, load.TCP(addr))
		if err != nil {
			return open, err
		}
		open = append(open, t)
		if err := t.greet(w); err != nil {
			return open, err
		}
		if err := t.ping("idle"); err != nil {
			return open, err
		}
		if w.cancel > 0 && i == 0 {
			t.acquire(key, protocol.NoQueue, longLease, "")
			if err := t.send(); err != nil {
				return open, err
			}
			if _, err := t.expect(protocol.OpAcquire, key); err != nil {
				return open, err
			}
		}
		if w.cancels(i) {
			if _, err := t.giveUp(key, w.nonce("idle", i), longLease); err != nil {
				return open, err
			}
		}
	}
	return open, nil
}
