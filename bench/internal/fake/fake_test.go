package fake

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// TestServer goes through what the tests of others rely on: first come, first
// served; releases by token; cancels by nonce.
func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		defer s.Wait()
		var conns [3]struct {
			in  *bufio.Reader
			say func(string)
		}
		for i := range conns {
			c := s.Dial()
			defer c.Close()
			conns[i].in = bufio.NewReader(c)
			conns[i].say = func(line string) {
				if _, err := fmt.Fprintln(c, line); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
		}
		hears := func(i int, want string) {
			t.Helper()
			line, err := conns[i].in.ReadString('\n')
			if err != nil || strings.TrimSuffix(line, "\n") != want {
				t.Fatalf("connection %d hears %q, %v, want %q", i, line, err, want)
			}
		}
		conns[0].say("H 1 test")
		hears(0, "H 1 fake:1 core,ping,hello,resume")
		conns[0].say("A door 0 30 n1")
		hears(0, "A door 1001 30")
		conns[1].say("A door 0 30 n2")
		conns[2].say("A door 0 30 n3")
		conns[0].say("R door 7")
		hears(0, "E R door not-held")
		conns[1].say("C door n2")
		hears(1, "T door")
		hears(1, "C door n2")
		conns[0].say("R door 1001")
		hears(0, "R door 1001")
		hears(2, "A door 1002 30")
		conns[0].say("A door 0 30")
		conns[2].say("C door n3")
		hears(2, "C door n3")
		hears(0, "A door 1003 30")
	})
}

func TestWrongs(t *testing.T) {
	names := map[string]bool{}
	for _, w := range Wrongs {
		if names[w.Name] || w.Says == "" || w.steal == (w.spoil != nil) {
			t.Errorf("%+v", w)
		}
		names[w.Name] = true
		s := w.Server()
		if s.Steal != w.steal || (s.Spoil == nil) != (w.spoil == nil) {
			t.Errorf("%s: the server is %+v", w.Name, s)
		}
		if s.Spoil == nil {
			continue
		}
		var right, said string
		for n := range 60 {
			right = fmt.Sprintf("%s keya %d 30", w.op, 1001+n)
			said = s.Spoil(n, "", right)
		}
		if said == right {
			t.Errorf("%s: nothing is wrong with %q", w.Name, said)
		}
	}
}
