// Package cluster has nodes that break one rule of a cluster each. A mutant is
// a reference node with a front before it: the front passes on what nodes say
// to each other as it is, and distorts what clients ask and are told. So the
// cluster behind it is a right one, and only the one rule is broken.
//
// The package's test is also the program of such a node: Main.
package cluster

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// front is a node as the others and the clients see it.
type front struct {
	fault            string
	index            int // counted from 1
	listen, self, ip string
	peers            []string // advertised
	dir              string   // of this node; the others have theirs beside it
	real             string   // where the reference node listens

	began time.Time

	mu       sync.Mutex
	stopping bool
	granted  bool                         // anything, in this life
	moved    time.Time                    // since when the node has redirected
	last     uint64                       // the greatest token that was told
	tokens   map[string]map[uint64]uint64 // by key: what the node knows a token as that was told to a client
	own      map[string]uint64            // by key: the last token told here
	tick     time.Time                    // the clock of woken
	woke     time.Time
	watches  bool
	heard    time.Time // when the watched peer last answered
	gone     bool      // it refuses connections
	cut      bool      // it was silent once while this node served
}

// Main runs a node: NAME STILED LISTEN ADVERTISE PEERS INDEX STATE_DIR.
func Main(args []string) int {
	if len(args) != 7 {
		fmt.Fprintf(os.Stderr, "a mutant is started with 7 arguments, not %d: %q\n", len(args), args)
		return 2
	}
	index, err := strconv.Atoi(args[5])
	if err != nil {
		fmt.Fprintln(os.Stderr, "the index of a mutant:", err)
		return 2
	}
	f := &front{
		fault: args[0], listen: args[2], self: args[3], peers: strings.Split(args[4], ","), index: index, dir: args[6],
		began: time.Now(), tokens: map[string]map[uint64]uint64{}, own: map[string]uint64{}, tick: time.Now(), heard: time.Now(),
	}
	code, err := f.run(args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutant:", err)
		return 1
	}
	return code
}

func (f *front) run(stiled string) (int, error) {
	var err error
	if f.ip, _, err = net.SplitHostPort(f.listen); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return 0, err
	}
	if f.real, err = free(f.ip); err != nil {
		return 0, err
	}
	f.begin()
	node := exec.Command(stiled, append([]string{
		"--listen", f.real, "--advertise", f.self, "--peers", f.list(), "--state-dir", filepath.Join(f.dir, "node"), "--admin=",
	}, f.flags()...)...)
	node.Stderr, node.SysProcAttr = os.Stderr, withParent()
	if err := node.Start(); err != nil {
		return 0, err
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		c, err := net.Dial("tcp", f.real)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("the node behind the front does not listen: %w", err)
		}
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return 0, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-stop
		f.mu.Lock()
		f.stopping = true
		f.mu.Unlock()
		time.Sleep(f.stopLater())
		node.Process.Signal(syscall.SIGTERM)
	}()
	err = node.Wait()
	l.Close()
	time.Sleep(20 * time.Millisecond) // for the last lines
	if err != nil {
		return 1, nil
	}
	return 0, nil
}

// free finds an address for the reference node. Its port is below those that
// connections get.
func free(ip string) (string, error) {
	var last error
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", ip, 10000+rand.IntN(22000)))
		if err == nil {
			l.Close()
			return l.Addr().String(), nil
		}
		last = err
	}
	return "", last
}

// client is one client's connection.
type client struct {
	f      *front
	out    sync.Mutex
	nc, up net.Conn

	mu    sync.Mutex
	asked map[string][]request // unanswered, by op and key
}

// request is what the client sent.
type request struct {
	fields []string
	at     time.Time
}

// serve carries one connection.
func (f *front) serve(nc net.Conn) {
	defer nc.Close()
	up, err := net.Dial("tcp", f.real)
	if err != nil {
		return
	}
	defer up.Close()
	in := bufio.NewReader(nc)
	if begin, _ := in.Peek(2); bytes.Equal(begin, []byte("N ")) {
		go func() {
			io.Copy(nc, up)
			nc.Close()
		}()
		io.Copy(up, in)
		return
	}
	c := &client{f: f, nc: nc, up: up, asked: map[string][]request{}}
	var done sync.WaitGroup
	done.Go(c.answers)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		c.request(strings.TrimSuffix(line, "\n"))
	}
	up.(*net.TCPConn).CloseWrite()
	done.Wait()
}

func (c *client) say(format string, args ...any) {
	c.out.Lock()
	defer c.out.Unlock()
	fmt.Fprintf(c.nc, format+"\n", args...)
}

func (c *client) request(line string) {
	fields := strings.Split(line, " ")
	if reply := c.f.instead(fields); reply != "" {
		c.say("%s", reply)
		return
	}
	if len(fields) > 1 {
		c.mu.Lock()
		place := fields[0] + " " + fields[1]
		c.asked[place] = append(c.asked[place], request{slices.Clone(fields), time.Now()})
		c.mu.Unlock()
	}
	fmt.Fprintf(c.up, "%s\n", strings.Join(c.f.toNode(fields), " "))
}

func (c *client) answers() {
	defer c.nc.Close()
	in := bufio.NewReader(c.up)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if fields = c.f.toClient(c, fields); fields != nil {
			c.say("%s", strings.Join(fields, " "))
		}
	}
}

// asker finds the request that an answer answers.
func (c *client) asker(fields []string) (r request) {
	if len(fields) < 2 {
		return r
	}
	place := fields[0] + " " + fields[1]
	switch {
	case fields[0] == "T":
		place = "A " + fields[1]
	case (fields[0] == "M" || fields[0] == "E") && len(fields) > 2:
		place = fields[1] + " " + fields[2]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if list := c.asked[place]; len(list) > 0 {
		r, c.asked[place] = list[0], list[1:]
	}
	return r
}
