package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// lineUp makes every client wait for the key, in their order.
func lineUp(all []*client, key, lease string) {
	for _, c := range all {
		c.t.Helper()
		c.send("A %s 600 %s", key, lease)
		c.inStep() // it stands in line before the next one comes
	}
}

func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	n := start(t)

	t.Run("by release", func(t *testing.T) {
		n := n.on(t)
		holder, all := n.dial(), n.dialAll(20)
		token := holder.acquire("k", "600")
		lineUp(all, "k", "600")
		holder.release("k", token)
		for i, c := range all {
			next := c.grant("k")
			if next != token+1 {
				t.Fatalf("waiter %d has token %d, after %d", i, next, token)
			}
			token = next
			// Nobody else has it meanwhile, and nobody pushes in.
			holder.send("A k -1 600")
			holder.want("T k")
			if i+1 < len(all) {
				all[i+1].inStep()
			}
			c.release("k", token)
		}
		holder.release("k", holder.acquire("k", "600"))
	})

	t.Run("by the end of leases", func(t *testing.T) {
		n := n.on(t)
		holder, all := n.dial(), n.dialAll(20)
		late := lateness{t: t, what: "lease in a chain of 20"}
		begin := time.Now()
		token := holder.acquire("l", "3") // all must be in line by then
		lineUp(all, "l", "0.05")
		for i, c := range all {
			if next := c.grant("l"); next != token+1 {
				t.Fatalf("waiter %d has token %d, after %d", i, next, token)
			}
			late.add(begin, 3*time.Second+time.Duration(i)*50*time.Millisecond)
			token++
		}
		late.print()
	})

	// What timed out in the middle of the line is passed over.
	t.Run("with timeouts", func(t *testing.T) {
		n := n.on(t)
		holder, all := n.dial(), n.dialAll(20)
		token := holder.acquire("m", "600")
		for i, c := range all {
			wait := "600"
			if i%2 == 1 {
				wait = "3" // all must be in line by then
			}
			c.send("A m %s 600", wait)
			c.inStep()
		}
		for i, c := range all {
			if i%2 == 1 {
				c.want("T m")
			}
		}
		holder.release("m", token)
		for i, c := range all {
			if i%2 == 0 {
				token++
				c.granted("m", token, 600)
				c.release("m", token)
			}
		}
	})
}

// A thousand that time out leave nothing behind.
func TestThousandTimeouts(t *testing.T) {
	t.Parallel()
	n := start(t)
	holder := n.dial()
	token := holder.acquire("k", "600")
	all := n.dialAll(1000)
	late := lateness{t: t, what: "wait of one in a thousand"}
	begin := make([]time.Time, len(all))
	for i, c := range all {
		begin[i] = time.Now()
		c.send("A k 0.2 600")
	}
	for i, c := range all {
		c.want("T k")
		late.add(begin[i], 200*time.Millisecond)
	}
	if s := n.state(); s.Waiting != 0 || s.Held != 1 {
		t.Errorf("the state is %+v", s)
	}
	holder.release("k", token)
	fresh := n.dial()
	asked := time.Now()
	fresh.send("A k -1 600")
	fresh.granted("k", token+1, 600)
	t.Logf("a fresh acquire is granted after %v; %d waits of 200 ms were read within %v", time.Since(asked), len(all), time.Since(begin[0]))
}

func init() {
	helpers["waiter"] = func(args []string) error {
		nc, err := net.Dial("tcp", args[0])
		if err != nil {
			return err
		}
		fmt.Fprintf(nc, "%s\nP in-line\n", args[1])
		if line, err := bufio.NewReader(nc).ReadString('\n'); line != "P in-line\n" {
			return fmt.Errorf("got %q, %v", line, err)
		}
		fmt.Fprintln(os.Stderr, "in line")
		_, err = io.Copy(io.Discard, nc)
		return err
	}
}

// waiterProcess is a process of its own that waits for the key.
func (n *node) waiterProcess(line string) *process {
	n.t.Helper()
	cmd := exec.Command(os.Args[0], n.addr, line)
	cmd.Env = append(cleanEnv(), helperEnv+"=waiter")
	p := launch(n.t, cmd)
	p.waitFor("in line")
	return p
}

// A waiter that is gone is not granted: the next in line gets the key at
// once, with the very next token.
func TestWaiterThatIsGone(t *testing.T) {
	t.Parallel()
	n := start(t)
	inLine := func(n *node, key string) *client {
		c := n.dial()
		c.send("A %s 0 600", key)
		c.inStep()
		return c
	}
	for name, lineUp := range map[string]func(n *node, key string) (leave func()){
		"closed":      func(n *node, key string) func() { c := inLine(n, key); return func() { c.Close() } },
		"reset":       func(n *node, key string) func() { c := inLine(n, key); return c.reset },
		"half-closed": func(n *node, key string) func() { c := inLine(n, key); return func() { c.CloseWrite() } },
		"killed":      func(n *node, key string) func() { return n.waiterProcess("A " + key + " 0 600").kill },
		"with a nonce": func(n *node, key string) func() {
			c := n.dial()
			c.send("A %s 0 600 nonce", key)
			c.inStep()
			return c.reset
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := n.on(t)
			before := n.state()
			key := "gone"
			a, c := n.dial(), n.dial()
			token := a.acquire(key, "600")
			leave := lineUp(n, key)
			c.send("A %s 0 600", key)
			c.inStep()
			leave()
			n.eventually("the drop is seen", func(s state) bool { return s.Connections == before.Connections+2 })
			begin := time.Now()
			a.send("R %s %d", key, token)
			c.granted(key, token+1, 600)
			if d := time.Since(begin); d > tooLate {
				t.Errorf("granted after %v", d)
			} else {
				t.Logf("granted after %v", d)
			}
			a.want("R %s %d", key, token)
			c.release(key, token+1)
			a.Close()
			c.Close()
			n.eventually("nothing is left", func(s state) bool {
				return s.Waiting == 0 && s.Held == 0 && s.Connections == before.Connections
			})
		})
	}
}

// A waiter leaves at the very moment at which the key falls free. Either it
// is passed over, or it was told of its grant, which then lasts for its
// lease. In no case is the key lost for the one behind it.
func TestWaiterLeavesAtTheHandOver(t *testing.T) {
	t.Parallel()
	n := start(t)
	const (
		rounds = 12
		keys   = 40
	)
	a, c := n.dial(), n.dial()
	first := a.acquire("x", "600")
	a.release("x", first)
	for round := range rounds {
		var key [keys]string
		var token [keys]uint64
		leave := make([]func(), keys)
		for i := range keys {
			key[i] = fmt.Sprintf("k-%d-%d", round, i)
			token[i] = a.acquire(key[i], "600")
			b := n.dial()
			nonce := ""
			if i%4 == 3 {
				nonce = " nonce"
			}
			b.send("A %s 0 0.05%s", key[i], nonce)
			b.inStep()
			leave[i] = b.reset
			if i%2 == 1 {
				leave[i] = func() { b.Close() }
			}
			c.send("A %s 0 600", key[i])
		}
		c.inStep()
		for i := range keys {
			// 0 to 4 ms from here: 2 ms before to 2 ms after the release.
			time.AfterFunc(rand.N(4*time.Millisecond), leave[i])
		}
		time.Sleep(2 * time.Millisecond)
		begin := time.Now()
		for i := range keys {
			a.send("R %s %d", key[i], token[i])
		}
		for i := range keys {
			a.want("R %s %d", key[i], token[i])
		}
		for granted, released := 0, 0; released < keys; {
			line := c.line()
			if line[0] == 'R' {
				released++
				continue
			}
			var k string
			var tok uint64
			if _, err := fmt.Sscanf(line, "A %s %d", &k, &tok); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			c.send("R %s %d", k, tok)
			if granted++; granted == keys {
				if d := time.Since(begin); d > tooLate {
					t.Errorf("round %d took %v", round, d)
				}
			}
		}
	}
	last := a.acquire("x", "600")
	t.Logf("of %d waiters that left, %d had a grant written to them", rounds*keys, last-first-1-2*rounds*keys)
	a.release("x", last)
	// Detached ones stay for their grace of a second.
	n.eventually("nothing is left", func(s state) bool { return s.Waiting == 0 && s.Held == 0 && s.Connections == 2 })
}

// Of 50 clients that each hold a key and wait for a shared one, one drops:
// only its place in line goes.
func TestDropTakesItsOwnPlaceOnly(t *testing.T) {
	t.Parallel()
	n := start(t)
	holder := n.dial()
	token := holder.acquire("shared", "600")
	all := n.dialAll(50)
	own := make([]uint64, len(all))
	for i, c := range all {
		own[i] = c.acquire(fmt.Sprint("own-", i), "600")
	}
	lineUp(all, "shared", "600")
	const gone = 24
	all[gone].reset()
	n.waiting(len(all) - 1)
	if s := n.state(); s.Held != len(all)+1 {
		t.Errorf("%d keys are held", s.Held)
	}
	holder.release("shared", token)
	token = own[len(own)-1] // the last one given
	for i, c := range all {
		if i == gone {
			continue
		}
		token++
		c.granted("shared", token, 600)
		c.release("shared", token)
	}
	// Every own key is held still, also that of the one who is gone, and who
	// knows its token may release it.
	for i := range all {
		holder.send("A own-%d -1 600", i)
		holder.want("T own-%d", i)
		holder.release(fmt.Sprint("own-", i), own[i])
	}
	n.eventually("nothing is held", func(s state) bool { return s.Held == 0 && s.Waiting == 0 })
}

// The end of a client's input is the end of its requests: what is due is
// written, what waits leaves, and the node closes.
func TestHalfClose(t *testing.T) {
	t.Parallel()
	n := start(t)

	t.Run("answers that are due", func(t *testing.T) {
		n := n.on(t)
		// As by: printf 'A k 0 5\n' | nc -N
		c := n.dial()
		c.send("A due 0 5\nP one\nR due 1\nP two")
		c.CloseWrite()
		c.grant("due")
		c.want("P one")
		c.want("E R due not-held")
		c.want("P two")
		c.closed()
		other := n.dial()
		other.send("A due -1 5")
		other.want("T due")
	})

	t.Run("many of them", func(t *testing.T) {
		n := n.on(t)
		const many = 20_000
		c := n.dial()
		go func() {
			w := bufio.NewWriter(c)
			for i := range many {
				fmt.Fprintf(w, "P word-%d\n", i)
			}
			w.Flush()
			c.CloseWrite()
		}()
		for i := range many {
			c.want("P word-%d", i)
		}
		c.closed()
	})

	t.Run("more of them than the kernel holds", func(t *testing.T) {
		n := n.on(t)
		c, lines := clog(n)
		c.CloseWrite()
		for range lines {
			if line := c.line(); !strings.HasPrefix(line, "P xxx") {
				t.Fatalf("got %q", line)
			}
		}
		c.closed()
	})

	t.Run("waiters leave", func(t *testing.T) {
		n := n.on(t)
		holder, c := n.dial(), n.dial()
		token := holder.acquire("w", "600")
		c.send("A w 0 600\nA w 0 600\nP last")
		c.CloseWrite()
		c.want("P last")
		c.closed()
		n.waiting(0)
		holder.release("w", token)
		holder.send("A w -1 600")
		holder.granted("w", token+1, 600)
	})

	t.Run("a last line without its end", func(t *testing.T) {
		n := n.on(t)
		c := n.dial()
		c.write([]byte("P first\nA unfinished -1 600"))
		c.CloseWrite()
		c.want("P first")
		c.closed()
		n.dial().acquire("unfinished", "600")
	})
}

// A holder that is there but says nothing keeps its key for its lease and no
// longer; so does one that closed its connection.
func TestHolderThatIsSilent(t *testing.T) {
	t.Parallel()
	n := start(t)
	for name, leave := range map[string]func(c *client){
		"silent": func(*client) {},
		"closed": func(c *client) { c.Close() },
		"reset":  (*client).reset,
	} {
		holder, waiter := n.dial(), n.dial()
		late := lateness{t: t, what: "lease of a holder that is " + name}
		begin := time.Now()
		token := holder.acquire(name, "0.4")
		leave(holder)
		waiter.send("A %s 0 600", name)
		waiter.granted(name, token+1, 600)
		late.add(begin, 400*time.Millisecond)
		late.print()
	}
}

// After a thousand connections nothing of them is left: no descriptor, no
// goroutine, no waiter.
func TestThousandConnectionsComeAndGo(t *testing.T) {
	t.Parallel()
	n := start(t)
	holder := n.dial()
	holder.acquire("k", "600")
	settle := func(what string, want state, wantFDs int) (state, int) {
		t.Helper()
		var fds int
		var s state
		n.eventually(what, func(now state) bool {
			s = now
			fds, _ = n.descriptors()
			return s.Connections == want.Connections && s.Waiting == 0 && s.Held == want.Held &&
				(wantFDs < 0 || s.Goroutines <= want.Goroutines && fds <= wantFDs)
		})
		return s, fds
	}
	// One connection of each kind first, so that what is made once is there.
	comeAndGo := func(many int) {
		for i, c := range n.dialAll(many) {
			switch i % 5 {
			case 0:
				c.Close()
			case 1:
				c.send("A k 0 600")
				c.inStep()
				c.reset()
			case 2:
				c.send("A k 0 600 nonce-%d", i)
				c.CloseWrite()
				c.closed()
			case 3:
				c.send("GET / HTTP/1.1")
				c.want("E ? ? bad-request")
				c.closed()
			case 4:
				c.release(fmt.Sprint("own-", i), c.acquire(fmt.Sprint("own-", i), "600"))
				c.write([]byte("half a li"))
				c.Close()
			}
			c.Close()
		}
	}
	comeAndGo(10)
	start, fds := settle("the warm-up is over", state{Connections: 1, Held: 1}, -1)
	for range 4 {
		comeAndGo(250)
	}
	end, endFDs := settle("all is as before", state{Connections: 1, Held: 1, Goroutines: start.Goroutines + 2}, fds+2)
	t.Logf("goroutines %d, then %d; descriptors %d, then %d", start.Goroutines, end.Goroutines, fds, endFDs)
	if s, err := n.dialAgain(); err != nil {
		t.Errorf("%v, %v", s, err)
	}
}

// dialAgain makes sure that the node serves still.
func (n *node) dialAgain() (string, error) {
	nc, err := net.DialTimeout("tcp", n.addr, patience)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	io.WriteString(nc, "P again\n")
	line, err := bufio.NewReader(nc).ReadString('\n')
	if line != "P again\n" {
		return line, errors.Join(err, errors.New("no pong"))
	}
	return line, nil
}
