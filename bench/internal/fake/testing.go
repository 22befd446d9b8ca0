package fake

import (
	"net"
	"testing"
	"time"
)

// Listen serves on loopback until the test ends.
func Listen(t testing.TB, s *Server) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go s.Serve(l)
	return l.Addr().String()
}

// Longer calls run with ever longer durations until something was measured: on a
// busy machine that may be nothing in a short one.
func Longer(t testing.TB, run func(time.Duration) (measured bool)) {
	t.Helper()
	for d := 50 * time.Millisecond; d < time.Minute; d *= 4 {
		if run(d) {
			return
		}
	}
	t.Fatal("nothing was measured in the longest time")
}
