package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stile-lock/stile/server/internal/testca"
)

// hostileLines is how many lines a test sends in all.
const hostileLines = 100_000

// stop is what ends a connection of the hostile kind.
const (
	stopClose = iota
	stopReset
	stopHalf // and read to the end
	stopUnfinished
	stops
)

// hostile makes what strangers say.
type hostile struct {
	r    *rand.Rand
	n    int
	wild bool // this connection says what ends it
}

// seeds are lines to make others from: requests, answers, protocols of others,
// handshakes of peers. %d is a number of the connection.
var seeds = []string{
	"A h%d/a 0 600", "A h%d/a -1 600", "A h%d/b 1.5 0.001 nonce%[1]d", "A good/treasure 0.2 600", "A good/treasure -1 600 nonce",
	"R h%d/a 1", "R good/treasure 1", "K good/treasure 1 600", "K h%d/a 2 600", "C good/treasure nonce", "C h%d/b nonce%[1]d",
	"P word%d", "H 1 name%d", "H 1 name%d wrong-secret", "H 9 name%d", "", "\r", "A", "A ", "A  ", "A h%d",
	// answers
	"A good/treasure 1 600", "A h%d/a 9223372036854775807 600", "T good/treasure", "M A good/treasure 127.0.0.1:1", "E A good/treasure no-active", "E ? ? limit", "H 1 127.0.0.1:1 core,keep",
	// protocols of others
	"GET / HTTP/1.1\r\nHost: a\r\n\r", "POST /break HTTP/1.1\r\nContent-Length: 30\r\n\r\n{\"key\":\"good/treasure\"}", "SSH-2.0-x", "*1\r\n$4\r\nPING\r", "\x16\x03\x01\x02\x00\x01\x00\x01",
	// peers
	"N 1 1 0 abc 1 000102030405060708090a0b0c0d0e0f", "N 1 0 0 abc 1 000102030405060708090a0b0c0d0e0f", "N 77 1 0 abc", "N ", "N x",
}

// line makes a line. Most of those that are not wild have an op and a space,
// and so don't end the connection.
func (h *hostile) line() []byte {
	seed := seeds[h.r.IntN(len(seeds))]
	if !h.wild {
		b := h.mutation(seed)
		for i := range b {
			if i >= 2 && b[i] == '\n' && i < len(b)-1 {
				b[i] = ' '
			}
		}
		if len(b) > 1000 {
			b = append(b[:1000], '\n')
		}
		return append([]byte{"ARKCPHATRM"[h.r.IntN(10)], ' '}, b...)
	}
	return h.mutation(seed)
}

func (h *hostile) mutation(seed string) []byte {
	if strings.Contains(seed, "%") {
		seed = fmt.Sprintf(seed, h.n)
	}
	b := []byte(seed)
	switch h.r.IntN(8) {
	case 0, 1: // as it is
	case 2: // cut
		b = b[:h.r.IntN(len(b)+1)]
	case 3: // flipped
		for range 1 + h.r.IntN(3) {
			if len(b) > 0 {
				b[h.r.IntN(len(b))] ^= 1 << h.r.IntN(8)
			}
		}
	case 4: // with more in it
		at := h.r.IntN(len(b) + 1)
		b = append(b[:at:at], append(h.noise(h.r.IntN(20)), b[at:]...)...)
	case 5: // two, mixed
		other := seeds[h.r.IntN(len(seeds))]
		b = append(b[:h.r.IntN(len(b)+1)], other[h.r.IntN(len(other)+1):]...)
	case 6:
		b = h.noise(h.r.IntN(64))
	case 7:
		if h.r.IntN(20) == 0 {
			b = append(b, bytes.Repeat([]byte("x"), h.r.IntN(3000))...)
		}
	}
	if len(b) > 1 && b[0] == 'N' && b[1] == ' ' && h.r.IntN(2) == 0 {
		b = append(b, '\n')
		b = binary.LittleEndian.AppendUint16(b, uint16(h.r.IntN(1<<16)))
		b = append(b, h.noise(h.r.IntN(300))...)
	}
	return append(b, '\n')
}

func (h *hostile) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(h.r.UintN(256))
	}
	return b
}

// attack sends lines on one connection, reads what comes, and reports what was
// granted of the good ones' keys.
func (h *hostile) attack(nc net.Conn, lines int) (robbed string) {
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	answers := make(chan string, 1)
	go func() {
		bad := ""
		r := bufio.NewReaderSize(nc, 4096)
		for {
			line, err := r.ReadSlice('\n')
			if isGood(line) {
				bad = string(line)
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				answers <- bad
				return
			}
		}
	}()
	var burst []byte
	h.wild = h.r.IntN(3) == 0
	for range lines {
		if burst = append(burst, h.line()...); len(burst) > 2000 || h.r.IntN(4) == 0 {
			if _, err := nc.Write(burst); err != nil {
				break // it was closed on us
			}
			burst = burst[:0]
		}
	}
	nc.Write(burst)
	tcp, _ := nc.(*net.TCPConn)
	switch stop := h.r.IntN(stops); {
	case stop == stopReset && tcp != nil:
		tcp.SetLinger(0)
	case stop == stopHalf:
		nc.(interface{ CloseWrite() error }).CloseWrite()
		return <-answers
	case stop == stopUnfinished:
		half := h.line()
		nc.Write(half[:len(half)/2])
	}
	nc.Close()
	return <-answers
}

// isGood tells a grant of a key of the good ones'.
func isGood(line []byte) bool {
	return bytes.HasPrefix(line, []byte("A good/treasure ")) || bytes.HasPrefix(line, []byte("A good/mine "))
}

// siege lets strangers do their worst while good clients go on, and judges
// both.
type siege struct {
	t     *testing.T
	n     *node
	good  func() net.Conn // authorized
	raw   func() (net.Conn, error)
	bad   func() (net.Conn, error) // through TLS, say, and half of them authorized
	in    func() (net.Conn, error) // authorized
	lines int
}

func (s *siege) run() {
	t, n := s.t, s.n
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	keeper, heir, worker := talk(t, s.good()), talk(t, s.good()), talk(t, s.good())
	token := strings.Fields(keeper.ask("A good/treasure -1 600", "A good/treasure "))[2]
	heir.SetDeadline(time.Now().Add(10 * time.Minute))
	fmt.Fprintf(heir, "A good/treasure 0 600\n")
	n.waiting(1)
	memory, measured := n.residentKiB()
	files, counted := n.descriptors()
	base := n.state()

	// Some stop half way, and stay.
	nonce := "000102030405060708090a0b0c0d0e0f"
	for i := range 200 {
		nc, err := s.raw()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		says := []string{"", "N", "N 1 1 0", "N 1 1 0 abc 1 " + nonce + "\n", "N 1 1 0 abc 1 " + nonce + "\n\x28\x00half a hello",
			"A half", "\x16", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 half a hello", "H 1 me"}
		io.WriteString(nc, says[i%len(says)])
	}

	done := make(chan struct{})
	var left atomic.Int64
	left.Store(int64(s.lines))
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			h := &hostile{r: rand.New(rand.NewPCG(seed, uint64(w))), n: w}
			for {
				lines := 1 + h.r.IntN(100)
				if left.Add(-int64(lines)) < -100 {
					return
				}
				dial := s.bad
				if h.r.IntN(4) == 0 {
					dial = s.raw
				}
				nc, err := dial()
				if err != nil {
					continue // it was turned away
				}
				if robbed := h.attack(nc, lines); robbed != "" {
					t.Errorf("a stranger was told %q", robbed)
				}
			}
		})
	}
	// And one that asks for more than it may.
	all.Go(func() {
		for range 5 {
			nc, err := s.in()
			if err != nil {
				t.Error(err)
				continue
			}
			nc.SetDeadline(time.Now().Add(patience))
			go nc.Write(bytes.Repeat([]byte("A good/treasure 0 600\n"), 4097))
			text, err := io.ReadAll(nc)
			if err != nil || !bytes.Contains(text, []byte("E ? ? limit")) {
				t.Errorf("4,097 acquires: %.200q, %v", text, err)
			}
			for _, line := range bytes.Split(text, []byte("\n")) {
				if isGood(line) {
					t.Errorf("4,097 acquires: %q", line)
				}
			}
			nc.Close()
		}
	})
	go func() { all.Wait(); close(done) }()

	peak, last, worst, rounds := memory, "", time.Duration(0), 0
	for running := true; running; {
		begin := time.Now()
		got := strings.Fields(worker.ask("A good/mine -1 600", "A good/mine "))[2]
		worker.ask("R good/mine "+got, "R good/mine "+got)
		worst = max(worst, time.Since(begin))
		if len(got) < len(last) || len(got) == len(last) && got <= last {
			t.Errorf("token %s after %s", got, last)
		}
		if last = got; rounds%64 == 0 {
			if now, ok := n.residentKiB(); ok {
				peak = max(peak, now)
			}
		}
		rounds++
		select {
		case <-done:
			running = false
		case <-time.After(time.Millisecond):
		}
	}
	t.Logf("%d rounds of a good client, the worst took %v; memory %d KiB, at most %d KiB; files %d", rounds, worst, memory, peak, files)
	if worst > tooLate {
		t.Errorf("a good client waited %v", worst)
	}
	if measured && peak-memory > 128<<10 && !raceEnabled {
		t.Errorf("memory grew from %d KiB to %d KiB", memory, peak)
	}
	n.eventually("strangers are gone", func(now state) bool { return now.Waiting == base.Waiting && now.Connections <= base.Connections+200 })
	if counted {
		if now, _ := n.descriptors(); now > files+210 {
			t.Errorf("%d files are open, there were %d and 200 strangers stayed", now, files)
		}
	}
	// The treasure is where it was, and goes to whom it was promised.
	keeper.ask("K good/treasure "+token+" 600", "K good/treasure "+token)
	keeper.ask("R good/treasure "+token, "R good/treasure "+token)
	if line, err := heir.r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "A good/treasure ") {
		t.Errorf("the first in line got %q, %v", line, err)
	}
}

// startOne starts a cluster of one node, which listens to peers.
func startOne(t *testing.T, flags ...string) *node {
	t.Helper()
	bin, err := stiled()
	if err != nil {
		t.Fatal(err)
	}
	const self = "127.0.0.1:5625"
	dir := t.TempDir()
	n := &node{dir: dir, process: launch(t, stiledCmd(bin, dir, append([]string{"--peers=" + self, "--advertise=" + self, "--log-level=info"}, flags...)...))}
	var line struct{ Listen, Admin string }
	if err := json.Unmarshal([]byte(n.waitFor(`"stiled listens"`)), &line); err != nil {
		t.Fatal(err)
	}
	n.addr, n.admin = line.Listen, line.Admin
	n.waitFor(`"this node is active"`)
	t.Cleanup(func() {
		n.cmd.Process.Kill()
		<-n.done
		n.checkLog()
	})
	return n
}

func TestHostileInput(t *testing.T) {
	n := startOne(t, "--cluster-secret-file", secretFile(t, "of-the-cluster"))
	raw := func() (net.Conn, error) { return net.DialTimeout("tcp", n.addr, patience) }
	s := &siege{t: t, n: n, raw: raw, bad: raw, in: raw, lines: hostileLines}
	s.good = func() net.Conn {
		nc, err := raw()
		if err != nil {
			t.Fatal(err)
		}
		return nc
	}
	s.run()
}

// The same over TLS, where a secret is asked.
func TestHostileInputOverTLS(t *testing.T) {
	ca := testca.New(t, "ours")
	cert, key := ca.Issue("node", []string{"127.0.0.1"}, nil)
	n := startOne(t, "--secret-file", secretFile(t, "sesame"), "--tls-cert", cert, "--tls-key", key)
	raw := func() (net.Conn, error) { return net.DialTimeout("tcp", n.addr, patience) }
	secure := func() (net.Conn, error) {
		nc, err := dialTLS(t, n.addr, &tls.Config{RootCAs: ca.Pool})
		if err != nil {
			return nil, err
		}
		return nc, nil
	}
	// Half of the strangers know the secret.
	var count atomic.Int64
	insider := func() (net.Conn, error) {
		nc, err := secure()
		if err == nil {
			_, err = io.WriteString(nc, "H 1 insider sesame\n")
		}
		return nc, err
	}
	some := func() (net.Conn, error) {
		if count.Add(1)%2 == 0 {
			return insider()
		}
		return secure()
	}
	s := &siege{t: t, n: n, raw: raw, bad: some, in: insider, lines: hostileLines / 4}
	s.good = func() net.Conn {
		nc, err := secure()
		if err != nil {
			t.Fatal(err)
		}
		c := talk(t, nc)
		c.ask("H 1 good sesame", "H 1 ")
		return nc
	}
	s.run()
}

// A node that may open no more files serves those who are connected, and
// accepts again soon after it may.
func TestOutOfDescriptors(t *testing.T) {
	t.Parallel()
	n := start(t)
	inside := n.dial()
	inside.inStep()
	files, ok := n.descriptors()
	if !ok || !n.limitDescriptors(files+20) {
		t.Skip("descriptors of another process can't be limited here")
	}
	roundTrips(t, inside, func() {
		crowd := n.dialAll(100)
		n.waitFor("accepting fails")
		time.Sleep(time.Second)
		for _, c := range crowd[:60] {
			c.Close()
		}
		// Those who waited in the kernel come first, and fill the place.
		for _, c := range crowd[60:75] {
			c.send("P x")
		}
	})
	begin := time.Now()
	if !n.limitDescriptors(files + 500) {
		t.Fatal("the limit can't be raised")
	}
	n.dial().inStep()
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("served %v after the relief", took)
	}
	if lines := strings.Count(n.stderr(), "accepting fails"); lines > 2 {
		t.Errorf("it says %d times that accepting fails", lines)
	}
}

// A limit that was there at the start is kept below: who comes too late is
// told so.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	bin, err := stiled()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh")
	}
	dir := t.TempDir()
	cmd := stiledCmd(bin, dir)
	sh := exec.Command("sh", append([]string{"-c", `ulimit -n 200 && exec "$0" "$@"`}, cmd.Args...)...)
	n := &node{process: launch(t, sh), dir: dir}
	var line struct{ Listen, Admin string }
	if err := json.Unmarshal([]byte(n.waitFor(`"stiled serves"`)), &line); err != nil {
		t.Fatal(err)
	}
	n.addr, n.admin = line.Listen, line.Admin
	n.waitFor("it can open 200 files (ulimit -n), so it takes 100 connections")
	inside := n.dialAll(100)
	for _, c := range inside {
		c.inStep()
	}
	for range 150 {
		c := n.dial()
		c.want("E ? ? limit")
		c.closed()
		c.Close()
	}
	inside[0].inStep()
	if s := n.state(); s.Connections != 100 {
		t.Errorf("%+v", s)
	}
}
