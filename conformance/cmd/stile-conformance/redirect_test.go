package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// A standby can't be judged: the user is told where to go.
func TestStandby(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("open-sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{"open": nil, "secret": {"--secret-file=" + secret}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := rig.New(rig.Options{Binary: stiled, Nodes: 2, Dir: t.TempDir(), Flags: append(flags, "--boot-grace=500ms")})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.StartAll(); err != nil {
				t.Fatal(err)
			}
			if _, err := c.WaitSettled(1, rig.Patience); err != nil {
				t.Fatal(err)
			}
			out, code := program(t, append([]string{"server", "--addr", c.Node(2).Advertise}, flags...)...)
			if want := "this node is not active: it sends to " + c.Node(1).Advertise; code != 2 || !strings.Contains(out, want) {
				t.Errorf("exit %d, want 2 and %q:\n%s", code, want, out)
			}
			// The suite has held nothing at the active, nor left it.
			nothingLeft(t, c.Node(1).Admin)
		})
	}
}

// redirector answers hellos, and each further request by answer, which gets its
// op and key. It returns the address.
func redirector(t *testing.T, answer func(self string, n int, op, key string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	self := l.Addr().String()
	go func() {
		for n := 0; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				for in := bufio.NewScanner(nc); in.Scan(); {
					f := strings.Fields(in.Text())
					if len(f) < 2 {
						return
					}
					line := "H 1 " + self + " core,hello"
					if f[0] != "H" {
						line = answer(self, n, f[0], f[1])
					}
					if _, err := io.WriteString(nc, line+"\n"); err != nil {
						return
					}
				}
			}()
		}
	}()
	return self
}

// Nobody gets out of a verdict by redirecting.
func TestWrongRedirects(t *testing.T) {
	t.Parallel()
	moved := func(op, key, addr string) string { return fmt.Sprintf("M %s %s %s", op, key, addr) }
	serving, _ := startNode(t)
	_, port, _ := net.SplitHostPort(serving)
	other := redirector(t, func(_ string, _ int, op, key string) string { return moved(op, key, serving) })
	for name, c := range map[string]struct {
		answer func(self string, n int, op, key string) string
		says   string
	}{
		"to itself": {func(self string, _ int, op, key string) string { return moved(op, key, self) }, "which is itself"},
		"to itself by name": {func(self string, _ int, op, key string) string {
			return moved(op, key, strings.Replace(self, "127.0.0.1", "localhost", 1))
		}, "which is itself"},
		"to nobody":             {func(_ string, _ int, op, key string) string { return moved(op, key, "127.0.0.1:1") }, "does not answer"},
		"to no address":         {func(_ string, _ int, op, key string) string { return moved(op, key, "0.0.0.0:"+port) }, "no client follows"},
		"to one that redirects": {func(_ string, _ int, op, key string) string { return moved(op, key, other) }, "does not serve"},
		"on one connection alone": {func(_ string, n int, op, key string) string {
			if n == 0 {
				return moved(op, key, serving)
			}
			return "E " + op + " " + key + " no-active"
		}, "and not always"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code := program(t, "server", "--addr", redirector(t, c.answer), "--tags", "@S-4.1-free")
			if code != 1 || !strings.Contains(out, "note: the server redirects to ") || !strings.Contains(out, c.says) {
				t.Errorf("exit %d, want 1 and %q:\n%s", code, c.says, out)
			}
		})
	}
}
