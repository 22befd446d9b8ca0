package rig

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stile-lock/stile/conformance/ports"
)

var base = time.Now()

func grant(token uint64, sent, at int) Grant {
	ms := func(n int) time.Time { return base.Add(time.Duration(n) * time.Millisecond) }
	return Grant{Node: 1, Key: "k", Token: token, Sent: ms(sent), At: ms(at)}
}

func TestCheckTokens(t *testing.T) {
	for _, test := range []struct {
		name         string
		grants       []Grant
		distinct, up bool // what it finds in order
	}{
		{"none", nil, true, true},
		{"rising", []Grant{grant(1, 0, 1), grant(2, 2, 3), grant(7, 4, 5)}, true, true},
		{"twice", []Grant{grant(1, 0, 1), grant(1, 2, 3)}, false, false},
		{"falling", []Grant{grant(2, 0, 1), grant(1, 2, 3)}, true, false},
		{"falling, a while later", []Grant{grant(9, 0, 1), grant(10, 2, 3), grant(11, 4, 5), grant(8, 6, 7)}, true, false},
		{"at the same time", []Grant{grant(2, 0, 5), grant(1, 2, 6)}, true, true},
		{"the lower one was answered late", []Grant{grant(1, 0, 9), grant(2, 2, 3), grant(3, 4, 5)}, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := CheckTokens(test.grants, false); (err == nil) != test.distinct {
				t.Errorf("distinct: %v", err)
			}
			if err := CheckTokens(test.grants, true); (err == nil) != test.up {
				t.Errorf("rising: %v", err)
			}
		})
	}
}

func TestGap(t *testing.T) {
	grants := []Grant{grant(1, 0, 10), grant(2, 0, 20), grant(3, 0, 70), grant(4, 0, 80)}
	at := func(n int) time.Time { return base.Add(time.Duration(n) * time.Millisecond) }
	for _, test := range []struct{ from, to, want int }{
		{0, 80, 50},
		{15, 80, 50},
		{30, 80, 50}, // it had begun before
		{70, 80, 50}, // and ended right then
		{75, 80, 10},
		{75, 100, 20}, // it goes on
		{0, 15, 10},
		{0, 5, 5},
	} {
		if got := Gap(grants, at(test.from), at(test.to)); got != time.Duration(test.want)*time.Millisecond {
			t.Errorf("from %d to %d: got %v, want %d ms", test.from, test.to, got, test.want)
		}
	}
}

// echoThrough is a connection of a client, through a relay, to node 1, which
// sends back what it gets.
func echoThrough(t *testing.T, n *Network) net.Conn {
	t.Helper()
	l, err := ports.Listen("127.0.1.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	front, err := ports.Listen("127.0.1.1")
	if err != nil {
		t.Fatal(err)
	}
	n.relay(front, 1, l.Addr().String())
	c, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// hears reports whether a byte comes in the time.
func hears(c net.Conn, d time.Duration) bool {
	c.SetReadDeadline(time.Now().Add(d))
	_, err := io.ReadFull(c, make([]byte, 1))
	return err == nil
}

func TestNetwork(t *testing.T) {
	const short, long = 50 * time.Millisecond, 5 * time.Second
	n := newNetwork()
	defer n.close()
	c := echoThrough(t, n)
	say := func() { c.Write([]byte("x")) }

	say()
	if !hears(c, long) {
		t.Fatal("nothing comes back")
	}
	n.CutOneWay(1, Clients)
	if say(); hears(c, short) {
		t.Error("it comes back through a cut")
	}
	n.Heal()
	if !hears(c, long) {
		t.Error("it does not come back after the cut")
	}
	n.CutOneWay(Clients, 1)
	if say(); hears(c, short) {
		t.Error("it gets through a cut")
	}
	n.Heal()
	if !hears(c, long) {
		t.Error("it does not get through after the cut")
	}
	n.Delay(Clients, 1, 2*short)
	start := time.Now()
	if say(); !hears(c, long) || time.Since(start) < 2*short {
		t.Errorf("it came back after %v, with a delay of %v", time.Since(start), 2*short)
	}
	n.Heal()

	other := echoThrough(t, n)
	other.Write([]byte("x"))
	if !hears(other, long) {
		t.Fatal("nothing comes back")
	}
	n.Reset(Clients, 1)
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection goes on that was reset")
	}
	last := echoThrough(t, n)
	n.Refuse(Clients, 1)
	last.Write([]byte("x"))
	if hears(last, long) {
		t.Error("a connection works that is refused")
	}
}

// A dead end is told like any other news: not through a cut.
func TestNetworkHidesAnEnd(t *testing.T) {
	n := newNetwork()
	defer n.close()
	l, err := ports.Listen("127.0.1.1")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}()
	front, err := ports.Listen("127.0.1.1")
	if err != nil {
		t.Fatal(err)
	}
	n.relay(front, 1, l.Addr().String())
	c, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("x"))
	var up net.Conn
	select {
	case up = <-accepted:
	case <-time.After(5 * time.Second):
		t.Fatal("the relay does not connect")
	}
	n.Cut(Clients, 1)
	up.Close()
	l.Close()
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("the end was heard of through a cut: %v", err)
	}
	n.Heal()
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the end was not heard of")
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Error("the end was not heard of")
	}
}
