package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stile-lock/stile/conformance/testee"
	"github.com/stile-lock/stile/protocol"
)

// Program is the plain client as a testee, within this process.
func Program(name string, f Faults) testee.Program {
	return testee.Func{Name: name, Run: func(in io.Reader, out io.Writer) {
		d := &driver{f: f, out: json.NewEncoder(out), calls: map[int]context.CancelFunc{}, locks: map[int]*lock{}}
		d.run(in)
	}}
}

type driver struct {
	f     Faults
	mu    sync.Mutex
	out   *json.Encoder
	c     *Client
	calls map[int]context.CancelFunc
	locks map[int]*lock
}

func (d *driver) write(v any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.out.Encode(v)
}

func (d *driver) run(in io.Reader) {
	profiles := []string{"core", "keep", "ping", "hello", "resume", "secret", "limits"}
	d.write(testee.Hello{Contract: testee.Contract, Client: "plain", Version: "1", Profiles: profiles})
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	var running sync.WaitGroup
	for lines.Scan() {
		var r testee.Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		d.mu.Lock()
		d.calls[r.ID] = cancel
		d.mu.Unlock()
		running.Go(func() {
			reply := d.do(ctx, r)
			reply.ID = r.ID
			d.write(reply)
		})
	}
	d.mu.Lock()
	c := d.c
	for _, cancel := range d.calls {
		cancel()
	}
	d.mu.Unlock()
	if c != nil {
		c.close()
	}
	running.Wait()
}

func (d *driver) do(ctx context.Context, r testee.Request) testee.Reply {
	d.mu.Lock()
	c, l, cancel := d.c, d.locks[r.Lock], d.calls[r.Call]
	d.mu.Unlock()
	ms := func(n *int64) time.Duration {
		if n == nil {
			return 0
		}
		return time.Duration(*n) * time.Millisecond
	}
	switch r.Do {
	case "dial":
		if r.Secret != "" && !d.f.SecretUnchecked && !protocol.ValidSecret([]byte(r.Secret)) {
			return testee.Reply{Error: "bad_argument", Outcome: "no", Text: "a secret that the wire can't carry"}
		}
		c := dial(d.f, r.Addrs, r.Secret, r.OnlyListed, time.Duration(r.RetryForMS)*time.Millisecond)
		d.mu.Lock()
		d.c = c
		d.mu.Unlock()
		return testee.Reply{OK: true}
	case "acquire":
		l, f := c.acquire(ctx, *r.Key, ms(r.WaitMS), ms(r.LeaseMS))
		if f != nil {
			return describe(f)
		}
		d.mu.Lock()
		d.locks[r.ID] = l
		d.mu.Unlock()
		c.mu.Lock()
		l.tell = func() { d.write(map[string]any{"event": "lost", "lock": r.ID}) }
		if l.lost {
			go l.tell()
		}
		c.mu.Unlock()
		return testee.Reply{OK: true, Token: l.token, ExpiresInMS: left(l)}
	case "cancel":
		cancel()
		return testee.Reply{OK: true}
	case "close":
		c.close()
		return testee.Reply{OK: true}
	}
	if l == nil {
		return testee.Reply{Failed: fmt.Sprintf("no lock %d", r.Lock)}
	}
	switch r.Do {
	case "release":
		if f := l.release(ctx); f != nil {
			return describe(f)
		}
		return testee.Reply{OK: true}
	case "keep":
		if f := l.keep(ctx, ms(r.LeaseMS)); f != nil {
			return describe(f)
		}
		return testee.Reply{OK: true, ExpiresInMS: left(l)}
	case "lock":
		c.mu.Lock()
		held := !l.lost && !l.released
		c.mu.Unlock()
		return testee.Reply{OK: true, Held: &held, ExpiresInMS: left(l)}
	}
	return testee.Reply{Unsupported: r.Do}
}

func describe(f *failure) testee.Reply {
	return testee.Reply{Error: f.kind, Code: f.code, Outcome: f.outcome, Text: f.text}
}

func left(l *lock) *float64 {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	ms := float64(time.Until(l.expires).Microseconds()) / 1000
	return &ms
}
