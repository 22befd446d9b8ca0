package e2e

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// answer sends a line of bytes and compares the answer.
func (c *client) answer(line, want string) {
	c.t.Helper()
	c.write([]byte(line + "\n"))
	if got := c.line(); !same(got, want) {
		c.t.Errorf("%.100q is answered %.100q, want %.100q", line, got, want)
	}
}

// Nobody but who has the token ends or keeps a grant.
func TestWrongTokens(t *testing.T) {
	t.Parallel()
	n := start(t)
	a, b, c := n.dial(), n.dial(), n.dial()
	other := a.acquire("other", "600")
	token := a.acquire("k", "600")
	c.send("A k 0 600")
	c.inStep()
	for _, who := range []*client{a, b} {
		for wrong, code := range map[string]string{
			"0":                                     "bad-request",
			fmt.Sprint(token - 2):                   "not-held",
			fmt.Sprint(token + 1):                   "not-held",
			fmt.Sprint(token + 5):                   "not-held",
			fmt.Sprint(other):                       "not-held", // T-1 as well
			fmt.Sprint(1):                           "not-held",
			"9223372036854775807":                   "not-held",
			"9223372036854775808":                   "not-held",
			"18446744073709551615":                  "not-held",
			"18446744073709551616":                  "bad-request",
			fmt.Sprint(uint64(math.MaxUint64), "0"): "bad-request",
			fmt.Sprintf("0%d", token):               "bad-request",
			fmt.Sprintf("+%d", token):               "bad-request",
			fmt.Sprintf("-%d", token):               "bad-request",
			fmt.Sprintf("%d.0", token):              "bad-request",
			fmt.Sprintf("%#x", token):               "bad-request",
			fmt.Sprintf("%d 1", token):              "bad-request",
			fmt.Sprint(token) + " ":                 "bad-request",
			" " + fmt.Sprint(token):                 "bad-request",
			"":                                      "bad-request",
			"token":                                 "bad-request",
			strings.Repeat("9", 900):                "bad-request",
			"1" + fmt.Sprint(token)[1:] + "0000000000000": "bad-request",
		} {
			who.answer("R k "+wrong, "E R k "+code)
			keep := "E K k " + code
			if strings.HasSuffix(wrong, " 1") {
				keep = "E K k bad-request"
			}
			who.answer("K k "+wrong+" 600", keep)
		}
		who.answer("R k", "E R k bad-request")
		who.answer("K k", "E K k bad-request")
		who.answer(fmt.Sprintf("K k %d", token), "E K k bad-request")
		// Another key's token the other way round, and keys that look alike.
		who.answer(fmt.Sprintf("R other %d", token), "E R other not-held")
		who.answer(fmt.Sprintf("R K %d", token), "E R K not-held")
		who.answer(fmt.Sprintf("R kk %d", token), "E R kk not-held")
		who.answer("A k -1 600", "T k")
	}
	if s := n.state(); s.Held != 2 || s.Waiting != 1 {
		t.Errorf("the state is %+v", s)
	}
	// The right one works over any connection.
	b.answer(fmt.Sprintf("K k %d 500", token), fmt.Sprintf("K k %d 500", token))
	b.answer(fmt.Sprintf("R k %d", token), fmt.Sprintf("R k %d", token))
	c.granted("k", token+1, 600)
	b.answer(fmt.Sprintf("R k %d", token), "E R k not-held")
}

// A holder that wakes up after its lease can't harm the next one.
func TestLateRelease(t *testing.T) {
	t.Parallel()
	n := start(t)
	a, b, c := n.dial(), n.dial(), n.dial()
	token := a.acquire("k", "0.2")
	b.send("A k 0 600")
	b.granted("k", token+1, 600)
	for range 3 {
		a.answer(fmt.Sprintf("R k %d", token), "E R k not-held")
		a.answer(fmt.Sprintf("K k %d 600", token), "E K k not-held")
		c.answer("A k -1 600", "T k")
	}
	b.release("k", token+1)

	// Nor does it come back to life where nobody was next.
	token = a.acquire("free", "0.2")
	time.Sleep(250 * time.Millisecond)
	a.answer(fmt.Sprintf("K free %d 600", token), "E K free not-held")
	a.answer(fmt.Sprintf("R free %d", token), "E R free not-held")
	c.acquire("free", "600")
}

// Copies of a release that come late meet a newer grant of the same client,
// and don't touch it.
func TestOldReleasesMeetANewerGrant(t *testing.T) {
	t.Parallel()
	n := start(t)
	a, b := n.dial(), n.dial()
	first := a.acquire("k", "600")
	a.release("k", first)
	second := a.acquire("k", "600")
	for range 25 {
		a.answer(fmt.Sprintf("R k %d", first), "E R k not-held")
		b.answer(fmt.Sprintf("R k %d", first), "E R k not-held")
	}
	b.answer("A k -1 600", "T k")
	// All in one write, the newer grant among them.
	var lines, want []string
	lines = append(lines, fmt.Sprintf("R k %d", second), "A k -1 600")
	want = append(want, fmt.Sprintf("R k %d", second), fmt.Sprintf("A k %d 600", second+1))
	for range 25 {
		lines = append(lines, fmt.Sprintf("R k %d", second))
		want = append(want, "E R k not-held")
	}
	a.write([]byte(strings.Join(lines, "\n") + "\n"))
	for _, w := range want {
		a.want("%s", w)
	}
	b.answer("A k -1 600", "T k")
	a.release("k", second+1)
}

// Numbers are taken as they are or refused: never cut, never wrapped.
func TestOddNumbers(t *testing.T) {
	t.Parallel()
	n := start(t)
	c, other := n.dial(), n.dial()
	held := other.acquire("held", "3600")

	bad := []string{
		// Too big, whatever they would wrap to.
		"2147483647", "2147483648", "4294967295", "4294967296", "4294967297", "9007199254740992",
		"9223372036854", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
		"1000000000", "1000000000.001", strings.Repeat("9", 300),
		// Other ways to write numbers, and none at all.
		"inf", "Inf", "NaN", "nil", "null", "1e3", "1E3", "0x10", "0b1", "1_000", "1,5", "+5", "-0", "-5", "-1.0", "-1.5", "-01", "--1",
		"5s", "5ms", "5.", ".5", ".", "5..5", "5.5.5", "0.0001", "1.0000", "00", "01", "007", "00.5", "٣", "５", "½", `"5"`, "5;",
	}
	for _, v := range bad {
		c.answer("A free "+v+" 30", "E A free bad-request")
		c.answer("A free -1 "+v, "E A free bad-request")
		c.answer("A held "+v+" 30", "E A held bad-request")
		c.answer(fmt.Sprintf("K held %d %s", held, v), "E K held bad-request")
	}
	c.answer("A free -1 -1", "E A free bad-request")
	c.answer(fmt.Sprintf("K held %d -1", held), "E K held bad-request")
	for _, line := range []string{"A free", "A free 0", "A free  0 30", "A free 0  30", "A free 0 30 ", "A free 0 30\t", "A free\t0 30", "A free 0 30 nonce more", "A free 0 30 ", "A free 0 30 n.n", "A free 0 30 " + strings.Repeat("n", 33)} {
		want := "E A free bad-request"
		if strings.Contains(line, "free\t") {
			want = "E A ? bad-key"
		}
		c.answer(line, want)
	}
	// None of them did anything.
	if s := n.state(); s.Held != 1 || s.Waiting != 0 {
		t.Fatalf("the state is %+v", s)
	}

	for v, granted := range map[string]string{
		"0": "30", "0.0": "30", "0.000": "30", // the default
		"0.001": "0.001", "0.01": "0.01", "0.1": "0.1", "1": "1", "1.5": "1.5", "1.50": "1.5", "1.500": "1.5",
		"86399.999": "86399.999", "86400": "86400", "86400.001": "86400", "999999999": "86400", "999999999.999": "86400",
	} {
		c.send("A free 0 %s", v)
		line := c.line()
		f := strings.Fields(line)
		if len(f) != 4 || f[3] != granted {
			t.Errorf("a lease of %s is granted as %q, want %s", v, line, granted)
			continue
		}
		if granted == "0.001" {
			time.Sleep(2 * time.Millisecond)
			continue
		}
		c.send("K free %s %s", f[2], v)
		if granted == "0.01" || granted == "0.1" {
			c.line() // over by now, on a slow machine
			c.send("R free %s", f[2])
			c.line()
			continue
		}
		c.want("K free %s %s", f[2], granted)
		// It is not over at once.
		other.answer("A free -1 30", "T free")
		c.answer("R free "+f[2], "R free "+f[2])
	}
	n.eventually("only one key is held", func(s state) bool { return s.Held == 1 })

	// The longest wait is a wait, and 0 is one without end.
	for _, wait := range []string{"0", "0.000", "999999999.999", "999999999"} {
		w := n.dial()
		w.send("A held %s 30", wait)
		w.quiet(20 * time.Millisecond)
		w.inStep()
		w.reset()
	}
	n.waiting(0)
	begin := time.Now()
	c.answer("A held -1 30", "T held")
	t.Logf("-1 on a held key is answered after %v", time.Since(begin))
	c.answer("A held 0.001 30", "T held")
}

// Keys are bytes: they come back as they were sent, or are refused without
// harm to the next line.
func TestOddKeys(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := n.dial()

	good := []string{
		"A", "R", "T", "E", "M", "K", "P", "H", "C", "0", "-1", "??", "?a", "a?", "*", "key=value", "../../etc/passwd", "%00", `\n`, `"'`, "{}",
		"🔒", "é", "e\u0301", "\xff\xfe", "\xc3", "\x80", "\u202e", "\u2028", "\ufeff", "\u00a0", "\xc0\xaf",
		strings.Repeat("k", 254), strings.Repeat("k", 255), strings.Repeat("\xff", 255),
	}
	tokens := map[string]uint64{}
	for _, key := range good {
		c.send("A %s -1 600", key)
		tokens[key] = c.grant(key)
	}
	if s := n.state(); s.Held != len(good) {
		t.Errorf("%d keys are held, want %d: two of them were taken for one", s.Held, len(good))
	}
	for _, key := range good {
		c.answer("A "+key+" -1 600", "T "+key)
		c.answer("P "+key, "P "+key)
		c.answer(fmt.Sprintf("R %s %d", key, tokens[key]), fmt.Sprintf("R %s %d", key, tokens[key]))
	}

	for _, key := range []string{
		"", "?", " ", "\t", "\r", "\x00", "\x01", "\x1f", "\x7f", "a\tb", "a\x00b", "a\rb", "a\x7f", "\x1b[2J",
		strings.Repeat("k", 256), strings.Repeat("k", 257), strings.Repeat("k", 900), strings.Repeat("🔒", 64),
	} {
		for op, rest := range map[string]string{"A": " -1 600", "R": " 1", "K": " 1 5", "C": " nonce"} {
			c.answer(op+" "+key+rest, "E "+op+" ? bad-key")
		}
		c.inStep()
	}
	for _, line := range []string{"A", "R", "P", "H", "A ", "P ", "A  -1 600", "P \t", "A \r"} {
		c.answer(line, "E "+line[:1]+" ? bad-key")
	}
	c.answer("P a b", "E P a bad-request")
	// A CR before the line's end belongs to the end.
	c.answer("P a\r", "P a")
	c.write([]byte("\n\r\n\n"))
	c.inStep()
	if s := n.state(); s.Held != 0 {
		t.Errorf("%d keys are held", s.Held)
	}

	// An LF in a key ends the line, and what follows is another one.
	c.write([]byte("A a\nP b 0 30\nA \nP c\n"))
	for _, want := range []string{"E A a bad-request", "E P b bad-request", "E A ? bad-key", "P c"} {
		c.want("%s", want)
	}
	c.write([]byte("A a\r\nkey 0 30\nP never\n"))
	c.want("E A a bad-request")
	c.want("E ? ? bad-request")
	c.closed()
}

// A line of 1,024 bytes is the longest; a longer one is refused while it
// arrives, however much of it there would be, and is not kept.
func TestLongLines(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := n.dial()
	longest := "P " + strings.Repeat("x", 1024-3)
	c.answer(longest, "E P ? bad-key")
	c.write([]byte(longest[:1023]))
	c.quiet(20 * time.Millisecond)
	c.write([]byte("\n"))
	c.want("E P ? bad-key")
	c.write([]byte(longest[:1022] + "\r\n"))
	c.want("E P ? bad-key")
	c.inStep()
	// The 1,024th byte decides, though the line's end is nowhere yet.
	c.write([]byte("A " + strings.Repeat("x", 1022)))
	c.want("E ? ? bad-request")
	c.closed()

	before, measured := n.residentKiB()
	peak := before
	for _, size := range []int{1025, 64 << 10, 1 << 20, 16 << 20} {
		for _, head := range []string{"A ", "A k 0 30 ", "", " ", "\x16\x03\x01"} {
			c := n.dial()
			done := make(chan struct{})
			go func() {
				defer close(done)
				// It ends with an error when the node has had enough.
				c.SetWriteDeadline(time.Now().Add(patience))
				c.Write(append(bytes.Repeat([]byte{'x'}, size), "\nP never\nA never 0 600\n"...))
			}()
			c.write([]byte(head))
			if line := c.line(); !same(line, "E ? ? bad-request") {
				t.Fatalf("%d bytes after %q: %q", size, head, line)
			}
			if size < 1<<20 { // more is not thrown away in good order
				c.closed()
			}
			if now, ok := n.residentKiB(); ok {
				peak = max(peak, now)
			}
			c.Close()
			<-done
		}
	}
	if s := n.state(); s.Held != 0 {
		t.Errorf("a line after a refused one was executed: %+v", s)
	}
	if measured {
		t.Logf("memory of the node: %d KiB, at most %d KiB", before, peak)
		if peak-before > 32<<10 && !raceEnabled {
			t.Errorf("memory of the node grew from %d KiB to %d KiB", before, peak)
		}
	}
}
