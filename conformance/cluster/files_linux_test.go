package cluster

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// rlimitNofile is RLIMIT_NOFILE.
const rlimitNofile = 7

// limitFiles sets how many files a process may have open, and returns how many
// it has.
func limitFiles(pid, more int) (open int, err error) {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0, err
	}
	prlimit := func(set, get *syscall.Rlimit) error {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), rlimitNofile, uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	}
	var limit syscall.Rlimit
	if err := prlimit(nil, &limit); err != nil {
		return 0, err
	}
	limit.Cur = uint64(len(fds) + more)
	return len(fds), prlimit(&limit, nil)
}

// An active that may open no more files is no active that has failed: it
// serves on, nobody takes over, and it accepts again when it may.
func TestOutOfFiles(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, false)
	inside := c.dial(1)
	ask(t, inside, "P inside")
	if _, err := limitFiles(c.Node(1).Pid(), 5); err != nil {
		t.Skipf("files of another process can't be limited here: %v", err)
	}
	var crowd []net.Conn
	for range 50 {
		conn, err := net.Dial("tcp", c.Node(1).Listen)
		ok(t, err)
		t.Cleanup(func() { conn.Close() })
		crowd = append(crowd, conn)
	}
	until(t, "node 1 is out of files", func() bool { return c.Node(1).Said("accepting fails") })
	for begin := time.Now(); time.Since(begin) < 5*failureTimeout; time.Sleep(20 * time.Millisecond) {
		if got := ask(t, inside, "A k -1 60"); len(got) < 4 || got[:4] != "A k " {
			t.Fatalf("node 1 answered %q", got)
		} else {
			var token uint64
			fmt.Sscanf(got, "A k %d", &token)
			ask(t, inside, "R k %d", token)
		}
	}
	// Relief comes by those who go.
	for _, conn := range crowd {
		conn.Close()
	}
	took, err := rig.Until(rig.Patience, "a new client is served", func() (bool, error) {
		conn, err := rig.Dial(c.Node(1).Listen)
		if err != nil {
			return false, nil
		}
		defer conn.Close()
		got, err := conn.Ask(time.Second, "P outside")
		return err == nil && got == "P outside", nil
	})
	ok(t, err)
	if took > 2*time.Second {
		t.Errorf("a new client was served after %v", took)
	}
	if n := c.BecameActive(); n != 1 {
		t.Errorf("nodes became active %d times", n)
	}
}
