package cluster

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A stranger who speaks as a node would learns the version and a random
// number, and no more.
func TestStranger(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	ok(t, os.WriteFile(file, []byte("the-secret-of-this-cluster"), 0o600))
	c := startCluster(t, 3, false, "--cluster-secret-file", file)
	const nonce = "000102030405060708090a0b0c0d0e0f"
	hello := append(binary.LittleEndian.AppendUint16(nil, 40), make([]byte, 40+32)...)
	for name, said := range map[string]string{
		"says nothing more":         "N 1 1 0 abc 1 " + nonce + "\n",
		"has no proof":              "N 1 1 0 abc 1 " + nonce + "\n" + string(hello),
		"claims to be node 0":       "N 1 0 0 abc 1 " + nonce + "\n" + string(hello),
		"asks for somebody else":    "N 1 1 2 abc 1 " + nonce + "\n" + string(hello),
		"claims to be nobody known": "N 1 9 0 abc 1 " + nonce + "\n" + string(hello),
		"has another version":       "N 77 1 0 abc 1 " + nonce + "\n" + string(hello),
		"says a lot":                "N 1 1 0 abc 1 " + nonce + "\n" + "\xff\xff" + string(bytes.Repeat([]byte("x"), 70000)),
		"speaks badly":              "N what ever\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", c.Node(1).Listen)
			ok(t, err)
			defer conn.Close()
			go fmt.Fprint(conn, said)
			conn.SetReadDeadline(time.Now().Add(6 * failureTimeout))
			got, err := io.ReadAll(conn)
			if len(got) > 17 || len(got) > 0 && got[0] != 1 {
				t.Errorf("it was told %q", got)
			}
			if name == "has no proof" && len(got) != 17 {
				t.Errorf("it was told %q, and this should get as far as the version and the number", got)
			}
			if ne, timeout := err.(net.Error); timeout && ne.Timeout() {
				t.Errorf("the connection is still there after %v", 6*failureTimeout)
			}
		})
	}
	c.settled(1)
	if n := c.BecameActive(); n != 1 {
		t.Errorf("nodes became active %d times", n)
	}
}

// Connections that never come to the point hold nobody up: no client, and no
// node that wants to join.
func TestUnfinishedHandshakes(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, false)
	before := c.status(1).Connections
	const line = "N 1 1 0 abc 1 000102030405060708090a0b0c0d0e0f\n"
	begins := []string{"", "N", "N 1 1 0", line, line + "\x28\x00half a hello", "A half-a-request", "A k -1 5\nA k"}
	for i := range 100 {
		conn, err := net.Dial("tcp", c.Node(1).Listen)
		ok(t, err)
		t.Cleanup(func() { conn.Close() })
		_, err = fmt.Fprint(conn, begins[i%len(begins)])
		ok(t, err)
	}
	if p99 := c.latency(1, time.Second); p99 > 250*time.Millisecond {
		t.Errorf("the p99 of an acquire is %v", p99)
	}
	c.Node(3).Kill()
	c.start(3)
	c.settled(1)
	if n := c.BecameActive(); n != 1 {
		t.Errorf("nodes became active %d times", n)
	}
	// The handshakes, begun or half done, end by themselves.
	until(t, "the node closed the handshakes", func() bool {
		return c.status(1).Connections <= before+100-2*100/len(begins)
	})
}
