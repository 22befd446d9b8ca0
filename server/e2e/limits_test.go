package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// roundTrips acquires and releases a key of its own again and again while
// `busy` runs, and fails the test if that is ever held up.
func roundTrips(t *testing.T, c *client, busy func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); busy() }()
	var all []time.Duration
	for running := true; running || len(all) < 200; {
		begin := time.Now()
		c.release("mine", c.acquire("mine", "600"))
		all = append(all, time.Since(begin)/2)
		select {
		case <-done:
			running = false
		case <-time.After(time.Millisecond):
		}
	}
	slices.Sort(all)
	worst := all[len(all)-1]
	if worst > tooLate {
		t.Errorf("another client waited %v for an answer", worst)
	}
	t.Logf("%d round trips of another client: %v (half), %v (99 %%), %v (worst)", 2*len(all), all[len(all)/2], all[len(all)*99/100], worst)
}

// A connection may have 4,096 requests unanswered.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	n := start(t)
	holder, c := n.dial(), n.dial()
	token := holder.acquire("k", "600")
	const most = 4096
	c.write(bytes.Repeat([]byte("A k 0 600\n"), most))
	c.inStep()
	n.waiting(most)
	// Only acquires that wait are unanswered: everything else goes on.
	c.answer("A l -1 600", "E ? ? limit")
	c.closed()
	n.waiting(0)
	if s := n.state(); s.Held != 1 {
		t.Errorf("the request over the limit had an effect: %+v", s)
	}
	// What they left is a free line.
	holder.release("k", token)
	holder.acquire("k", "600")

	// Answered ones count no more.
	token = holder.acquire("m", "600")
	c = n.dial()
	for range 3 {
		c.write(bytes.Repeat([]byte("A m 0.01 600\n"), most))
		for range most {
			c.want("T m")
		}
	}
	c.write(bytes.Repeat([]byte("A m 0 600\n"), most-1))
	for range 100 {
		c.answer(fmt.Sprintf("K m %d 600", token), fmt.Sprintf("K m %d 600", token))
		c.answer("P x", "P x")
		c.answer("R m 1", "E R m not-held")
	}
}

func TestUnansweredIsASetting(t *testing.T) {
	t.Parallel()
	n := start(t, "--max-unanswered=1024")
	c := n.dial()
	c.acquire("k", "600")
	c.write(bytes.Repeat([]byte("A k 0 600\n"), 1024))
	c.inStep()
	c.answer("A k 0 600", "E ? ? limit")
	c.closed()
}

// Who asks for much and reads nothing is cut off, holds up nobody, and leaves
// nothing but the leases of its keys.
func TestClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	n := start(t)
	holder, other := n.dial(), n.dial()
	token := holder.acquire("k", "600")
	before, measured := n.residentKiB()
	peak := before

	slow := n.dialWith(net.Dialer{Control: smallReceiveBuffer})
	slow.send("A k 0 600")
	n.waiting(1)
	behind := n.dial()
	behind.send("A k 0 600")
	n.waiting(2)
	var cut error
	roundTrips(t, other, func() {
		var lines bytes.Buffer
		pad := strings.Repeat("x", 200)
		for i := 0; i < 100_000 && cut == nil; {
			lines.Reset()
			slow.SetWriteDeadline(time.Now().Add(patience))
			for range 1000 {
				fmt.Fprintf(&lines, "A %s-%d -1 1\nR %[1]s-%[2]d 1\n", pad, i%1000)
				i++
			}
			_, cut = slow.Write(lines.Bytes())
			if now, ok := n.residentKiB(); ok {
				peak = max(peak, now)
			}
		}
	})
	if cut == nil || errors.Is(cut, os.ErrDeadlineExceeded) {
		t.Errorf("100,000 requests were taken from a client that does not read: %v", cut)
	}
	n.waitFor("it does not read its answers")
	n.waiting(1)
	holder.release("k", token)
	behind.grant("k")
	n.eventually("its leases end", func(s state) bool { return s.Held == 1 && s.Waiting == 0 })
	n.eventually("its connection is gone", func(s state) bool { return s.Connections == 3 })
	if measured {
		t.Logf("memory of the node: %d KiB, at most %d KiB", before, peak)
		if peak-before > 64<<10 && !raceEnabled {
			t.Errorf("memory of the node grew from %d KiB to %d KiB", before, peak)
		}
	}
}

// The same with less than the node would keep for a client: then the time
// for which nothing could be written decides.
func TestClientThatStopsReading(t *testing.T) {
	t.Parallel()
	n := start(t)
	holder := n.dial()
	token := holder.acquire("k", "600")
	begin := time.Now()
	slow, _ := clog(n)
	slow.send("A k 0 600")
	n.waiting(1)
	behind := n.dial()
	behind.send("A k 0 600")
	n.waiting(2)
	roundTrips(t, n.dial(), func() { n.waitFor("it does not read its answers") })
	if d := time.Since(begin); d < 5*time.Second {
		t.Errorf("cut off after %v", d)
	} else {
		t.Logf("cut off after %v", d)
	}
	n.waiting(1)
	holder.release("k", token)
	behind.grant("k")
}

// A slow reader is not one that does not read: it gets all of its answers.
func TestClientThatReadsSlowly(t *testing.T) {
	t.Parallel()
	n := start(t)
	c, lines := clog(n)
	for i := range lines {
		if line := c.line(); !strings.HasPrefix(line, "P xxx") {
			t.Fatalf("got %q", line)
		}
		if i%2000 == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	c.inStep()
}

// Sockets that say nothing, half a line, or a TLS hello hold up nobody.
func TestStrangersThatSayLittle(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := n.dial()
	tlsHello := append([]byte{0x16, 0x03, 0x01, 0x01, 0xfc, 0x01, 0x00, 0x01, 0xf8, 0x03, 0x03}, bytes.Repeat([]byte{0xa5}, 40)...)
	var all []*client
	roundTrips(t, c, func() {
		for _, says := range [][]byte{nil, []byte("A half-a-l"), tlsHello} {
			for range 100 {
				nc, err := net.DialTimeout("tcp", n.addr, patience)
				if err != nil {
					t.Error(err)
					return
				}
				all = append(all, &client{t: t, TCPConn: nc.(*net.TCPConn), r: bufio.NewReader(nc)})
				nc.Write(says)
			}
		}
	})
	// Those that speak TLS are told at once that this port does not, and the
	// others may be silent for a while.
	for _, c := range all[200:] {
		c.want("E ? ? bad-request")
		c.closed()
	}
	n.eventually("the silent ones are connected", func(s state) bool { return s.Connections == 201 })
	for _, c := range all {
		c.Close()
	}
	n.eventually("all are gone", func(s state) bool { return s.Connections == 1 && s.Held == 0 })
}

// Protocols of others end at their first line, and nothing of them is
// executed.
func TestOtherProtocols(t *testing.T) {
	t.Parallel()
	n := start(t)
	for _, hello := range []string{
		"GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 12\r\n\r\nA k -1 600\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"SSH-2.0-OpenSSH_9.6\r\nA k -1 600\n",
		"*1\r\n$4\r\nPING\r\nA k -1 600\r\n",
		"EHLO there\r\nA k -1 600\r\n",
		"a k -1 600\nA k -1 600\n",
		" A k -1 600\nA k -1 600\n",
		"AA k -1 600\nA k -1 600\n",
		"\x16\x03\x01\x00\x05hello\nA k -1 600\n",
		"\xef\xbb\xbfA k -1 600\nA k -1 600\n",
	} {
		c := n.dial()
		c.write([]byte(hello))
		c.want("E ? ? bad-request")
		c.closed()
	}
	resp, err := statusClient.Get("http://" + n.addr + "/status")
	if err == nil {
		resp.Body.Close()
		t.Errorf("HTTP on the client port: %s", resp.Status)
	}
	if s := n.state(); s.Held != 0 || s.Waiting != 0 {
		t.Errorf("a stranger's line was executed: %+v", s)
	}
}

func TestMaxConnections(t *testing.T) {
	t.Parallel()
	n := start(t, "--max-connections=3")
	all := n.dialAll(3)
	token := all[0].acquire("k", "600")
	for _, c := range all {
		c.inStep()
	}
	for range 3 {
		c := n.dial()
		c.want("E ? ? limit")
		c.closed()
		// Also for who has said something by then.
		c = n.dial()
		c.send("A l -1 600")
		c.want("E ? ? limit")
		c.closed()
	}
	// A crowd at the door holds up nobody inside.
	roundTrips(t, all[1], func() {
		for range 200 {
			if nc, err := net.DialTimeout("tcp", n.addr, patience); err == nil {
				defer nc.Close()
			}
		}
	})
	if s := n.state(); s.Connections != 3 || s.Held != 1 {
		t.Errorf("the state is %+v", s)
	}
	all[2].Close()
	n.eventually("one is gone", func(s state) bool { return s.Connections == 2 })
	// The place is free in the same moment, or a little later.
	for begin := time.Now(); ; {
		c := n.dial()
		c.SetDeadline(time.Now().Add(patience))
		io.WriteString(c, "P let-me-in\n")
		line, _ := c.r.ReadString('\n')
		if line == "P let-me-in\n" {
			c.release("k", token)
			break
		}
		if c.Close(); time.Since(begin) > patience {
			t.Fatalf("the place of a connection that is gone stays taken: %q", line)
		}
	}
}

func TestMaxWaiters(t *testing.T) {
	t.Parallel()
	n := start(t, "--max-waiters=10", "--max-waiters-per-key=4")
	a, b := n.dial(), n.dial()
	keys := []string{"k0", "k1", "k2"}
	token := map[string]uint64{}
	for _, key := range keys {
		token[key] = a.acquire(key, "600")
	}
	for _, key := range keys[:2] {
		for range 4 {
			b.send("A %s 0 600", key)
		}
		b.inStep()
		// One more does not fit into this line, others do.
		c := n.dial()
		c.answer("A "+key+" 0 600", "E A "+key+" queue-full")
		c.answer("A "+key+" 5 600 nonce", "E A "+key+" queue-full")
		c.answer("A "+key+" -1 600", "T "+key)
	}
	for range 2 {
		b.send("A k2 0 600")
	}
	b.inStep()
	n.waiting(10)
	c := n.dial()
	c.answer("A k2 0 600", "E A k2 queue-full")
	c.release("free", c.acquire("free", "600")) // who need not wait is served
	// A place that falls free can be taken.
	a.release("k0", token["k0"])
	b.grant("k0")
	n.waiting(9)
	c.send("A k0 0 600")
	c.inStep()
	n.waiting(10)
	b.reset()
	n.waiting(1)
}

func TestSecret(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte("open-sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := start(t, "--secret-file", name)
	if !strings.Contains(n.stderr(), `"secret":true`) {
		t.Errorf("the start line does not say that a secret is asked")
	}
	c := n.dial()
	c.answer("P before", "P before")
	for _, line := range []string{"A k -1 600", "A k 0 600 nonce", "R k 1", "K k 1 600", "C k nonce"} {
		c.answer(line, "E "+line[:3]+" unauthorized")
	}
	// What is malformed is said to be so, and nothing happens either.
	c.answer("A k", "E A k bad-request")
	c.answer("A  k", "E A ? bad-key")
	c.answer("B k", "E B k unknown-op")
	for range 5 { // none is no wrong one
		c.answer("H 1 me", "E H 1 unauthorized")
	}
	c.answer("H 9", "E H 9 version 1")
	c.answer("H 1 me wrong", "E H 1 unauthorized")
	c.answer("A k -1 600", "E A k unauthorized")
	c.answer("H 1 me open-sesam", "E H 1 unauthorized")
	c.answer("H 1 me open-sesame", "H 1 "+n.addr+" core,keep,ping,hello,resume")
	token := c.acquire("k", "600")
	// The third wrong one ends the connection, also after a good one. The
	// lines behind it are not executed.
	c.write(fmt.Appendf(nil, "H 1 me Open-Sesame\nR k %d\nP after\n", token))
	c.want("E H 1 unauthorized")
	c.closed()
	if s := n.state(); s.Held != 1 {
		t.Errorf("the state is %+v", s)
	}
	// The right one is of its connection only.
	d := n.dial()
	d.answer(fmt.Sprintf("R k %d", token), "E R k unauthorized")
	d.write(fmt.Appendf(nil, "H 1 me open-sesame\nR k %d\n", token))
	d.want("H 1 %s core,keep,ping,hello,resume", n.addr)
	d.want("R k %d", token)
	for _, s := range []string{"open-sesame", "Open-Sesame", "open-sesam"} {
		if strings.Contains(n.stderr(), s) {
			t.Errorf("the log shows a secret:\n%s", n.stderr())
		}
	}
}
