// Command stile-testee-go is the testee of the Go client, and the example of
// one: conformance/TESTEE.md has the contract. It takes commands, one JSON
// object per line, from stdin, calls the client library, and writes what the
// library said to stdout. It adds nothing and hides nothing.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stile-lock/stile/client"
)

type request struct {
	ID         int      `json:"id"`
	Do         string   `json:"do"`
	Addrs      []string `json:"addrs"`
	Secret     string   `json:"secret"`
	OnlyListed bool     `json:"only_listed"`
	RetryForMS int64    `json:"retry_for_ms"`
	Key        string   `json:"key"`
	WaitMS     int64    `json:"wait_ms"`
	LeaseMS    int64    `json:"lease_ms"`
	Lock       int      `json:"lock"`
	Call       int      `json:"call"`
}

type reply map[string]any

// testee has the client and, by the id of the request that made them, the
// calls under way and the locks.
type testee struct {
	mu    sync.Mutex
	out   *json.Encoder
	c     *client.Client
	calls map[int]context.CancelFunc
	locks map[int]*client.Lock
}

func main() {
	t := &testee{out: json.NewEncoder(os.Stdout), calls: map[int]context.CancelFunc{}, locks: map[int]*client.Lock{}}
	t.write(reply{
		"stile_testee": 1, "client": "stile-go", "version": "1.0.0",
		"profiles": []string{"core", "keep", "ping", "hello", "resume", "secret", "limits"},
	})
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var r request
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, "bad line:", err)
			os.Exit(1)
		}
		// Each command runs by itself: an acquire that waits holds up none of
		// those after it. What a later command refers to is entered first.
		ctx, cancel := context.WithCancel(context.Background())
		t.mu.Lock()
		t.calls[r.ID] = cancel
		t.mu.Unlock()
		go func() {
			answer := t.do(ctx, r)
			answer["id"] = r.ID
			t.write(answer)
		}()
	}
	if t.c != nil { // end of input: finish and exit
		t.c.Close()
	}
}

// write writes one line. Whole lines only: replies come from many goroutines.
func (t *testee) write(v reply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out.Encode(v)
}

func (t *testee) do(ctx context.Context, r request) reply {
	t.mu.Lock()
	c, lock, cancel := t.c, t.locks[r.Lock], t.calls[r.Call]
	t.mu.Unlock()
	switch r.Do {
	case "dial":
		opts := []client.Option{client.RetryFor(ms(r.RetryForMS))}
		if r.OnlyListed {
			opts = append(opts, client.OnlyListed())
		}
		if r.Secret != "" {
			opts = append(opts, client.Secret(r.Secret))
		}
		c, err := client.Dial(ctx, strings.Join(r.Addrs, ","), opts...)
		if err != nil {
			return failed(err)
		}
		t.mu.Lock()
		t.c = c
		t.mu.Unlock()
		return reply{"ok": true}
	case "acquire":
		opts := []client.AcquireOption{client.Wait(ms(r.WaitMS)), client.Lease(ms(r.LeaseMS))}
		lock, err := c.Acquire(ctx, r.Key, opts...)
		if err != nil {
			return failed(err)
		}
		t.mu.Lock()
		t.locks[r.ID] = lock
		t.mu.Unlock()
		context.AfterFunc(lock.Context(), func() {
			if errors.Is(context.Cause(lock.Context()), client.ErrLeaseLost) {
				t.write(reply{"event": "lost", "lock": r.ID})
			}
		})
		return reply{"ok": true, "token": strconv.FormatUint(lock.Token(), 10), "expires_in_ms": left(lock)}
	case "cancel":
		cancel()
		return reply{"ok": true}
	case "close":
		c.Close()
		return reply{"ok": true}
	}
	if lock == nil {
		return reply{"failed": fmt.Sprintf("%s: no lock %d", r.Do, r.Lock)}
	}
	switch r.Do {
	case "release":
		if err := lock.Release(ctx); err != nil {
			return failed(err)
		}
		return reply{"ok": true}
	case "keep":
		if err := lock.Keep(ctx, ms(r.LeaseMS)); err != nil {
			return failed(err)
		}
		return reply{"ok": true, "expires_in_ms": left(lock)}
	case "lock":
		return reply{"ok": true, "held": lock.Context().Err() == nil, "expires_in_ms": left(lock)}
	}
	return reply{"unsupported": r.Do}
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func left(l *client.Lock) float64 { return float64(time.Until(l.Expires()).Microseconds()) / 1000 }

// failed says what the client reported, in the contract's words.
func failed(err error) reply {
	r := reply{"error": "other", "text": err.Error()}
	r["outcome"] = map[client.Outcome]string{
		client.DidNotHappen: "no", client.MayHaveHappened: "maybe", client.Happened: "yes"}[client.OutcomeOf(err)]
	for kind, target := range map[string]error{
		"timeout": client.ErrTimeout, "not_held": client.ErrNotHeld, "no_connection": client.ErrNoConnection,
		"no_active": client.ErrNoActive, "undelivered": client.ErrUndelivered, "closed": client.ErrClosed,
		"bad_argument": client.ErrInvalid, "cancelled": context.Canceled, "unsupported": errors.ErrUnsupported,
	} {
		if errors.Is(err, target) {
			r["error"] = kind
		}
	}
	if errors.Is(err, client.ErrBadKey) {
		r["error"] = "bad_argument"
	}
	var refused *client.ServerError
	if errors.As(err, &refused) {
		r["error"], r["code"] = "refused", refused.Name
	}
	return r
}
