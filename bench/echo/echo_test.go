package echo_test

import (
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/bench/echo"
	"github.com/stile-lock/stile/bench/internal/fake"
	"github.com/stile-lock/stile/bench/load"
)

func serve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go echo.Serve(l)
	return l.Addr().String()
}

func TestLoad(t *testing.T) {
	addr := serve(t)
	for _, p := range []load.Plan{
		{Connections: 4, Depth: 1},
		{Connections: 2, Depth: 64, KeyLength: 255},
		{Connections: 2, Depth: 16, Rate: 500, Poisson: true},
	} {
		fake.Longer(t, func(duration time.Duration) bool {
			p.Duration = duration
			r, err := echo.Driver{Addr: addr}.Run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			return r.Pairs > 0 && r.Acquire.Count > 0 && r.Acquire.P50 > 0
		})
	}
	if _, err := (echo.Driver{Addr: addr}).Run(t.Context(), load.Plan{Shared: true}); err == nil {
		t.Error("shared keys were echoed")
	}
}

// TestWrongEcho has a server that answers with the lines of another key.
func TestWrongEcho(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 4096)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			line := string(buf[:n])
			// The last digit of the key is the last byte of the second field.
			f := strings.Fields(line)
			f[1] = f[1][:len(f[1])-1] + string(f[1][len(f[1])-1]^1)
			c.Write([]byte(strings.Join(f, " ") + "\n"))
		}
	}()
	_, err = echo.Driver{Addr: l.Addr().String()}.Run(t.Context(), load.Plan{Duration: time.Second})
	if !errors.Is(err, load.ErrWrong) {
		t.Errorf("the error is %v", err)
	}
}

// TestAllocNothing counts what the server, the driver and the load allocate
// together. The more pairs there are, the less of it may be what a run needs
// once.
func TestAllocNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	addr := serve(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := echo.Driver{Addr: addr}.Run(t.Context(), load.Plan{Connections: 2, Depth: 64, Duration: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	const once, perPair = 5000, 0.05
	if mallocs := after.Mallocs - before.Mallocs; float64(mallocs) > once+perPair*float64(r.Pairs) {
		t.Errorf("%d allocations for %d pairs", mallocs, r.Pairs)
	}
}
