package ports

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// No port is anybody else's until it is given back: not in this process, and
// not in another one.
func TestOnesOwn(t *testing.T) {
	if os.Getenv("PORTS_CHILD") != "" {
		for range 3 * size {
			addr, err := Addr("127.0.0.1")
			fmt.Println(addr, err)
		}
		os.Stdin.Read(make([]byte, 1))
		return
	}
	seen := map[string]bool{}
	take := func(addr string) {
		if seen[addr] {
			t.Errorf("%s is given twice", addr)
		}
		seen[addr] = true
	}
	for range 3 * size {
		addr, err := Addr("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		take(addr)
	}
	other := exec.Command(os.Args[0], "-test.run=^TestOnesOwn$")
	other.Env = append(os.Environ(), "PORTS_CHILD=1")
	stdin, _ := other.StdinPipe()
	stdout, _ := other.StdoutPipe()
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for range 3 * size {
		if !lines.Scan() {
			t.Fatal("the other process has ended")
		}
		var addr, err string
		if fmt.Sscan(lines.Text(), &addr, &err); err != "<nil>" {
			t.Fatal(lines.Text())
		}
		take(addr)
	}
	stdin.Close()
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
}

// A port that was given back comes again, and one that somebody listens on
// does not.
func TestFree(t *testing.T) {
	l, err := Listen("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	Free(l.Addr().String())
	again := func() bool {
		for range 2 * size {
			addr, err := Addr("127.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			defer Free(addr)
			if addr == l.Addr().String() {
				return true
			}
		}
		return false
	}
	if again() {
		t.Errorf("%s is given while somebody listens on it", l.Addr())
	}
	l.Close()
	for range 10 {
		if again() {
			return
		}
	}
	t.Errorf("%s never comes again", l.Addr())
}
