package workload

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stile-lock/stile/bench/internal/fake"
	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/proc"
)

// inBubble runs something against a fake server in the bubble's time.
func inBubble(t *testing.T, s *fake.Server, do func(ctx context.Context, d load.Dial)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.Service = time.Millisecond
		do(t.Context(), func(context.Context) (net.Conn, error) { return s.Dial(), nil })
		s.Wait()
	})
}

func TestRelay(t *testing.T) {
	for _, way := range ways {
		inBubble(t, &fake.Server{}, func(ctx context.Context, d load.Dial) {
			l, err := relay{waiters: 5, warmup: 50 * time.Millisecond, duration: 500 * time.Millisecond, way: way}.run(ctx, d)
			// The release takes the server a millisecond.
			if err != nil || l.Count < 50 || l.P50 < 999 || l.P50 > 2500 {
				t.Errorf("%s: %+v, %v", way.name, l, err)
			}
		})
	}
}

func TestRelayWrong(t *testing.T) {
	for says, s := range map[string]*fake.Server{
		// The key goes to the next in line before it is given back. Either of the
		// two holders may be the one to notice.
		"wrong":       {Steal: true},
		"where":       {Spoil: spoil("R", func(f []string) string { return "R " + f[1] + " 7" })},
		"not greater": {Spoil: spoil("A", func(f []string) string { return "A " + f[1] + " 7 30" })},
	} {
		inBubble(t, s, func(ctx context.Context, d load.Dial) {
			_, err := relay{waiters: 5, duration: 5 * time.Second}.run(ctx, d)
			if !errors.Is(err, load.ErrWrong) || !strings.Contains(err.Error(), says) {
				t.Errorf("the error is %v, want one that says %q", err, says)
			}
		})
	}
	refusal := &fake.Server{Spoil: spoil("A", func(f []string) string { return "E A " + f[1] + " queue-full" })}
	inBubble(t, refusal, func(ctx context.Context, d load.Dial) {
		if _, err := (relay{waiters: 5, duration: 5 * time.Second}).run(ctx, d); !excused(err) {
			t.Errorf("the error is %v", err)
		}
	})
}

// spoil changes the answers of an op, from some point on.
func spoil(op string, change func(f []string) string) func(int, string, string) string {
	return func(n int, _, answer string) string {
		if f := strings.Fields(answer); n > 50 && f[0] == op {
			return change(f)
		}
		return answer
	}
}

func TestRoundTrip(t *testing.T) {
	// This fake server echoes a release, whatever it thinks of it.
	echo := &fake.Server{Spoil: func(_ int, request, _ string) string { return request }}
	inBubble(t, echo, func(ctx context.Context, d load.Dial) {
		l, err := roundTrip(ctx, d, 10*time.Millisecond, 100*time.Millisecond)
		if err != nil || l.Count < 98 || l.P50 < 999 || l.P50 > 1001 {
			t.Errorf("%+v, %v", l, err)
		}
	})
	other := &fake.Server{Spoil: func(_ int, request, _ string) string { return request + "0" }}
	inBubble(t, other, func(ctx context.Context, d load.Dial) {
		if _, err := roundTrip(ctx, d, 0, time.Second); !errors.Is(err, load.ErrWrong) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestGiveUp(t *testing.T) {
	for answers, want := range map[string]string{
		"A door 1 30/C door n": "granted",
		"C door n/A door 1 30": "granted",
		"T door/C door n":      "gone",
		"C door n/T door":      "gone",
		"T door/T door":        "wrong",
		"C door n/C door n":    "wrong",
		"T door/C door m":      "wrong",
		"T window/C door n":    "wrong",
	} {
		got := "gone"
		s := &fake.Server{Spoil: func(n int, _, _ string) string { return strings.Split(answers, "/")[n-1] }}
		inBubble(t, s, func(ctx context.Context, d load.Dial) {
			c, err := dial(ctx, d)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			granted, err := c.giveUp("door", "n", time.Minute)
			switch {
			case errors.Is(err, load.ErrWrong):
				got = "wrong"
			case err != nil:
				got = err.Error()
			case granted:
				got = "granted"
			}
		})
		if got != want {
			t.Errorf("%s: %s, want %s", answers, got, want)
		}
	}
}

func TestFill(t *testing.T) {
	for _, way := range ways {
		var mu sync.Mutex
		granted, cancels := map[string]bool{}, 0
		s := &fake.Server{Spoil: func(_ int, request, answer string) string {
			mu.Lock()
			defer mu.Unlock()
			switch answer[0] {
			case 'A':
				granted[strings.Fields(request)[1]] = true
			case 'C':
				cancels++
			}
			return answer
		}}
		if err := (filler{keys: 1234, way: way}).fill(t.Context(), fake.Listen(t, s)); err != nil {
			t.Fatal(err)
		}
		if want := int(1234*way.cancel + 0.9); len(granted) != 1234 || cancels != want {
			t.Errorf("%s: %d keys are held, %d waits were cancelled, want %d", way.name, len(granted), cancels, want)
		}
	}
	// A key that another client holds already is no free key.
	addr := fake.Listen(t, &fake.Server{Spoil: spoil("A", func(f []string) string { return "T " + f[1] })})
	if err := (filler{keys: 1234}).fill(t.Context(), addr); !errors.Is(err, load.ErrWrong) {
		t.Errorf("the error is %v", err)
	}
}

func TestIdle(t *testing.T) {
	for _, way := range ways {
		s := &fake.Server{}
		open, err := idle(t.Context(), fake.Listen(t, s), 30, way)
		if err != nil || len(open) != 30 {
			t.Errorf("%s: %d, %v", way.name, len(open), err)
		}
		closeAll(open)
	}
	if most, known := proc.MaxFiles(); known {
		if _, err := idle(t.Context(), "127.0.0.1:1", most, core); !excused(err) || !strings.Contains(err.Error(), "ulimit") {
			t.Errorf("the error is %v", err)
		}
	}
}

// counted is a node of which only the number of waiters is known.
func counted(t *testing.T, addr string, waiting func() int) *proc.Node {
	t.Helper()
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]int{"waiting": waiting()})
	}))
	t.Cleanup(admin.Close)
	self, err := proc.Start("sleep", "60")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(self.Kill)
	return &proc.Node{Process: self, Addr: addr, Admin: strings.TrimPrefix(admin.URL, "http://")}
}

// herdOf runs a crowd against a fake server. Spoilt, it answers one waiter twice.
func herdOf(t *testing.T, way way, spoilt bool) (stampede, error) {
	t.Helper()
	c := crowd{waiters: 20, releases: 5, way: way}
	var mu sync.Mutex
	grants, cancels := 0, 0
	s := &fake.Server{Spoil: func(_ int, request, answer string) string {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(request, "idle/") {
			return answer
		}
		switch answer[0] {
		case 'A':
			if grants++; spoilt && grants == 4 {
				return answer + "\n" + answer
			}
		case 'C':
			cancels++
		}
		return answer
	}}
	node := counted(t, fake.Listen(t, s), func() int {
		mu.Lock()
		defer mu.Unlock()
		// The first grant is the holder's.
		return c.waiters - cancels - max(grants-1, 0)
	})
	return c.run(t.Context(), node)
}

func TestHerd(t *testing.T) {
	for _, way := range ways {
		r, err := herdOf(t, way, false)
		if err != nil || r.woken != 1 || r.latency.Count != 5 {
			t.Errorf("%s: %+v, %v", way.name, r, err)
		}
		if _, err := herdOf(t, way, true); !errors.Is(err, load.ErrWrong) {
			t.Errorf("%s: the error is %v", way.name, err)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1_234_567: "1,234,567"} {
		if got := count(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
