package peer

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	patience = 10 * time.Second // for what must happen
	short    = 100 * time.Millisecond
)

// book is the addresses of nodes.
type book struct{ m sync.Map }

func (b *book) set(id uint8, addr string) { b.m.Store(id, addr) }

func (b *book) lookup(id uint8) (string, bool) {
	addr, ok := b.m.Load(id)
	if !ok {
		return "", false
	}
	return addr.(string), true
}

// node is a mesh with a listener. The events of the two directions are not
// ordered, and come apart.
type node struct {
	*Mesh
	addr     string
	book     *book
	outs     chan Event
	ins      chan Event
	logLines *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, id uint8, change ...func(*Config)) *node {
	t.Helper()
	n := &node{book: &book{}, outs: make(chan Event, 10_000), ins: make(chan Event, 10_000), logLines: &lockedBuffer{}}
	cfg := Config{
		Self: id, Boot: 0xb0070000 + uint64(id), Peers: n.book.lookup, Secret: []byte("secret"),
		Hello:            func() []byte { return fmt.Appendf(nil, "hello of %d", id) },
		HandshakeTimeout: patience,
		Log:              slog.New(slog.NewTextHandler(n.logLines, nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	n.Mesh = New(cfg, func(e Event) {
		e.Payload = bytes.Clone(e.Payload)
		if e.Kind == OutUp || e.Kind == OutLost || e.Kind == DialFailed {
			n.outs <- e
		} else {
			n.ins <- e
		}
	})
	t.Cleanup(n.Close)
	l := listen(t)
	n.addr = l.Addr().String()
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			n.Accept(nc, nil)
		}
	}()
	return n
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// pair returns two nodes that know each other.
func pair(t *testing.T, change ...func(*Config)) (a, b *node) {
	t.Helper()
	a, b = start(t, 1, change...), start(t, 2, change...)
	a.book.set(2, b.addr)
	b.book.set(1, a.addr)
	return a, b
}

func next(t *testing.T, events <-chan Event, want EventKind) Event {
	t.Helper()
	select {
	case e := <-events:
		if e.Kind != want {
			t.Fatalf("got %q, want %q: %+v", e.Kind, want, e)
		}
		return e
	case <-time.After(patience):
		t.Fatalf("no event, want %q", want)
	}
	panic("unreachable")
}

func nothing(t *testing.T, events <-chan Event) {
	t.Helper()
	select {
	case e := <-events:
		t.Fatalf("unexpected %q: %+v", e.Kind, e)
	default:
	}
}

// shaken is the greeting of a raw dialer. It is written from the package's
// documentation, not with its code.
type shaken struct {
	secret         string
	from, to       uint8
	boot, dial     uint64
	hello          string
	said           []byte
	verdict        byte
	theirBoot      uint64
	theirHello     string
	theirProofGood bool
}

func mac(secret, label string, said []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(label))
	h.Write(said)
	return h.Sum(nil)
}

func withLength(s string) []byte {
	return append(binary.LittleEndian.AppendUint16(nil, uint16(len(s))), s...)
}

func dialRaw(t *testing.T, addr string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return nc
}

func (s *shaken) line() []byte {
	return fmt.Appendf(nil, "N 1 %d %d %x %x %032x\n", s.from, s.to, s.boot, s.dial, 0x1234)
}

// prove answers the challenge on nc, after the line.
func (s *shaken) prove(nc net.Conn) error {
	s.said = s.line()
	challenge := make([]byte, 17)
	if _, err := io.ReadFull(nc, challenge); err != nil {
		return err
	}
	s.said = append(append(s.said, challenge...), withLength(s.hello)...)
	proof := mac(s.secret, "stile peer dialer\n", s.said)
	s.said = append(s.said, proof...)
	_, err := nc.Write(append(withLength(s.hello), proof...))
	return err
}

// shake does all of it.
func (s *shaken) shake(t *testing.T, addr string) net.Conn {
	t.Helper()
	nc := dialRaw(t, addr)
	nc.Write(s.line())
	if err := s.prove(nc); err != nil {
		t.Fatal(err)
	}
	s.finish(t, nc)
	return nc
}

func (s *shaken) finish(t *testing.T, nc net.Conn) {
	t.Helper()
	head := make([]byte, 11)
	if _, err := io.ReadFull(nc, head); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, binary.LittleEndian.Uint16(head[9:]))
	proof := make([]byte, 32)
	if _, err := io.ReadFull(nc, text); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(nc, proof); err != nil {
		t.Fatal(err)
	}
	s.said = append(append(s.said, head...), text...)
	s.verdict, s.theirBoot, s.theirHello = head[0], binary.LittleEndian.Uint64(head[1:]), string(text)
	s.theirProofGood = hmac.Equal(proof, mac(s.secret, "stile peer acceptor\n", s.said))
}

// acceptRaw accepts a node's connection and shakes hands.
func acceptRaw(t *testing.T, l net.Listener, secret string) net.Conn {
	t.Helper()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	var said []byte
	for b := make([]byte, 1); !bytes.HasSuffix(said, []byte("\n")); said = append(said, b...) {
		if _, err := io.ReadFull(nc, b); err != nil {
			t.Fatal(err)
		}
	}
	challenge := append([]byte{1}, "0123456789abcdef"...)
	nc.Write(challenge)
	said = append(said, challenge...)
	length := make([]byte, 2)
	io.ReadFull(nc, length)
	rest := make([]byte, int(binary.LittleEndian.Uint16(length))+32)
	if _, err := io.ReadFull(nc, rest); err != nil {
		t.Fatal(err)
	}
	said = append(append(said, length...), rest...)
	if proof := said[len(said)-32:]; !hmac.Equal(proof, mac("secret", "stile peer dialer\n", said[:len(said)-32])) {
		t.Fatal("the dialer's proof is wrong")
	}
	answer := append([]byte{0}, make([]byte, 8)...)
	answer = append(answer, withLength("raw")...)
	nc.Write(append(answer, mac(secret, "stile peer acceptor\n", append(said, answer...))...))
	return nc
}

func readFrame(t *testing.T, nc net.Conn) []byte {
	t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, binary.LittleEndian.Uint32(head[:]))
	if _, err := io.ReadFull(nc, b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLink(t *testing.T) {
	a, b := pair(t)
	a.Dial(2)
	up := next(t, a.outs, OutUp)
	if up.Peer != 2 || up.Boot != 0xb0070002 || string(up.Hello) != "hello of 2" {
		t.Errorf("dialer: %+v", up)
	}
	in := next(t, b.ins, InUp)
	if in.Peer != 1 || in.Boot != 0xb0070001 || string(in.Hello) != "hello of 1" {
		t.Errorf("acceptor: %+v", in)
	}
	if b.Send(1, []byte("x")) || b.SetSource(1, func(buf []byte) ([]byte, bool) { return buf, false }) {
		t.Error("b can send, and has not dialed")
	}
	a.Dial(2) // nothing
	long := bytes.Repeat([]byte("long"), 10_000)
	for _, frame := range [][]byte{[]byte("one"), {}, long} {
		if !a.Send(2, frame) {
			t.Fatal("a can't send")
		}
		if e := next(t, b.ins, Frame); !bytes.Equal(e.Payload, frame) || e.Gen != in.Gen || e.Peer != 1 {
			t.Errorf("got %d bytes %+v, want %d", len(e.Payload), e, len(frame))
		}
	}

	var due atomic.Int32
	a.SetSource(2, func(buf []byte) ([]byte, bool) {
		if due.Load() == 0 {
			return buf, false
		}
		return fmt.Appendf(buf, "data %d", due.Add(-1)), true
	})
	for range 3 {
		due.Store(2)
		a.Kick(2)
		for i := 1; i >= 0; i-- {
			if e := next(t, b.ins, Frame); string(e.Payload) != fmt.Sprintf("data %d", i) {
				t.Errorf("got %q", e.Payload)
			}
		}
	}
	a.SetSource(2, nil)
	nothing(t, a.outs)
}

func TestLostLinks(t *testing.T) {
	a, b := pair(t)
	link := func() (Event, Event) {
		a.Dial(2)
		return next(t, a.outs, OutUp), next(t, b.ins, InUp)
	}
	lost := func(out, in Event) {
		t.Helper()
		o, i := next(t, a.outs, OutLost), next(t, b.ins, InLost)
		if o.Gen != out.Gen || i.Gen != in.Gen || o.Err == nil || i.Err == nil || o.Refused {
			t.Errorf("lost %+v, %+v; was %+v, %+v", o, i, out, in)
		}
		if a.Send(2, []byte("x")) {
			t.Error("can send after the loss")
		}
	}
	out, in := link()
	a.CutOut(2)
	lost(out, in)
	out2, in2 := link()
	if out2.Gen <= out.Gen || in2.Gen <= in.Gen {
		t.Errorf("generations %d after %d, %d after %d", out2.Gen, out.Gen, in2.Gen, in.Gen)
	}
	b.Cut(1)
	lost(out2, in2)
	out, _ = link()
	b.Close()
	if o := next(t, a.outs, OutLost); o.Gen != out.Gen {
		t.Errorf("lost %+v", o)
	}
	nothing(t, b.ins) // after Close
}

func TestDialWhileCutIsUnderWay(t *testing.T) {
	a, _ := pair(t)
	var gen uint64
	for range 20 {
		a.Dial(2)
		up := next(t, a.outs, OutUp)
		if up.Gen <= gen {
			t.Fatalf("generation %d after %d", up.Gen, gen)
		}
		gen = up.Gen
		a.CutOut(2)
		a.Dial(2)
		a.CutOut(2)
		if lost := next(t, a.outs, OutLost); lost.Gen != gen {
			t.Fatalf("lost %+v", lost)
		}
		e := <-a.outs // it may have come up before it was cut
		if e.Kind == OutUp {
			e = next(t, a.outs, OutLost)
		}
		if e.Gen != gen+1 && e.Gen <= gen {
			t.Fatalf("after the cut: %+v", e)
		}
		gen = e.Gen
	}
}

func TestSecrets(t *testing.T) {
	for _, c := range []struct {
		name, dialer, acceptor string
		good                   bool
	}{
		{"same", "s", "s", true},
		{"none", "", "", true},
		{"different", "s", "t", false},
		{"dialer only", "s", "", false},
		{"acceptor only", "", "s", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := pair(t, func(cfg *Config) {
				cfg.Secret = []byte(c.dialer)
				if cfg.Self == 2 {
					cfg.Secret = []byte(c.acceptor)
				}
			})
			if c.good {
				a.Dial(2)
				next(t, a.outs, OutUp)
				next(t, b.ins, InUp)
				return
			}
			for range 3 {
				a.Dial(2)
				e := next(t, a.outs, DialFailed)
				if e.Refused || !strings.Contains(e.Err.Error(), "another cluster secret") {
					t.Errorf("got %+v", e)
				}
			}
			nothing(t, b.ins)
			if n := strings.Count(b.logLines.String(), "does not know the cluster's secret"); n != 1 {
				t.Errorf("logged %d times: %s", n, b.logLines)
			}
		})
	}
}

// A fake acceptor at a node's address does not get a link either.
func TestAcceptorWithoutSecret(t *testing.T) {
	a, l := start(t, 1), listen(t)
	a.book.set(2, l.Addr().String())
	a.Dial(2)
	acceptRaw(t, l, "guess")
	if e := next(t, a.outs, DialFailed); e.Refused || !strings.Contains(e.Err.Error(), "does not know the cluster's secret") {
		t.Errorf("got %+v", e)
	}
}

func TestTurnedAway(t *testing.T) {
	a, b := pair(t)
	b.book.m.Delete(uint8(1))
	a.book.set(3, b.addr)
	a.book.set(1, a.addr)
	for _, c := range []struct {
		peer    uint8
		verdict Verdict
		reason  string
	}{
		{2, Unlisted, "node 1 is not in my list"},
		{3, WrongNode, "I am node 2, not 3"},
		{1, SameNode, "I am node 1, too"},
	} {
		a.Dial(c.peer)
		e := next(t, a.outs, DialFailed)
		var r *RejectedError
		if e.Refused || !errors.As(e.Err, &r) || r.Verdict != c.verdict || !strings.Contains(e.Err.Error(), c.reason) {
			t.Errorf("node %d: got %+v, want %q", c.peer, e, c.reason)
		}
	}
	nothing(t, b.ins)

	b.book.set(1, "") // known, but can't be dialed
	a.Dial(2)
	next(t, a.outs, OutUp)
	next(t, b.ins, InUp)
	b.Dial(1)
	if e := next(t, b.outs, DialFailed); e.Refused {
		t.Errorf("got %+v", e)
	}
}

func TestWhatAStrangerLearns(t *testing.T) {
	b := start(t, 2)
	b.book.set(1, "")
	s := shaken{secret: "guess", from: 1, to: 2, boot: 1, dial: 1, hello: "hi"}
	for _, c := range []struct {
		name  string
		line  string
		proof bool
		bytes int
	}{
		{"wrong proof", string(s.line()), true, 17},
		{"wrong proof of an unlisted node", "N 1 9 2 1 1 00000000000000000000000000001234\n", true, 17},
		{"wrong proof for another node", "N 1 1 7 1 1 00000000000000000000000000001234\n", true, 17},
		{"another version", "N 2 something else\n", false, 17},
		{"garbage", "N garbage\n", false, 0},
		{"no id", "N 1 1 256 1 1 00000000000000000000000000001234\n", false, 0},
		{"short nonce", "N 1 1 2 1 1 1234\n", false, 0},
		{"too long", "N " + strings.Repeat("1", 400), false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			nc := dialRaw(t, b.addr)
			io.WriteString(nc, c.line)
			var got []byte
			if c.proof {
				got = make([]byte, 17)
				if _, err := io.ReadFull(nc, got); err != nil {
					t.Fatal(err)
				}
				nc.Write(append(withLength("hi"), make([]byte, 32)...))
			}
			rest, err := io.ReadAll(nc)
			if err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(err)
			}
			got = append(got, rest...)
			if len(got) != c.bytes || len(got) > 0 && got[0] != 1 {
				t.Errorf("it learns %q", got)
			}
		})
	}
	nothing(t, b.ins)
}

func TestNoncesDiffer(t *testing.T) {
	b := start(t, 2)
	var seen []string
	for range 3 {
		nc := dialRaw(t, b.addr)
		nc.Write((&shaken{from: 1, to: 2}).line())
		challenge := make([]byte, 17)
		if _, err := io.ReadFull(nc, challenge); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(seen, string(challenge)) {
			t.Error("a challenge came twice")
		}
		seen = append(seen, string(challenge))
	}
}

func TestBytesReadAlready(t *testing.T) {
	b := start(t, 2)
	b.book.set(1, "")
	s := shaken{secret: "secret", from: 1, to: 2, boot: 7, hello: "hi"}
	line := s.line()
	for _, n := range []int{0, 2, len(line) - 1, len(line)} {
		s.dial++
		line := s.line()
		theirs, ours := net.Pipe()
		defer ours.Close()
		already := bytes.Clone(line[:n])
		b.Accept(theirs, already)
		clear(already)
		if n < len(line) { // a pipe waits for a reader of nothing, too
			ours.Write(line[n:])
		}
		if err := s.prove(ours); err != nil {
			t.Fatal(err)
		}
		s.finish(t, ours)
		if !s.theirProofGood || s.verdict != 0 || s.theirHello != "hello of 2" || s.theirBoot != 0xb0070002 {
			t.Errorf("%d bytes: %+v", n, s)
		}
		next(t, b.ins, InUp)
		ours.Close()
		next(t, b.ins, InLost)
	}
}

func TestSilentStrangersBlockNobody(t *testing.T) {
	a, b := pair(t)
	var strangers []net.Conn
	for range maxHandshakes {
		theirs, ours := net.Pipe()
		defer ours.Close()
		b.Accept(theirs, []byte("N 1"))
		strangers = append(strangers, ours)
	}
	a.Dial(2)
	next(t, a.outs, OutUp)
	next(t, b.ins, InUp)
	// One had to go for it: the oldest.
	strangers[0].SetDeadline(time.Now().Add(patience))
	if _, err := strangers[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the oldest: %v", err)
	}
	strangers[1].SetDeadline(time.Now().Add(short / 10))
	if _, err := strangers[1].Read(make([]byte, 1)); err == io.EOF {
		t.Error("the second was closed, too")
	}
}

func TestUnfinishedHandshakeIsClosed(t *testing.T) {
	b := start(t, 2, func(c *Config) { c.HandshakeTimeout = short })
	for _, said := range []string{"", "N 1", string((&shaken{from: 1, to: 2}).line())} {
		nc := dialRaw(t, b.addr)
		io.WriteString(nc, said)
		if _, err := io.ReadAll(nc); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after %q: %v", said, err)
		}
	}
	b.Close()
	if len(b.handshakes) != 0 {
		t.Errorf("%d handshakes are left", len(b.handshakes))
	}
}

func TestANewConnectionReplacesTheOlder(t *testing.T) {
	b := start(t, 2)
	b.book.set(1, "")
	s := shaken{secret: "secret", from: 1, to: 2, boot: 7, dial: 5}
	s.shake(t, b.addr)
	first := next(t, b.ins, InUp)
	s.dial = 6
	s.shake(t, b.addr)
	if lost := next(t, b.ins, InLost); lost.Gen != first.Gen || lost.Err != errReplaced {
		t.Errorf("lost %+v, was %+v", lost, first)
	}
	second := next(t, b.ins, InUp)
	if second.Gen <= first.Gen {
		t.Errorf("generation %d after %d", second.Gen, first.Gen)
	}

	s.dial = 4 // older, and late
	nc := s.shake(t, b.addr)
	if got, err := io.ReadAll(nc); len(got) > 0 || err != nil {
		t.Errorf("the late one got %q, %v", got, err)
	}
	nothing(t, b.ins)

	s.boot, s.dial = 8, 1
	s.shake(t, b.addr)
	if lost := next(t, b.ins, InLost); lost.Gen != second.Gen {
		t.Errorf("lost %+v, was %+v", lost, second)
	}
	if e := next(t, b.ins, InUp); e.Boot != 8 {
		t.Errorf("got %+v", e)
	}
}

// The events of the older one come first even if its reader is held up.
func TestReplacingWaitsForTheEventFunction(t *testing.T) {
	release, entered := make(chan struct{}), make(chan struct{})
	kinds := make(chan EventKind, 100)
	bk := &book{}
	bk.set(1, "")
	m := New(Config{Self: 2, Peers: bk.lookup, Secret: []byte("secret"), HandshakeTimeout: patience,
		Hello: func() []byte { return nil }, Log: slog.New(slog.DiscardHandler)},
		func(e Event) {
			if e.Kind == Frame {
				close(entered)
				<-release
			}
			kinds <- e.Kind
		})
	defer m.Close()
	connect := func(dial uint64) net.Conn {
		l := listen(t)
		go func() {
			nc, _ := l.Accept()
			m.Accept(nc, nil)
		}()
		s := shaken{secret: "secret", from: 1, to: 2, boot: 7, dial: dial}
		return s.shake(t, l.Addr().String())
	}
	connect(1).Write([]byte{1, 0, 0, 0, 'x'})
	<-entered
	connect(2)
	close(release)
	for _, want := range []EventKind{InUp, Frame, InLost, InUp} {
		select {
		case got := <-kinds:
			if got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("no %q", want)
		}
	}
}

func TestControlGoesAheadOfData(t *testing.T) {
	a, l := start(t, 1), listen(t)
	a.book.set(2, l.Addr().String())
	a.Dial(2)
	nc := acceptRaw(t, l, "secret")
	next(t, a.outs, OutUp)

	// The source has more than fits on the way, and somebody sends while its
	// fifth and its hundredth frame are made.
	const frames = 200
	made := 0
	data := make([]byte, 64<<10)
	a.SetSource(2, func(buf []byte) ([]byte, bool) {
		if made++; made > frames {
			return buf, false
		}
		if made == 5 || made == 100 {
			a.Send(2, fmt.Appendf(nil, "control %d", made))
			a.Send(2, []byte("another"))
		}
		data[0] = byte(made)
		return append(buf, data...), true
	})
	for i := 1; i <= frames; i++ {
		if f := readFrame(t, nc); len(f) != len(data) || f[0] != byte(i) {
			t.Fatalf("frame %d: %d bytes", i, len(f))
		}
		if i == 5 || i == 100 {
			if f := readFrame(t, nc); string(f) != fmt.Sprintf("control %d", i) {
				t.Fatalf("after frame %d: %d bytes", i, len(f))
			}
			if f := readFrame(t, nc); string(f) != "another" {
				t.Fatalf("after frame %d: %d bytes", i, len(f))
			}
		}
	}
}

func TestANewSourceComesAfterWhatWasSent(t *testing.T) {
	a, l := start(t, 1), listen(t)
	a.book.set(2, l.Addr().String())
	a.Dial(2)
	nc := acceptRaw(t, l, "secret")
	next(t, a.outs, OutUp)
	endless := func(mark byte) Source {
		return func(buf []byte) ([]byte, bool) { return append(append(buf, mark), make([]byte, 1000)...), true }
	}
	a.SetSource(2, endless('a'))
	readFrame(t, nc)
	a.SetSource(2, nil)
	a.Send(2, []byte("|"))
	a.SetSource(2, endless('b'))
	want := byte('a')
	for range 1000 {
		switch f := readFrame(t, nc); {
		case f[0] == '|':
			want = 'b'
		case f[0] != want:
			t.Fatalf("a frame of %q where %q should be", f[0], want)
		}
		if want == 'b' {
			return
		}
	}
	// What was under way before may be long, but not that long.
	for {
		if f := readFrame(t, nc); f[0] == '|' {
			break
		}
	}
	if f := readFrame(t, nc); f[0] != 'b' {
		t.Fatalf("a frame of %q after the mark", f[0])
	}
}

func TestAPeerThatDoesNotReadIsCut(t *testing.T) {
	t.Run("control", func(t *testing.T) {
		a, l := start(t, 1), listen(t)
		a.book.set(2, l.Addr().String())
		a.Dial(2)
		acceptRaw(t, l, "secret")
		next(t, a.outs, OutUp)
		frame, sent := make([]byte, 64<<10), 0
		for a.Send(2, frame) {
			if sent++; sent > 1000 {
				t.Fatal("64 MiB went to a peer that does not read")
			}
		}
		if e := next(t, a.outs, OutLost); !strings.Contains(e.Err.Error(), "does not read") {
			t.Errorf("lost: %v", e.Err)
		}
		o := a.Mesh.outs[2]
		<-o.done
		if o.queue != nil {
			t.Error("what was not sent is kept")
		}
	})
	t.Run("data", func(t *testing.T) {
		a, l := start(t, 1), listen(t)
		a.writeTimeout = short
		a.book.set(2, l.Addr().String())
		a.Dial(2)
		acceptRaw(t, l, "secret")
		next(t, a.outs, OutUp)
		a.SetSource(2, func(buf []byte) ([]byte, bool) { return append(buf, make([]byte, 64<<10)...), true })
		if e := next(t, a.outs, OutLost); !strings.Contains(e.Err.Error(), "writing to it") {
			t.Errorf("lost: %v", e.Err)
		}
	})
}

func TestFramesThatAreTooLong(t *testing.T) {
	a, b := pair(t)
	s := shaken{secret: "secret", from: 1, to: 2, boot: 7, dial: 5}
	nc := s.shake(t, b.addr)
	next(t, b.ins, InUp)
	nc.Write(binary.LittleEndian.AppendUint32(nil, MaxFrame+1))
	if e := next(t, b.ins, InLost); !strings.Contains(e.Err.Error(), "announces") {
		t.Errorf("lost: %v", e.Err)
	}

	a.Dial(2)
	next(t, a.outs, OutUp)
	next(t, b.ins, InUp)
	if !a.Send(2, make([]byte, MaxFrame)) {
		t.Fatal("the longest frame can't be sent")
	}
	if e := next(t, b.ins, Frame); len(e.Payload) != MaxFrame {
		t.Errorf("got %d bytes", len(e.Payload))
	}
	if a.Send(2, make([]byte, MaxFrame+1)) {
		t.Error("too long a frame was sent")
	}
	next(t, a.outs, OutLost)
	next(t, b.ins, InLost)

	a.Dial(2)
	next(t, a.outs, OutUp)
	a.SetSource(2, func(buf []byte) ([]byte, bool) { return append(buf, make([]byte, MaxFrame+1)...), true })
	next(t, a.outs, OutLost)
}

func TestThePeerMustNotSpeakOnOut(t *testing.T) {
	a, l := start(t, 1), listen(t)
	a.book.set(2, l.Addr().String())
	a.Dial(2)
	nc := acceptRaw(t, l, "secret")
	next(t, a.outs, OutUp)
	nc.Write([]byte("x"))
	if e := next(t, a.outs, OutLost); !strings.Contains(e.Err.Error(), "should only receive") {
		t.Errorf("lost: %v", e.Err)
	}
}

func TestHelloTooLong(t *testing.T) {
	a, b := pair(t, func(c *Config) {
		if c.Self == 1 {
			c.Hello = func() []byte { return make([]byte, MaxHello+1) }
		}
	})
	a.Dial(2)
	if e := next(t, a.outs, DialFailed); !strings.Contains(e.Err.Error(), "too long") {
		t.Errorf("got %v", e.Err)
	}
	b.Dial(1)
	next(t, b.outs, DialFailed)
}

func TestRefusedOrSilent(t *testing.T) {
	closedPort := listen(t)
	closedPort.Close()
	for _, c := range []struct {
		name    string
		addr    string            // or:
		serve   func(nc net.Conn) // then the connection is closed
		refused bool
		misfit  bool
		text    string
	}{
		{name: "nobody listens", addr: closedPort.Addr().String(), refused: true, text: "connection refused"},
		{name: "no such name", addr: "node.invalid:1", text: "node.invalid"},
		{name: "closed at once", serve: func(net.Conn) {}, refused: true},
		{name: "reset at once", serve: func(nc net.Conn) { reset(nc) }, refused: true},
		{name: "closed after the line", serve: func(nc net.Conn) { nc.Read(make([]byte, 256)) }, refused: true},
		{name: "silent", serve: func(nc net.Conn) { io.Copy(io.Discard, nc) }, text: "does not answer: its process hangs or is stopped"},
		{name: "silent after the challenge", serve: func(nc net.Conn) {
			nc.Write(append([]byte{1}, make([]byte, 16)...))
			io.Copy(io.Discard, nc)
		}, text: "its process hangs or is stopped"},
		{name: "closed after the challenge", serve: func(nc net.Conn) {
			nc.Read(make([]byte, 256))
			nc.Write(append([]byte{1}, make([]byte, 16)...))
			nc.Read(make([]byte, 256))
		}, misfit: true, text: "another cluster secret"},
		{name: "a text", serve: func(nc net.Conn) { io.WriteString(nc, "E bad-request\n") }, misfit: true, text: "does not speak as a node"},
		{name: "who speaks first", serve: func(nc net.Conn) {
			io.WriteString(nc, "SSH-2.0-Open\r\n")
			nc.Read(make([]byte, 256))
		}, misfit: true, text: "does not speak as a node"},
		{name: "another version", serve: func(nc net.Conn) {
			nc.Write(append([]byte{2}, make([]byte, 16)...))
		}, misfit: true, text: "speaks version 2"},
		{name: "a hello that is too long", serve: func(nc net.Conn) {
			nc.Read(make([]byte, 256))
			nc.Write(append([]byte{1}, make([]byte, 16)...))
			nc.Read(make([]byte, 256))
			nc.Write(bytes.Repeat([]byte{0xff}, 64))
		}, misfit: true, text: "65535 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			timeout := patience
			if strings.HasPrefix(c.name, "silent") {
				timeout = short
			}
			a := start(t, 1, func(c *Config) { c.HandshakeTimeout = timeout })
			addr := c.addr
			if c.serve != nil {
				l := listen(t)
				addr = l.Addr().String()
				go func() {
					for {
						nc, err := l.Accept()
						if err != nil {
							return
						}
						c.serve(nc)
						nc.Close()
					}
				}()
			}
			a.book.set(2, addr)
			a.Dial(2)
			e := next(t, a.outs, DialFailed)
			if e.Refused != c.refused || e.Misfit != c.misfit || !strings.Contains(e.Err.Error(), c.text) {
				t.Errorf("refused %v, a misfit %v: %v", e.Refused, e.Misfit, e.Err)
			}
		})
	}
}

// One connection that is reset before a word is no sign that nobody is there.
func TestResetBeforeAWord(t *testing.T) {
	a, b, l := start(t, 1), start(t, 2), listen(t)
	b.book.set(1, "")
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		reset(nc)
		nc, err = l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", b.addr)
		if err != nil {
			nc.Close()
			return
		}
		go io.Copy(to, nc)
		io.Copy(nc, to)
	}()
	a.book.set(2, l.Addr().String())
	a.Dial(2)
	select {
	case e := <-a.outs:
		if e.Kind != OutUp {
			t.Errorf("got %+v", e)
		}
	case <-time.After(patience):
		t.Error("no event")
	}
}

func TestOneAttemptAtATimeAndCut(t *testing.T) {
	a, l := start(t, 1), listen(t)
	a.book.set(2, l.Addr().String())
	a.Dial(2)
	a.Dial(2)
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	a.CutOut(2)
	if e := next(t, a.outs, DialFailed); e.Gen != 1 || e.Refused || e.Err != errCut {
		t.Errorf("got %+v", e)
	}
	// The address is asked for anew each time.
	b := start(t, 2)
	b.book.set(1, "")
	a.book.set(2, b.addr)
	a.Dial(2)
	if e := next(t, a.outs, OutUp); e.Gen != 2 {
		t.Errorf("got %+v", e)
	}
}

func TestDialFromTheLoopbackAddress(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("127.0.1.2 is an address of this machine on Linux only")
	}
	a := start(t, 1, func(c *Config) { c.LocalIP = netip.MustParseAddr("127.0.1.2") })
	l := listen(t)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, addr := range []string{l.Addr().String(), net.JoinHostPort("localhost", port)} {
		a.book.set(2, addr)
		a.Dial(2)
		nc := acceptRaw(t, l, "secret")
		if host, _, _ := net.SplitHostPort(nc.RemoteAddr().String()); host != "127.0.1.2" {
			t.Errorf("%s is dialed from %s", addr, host)
		}
		next(t, a.outs, OutUp)
		a.CutOut(2)
		next(t, a.outs, OutLost)
	}
	for _, c := range []struct{ addr, local, want string }{
		{"127.0.0.1:5", "127.0.1.2", "127.0.0.1:5"},
		{"[::1]:5", "::1", "[::1]:5"},
		{"[::1]:5", "127.0.1.2", ""},
		{"127.0.0.1:5", "::1", ""},
		{"192.0.2.1:5", "127.0.1.2", ""},
	} {
		if got, err := loopback(t.Context(), c.addr, netip.MustParseAddr(c.local)); got != c.want || err != nil {
			t.Errorf("%s from %s: %q, %v", c.addr, c.local, got, err)
		}
	}
}

func TestNothingIsLeftAfterClose(t *testing.T) {
	before := runtime.NumGoroutine()
	var nodes []*node
	for id := range uint8(4) {
		nodes = append(nodes, start(t, id))
	}
	silent := listen(t)
	for _, n := range nodes {
		for id, p := range nodes {
			n.book.set(uint8(id), p.addr)
		}
		n.book.set(9, silent.Addr().String())
	}
	for _, n := range nodes {
		for id := range nodes {
			n.Dial(uint8(id))
		}
		n.Dial(9)
	}
	for _, n := range nodes {
		for range len(nodes) { // itself turns it away
			select {
			case <-n.outs:
			case <-time.After(patience):
				t.Fatal("a node is missing")
			}
		}
	}
	for _, n := range nodes {
		n.Close()
		for len(n.outs) > 0 {
			<-n.outs
		}
		n.Dial(1)
		if n.Send(1, nil) {
			t.Error("can send after Close")
		}
		nothing(t, n.outs)
	}
	// What is left are the listeners, and closings under way.
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > before+len(nodes) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("goroutines are left:\n%s", buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(time.Millisecond)
	}
}

// Whatever a stranger says, it sees nothing but the challenge.
func FuzzStranger(f *testing.F) {
	line := (&shaken{from: 1, to: 2}).line()
	f.Add(line)
	f.Add(append(bytes.Clone(line), append(withLength("hello"), make([]byte, 32)...)...))
	f.Add([]byte("N 2\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		m := New(Config{Self: 2, Peers: func(uint8) (string, bool) { return "", true }, Secret: []byte("secret"),
			Hello: func() []byte { return nil }, HandshakeTimeout: patience, Log: slog.New(slog.DiscardHandler)},
			func(e Event) { t.Errorf("%q: %+v", said, e) })
		theirs := &scripted{said: said, closed: make(chan struct{})}
		m.Accept(theirs, nil)
		<-theirs.closed
		m.Close()
		if got := theirs.got; len(got) != 0 && (len(got) != 17 || got[0] != 1) {
			t.Errorf("%q learns %q", said, got)
		}
	})
}

// scripted is a connection whose other side has said everything.
type scripted struct {
	net.Conn
	said, got []byte
	once      sync.Once
	closed    chan struct{}
}

func (s *scripted) Read(b []byte) (int, error) {
	if len(s.said) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.said)
	s.said = s.said[n:]
	return n, nil
}

func (s *scripted) Write(b []byte) (int, error) {
	s.got = append(s.got, b...)
	return len(b), nil
}

func (s *scripted) Close() error                { s.once.Do(func() { close(s.closed) }); return nil }
func (s *scripted) SetDeadline(time.Time) error { return nil }
func (s *scripted) RemoteAddr() net.Addr        { return nil }
