package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// refusesToStart runs stiled and fails the test unless it ends with the
// status and says all the parts.
func refusesToStart(t *testing.T, bin, dir string, status int, flags []string, parts ...string) {
	t.Helper()
	p := launch(t, stiledCmd(bin, dir, flags...))
	if got := p.status(patience); got != status {
		t.Errorf("exit status %d, want %d", got, status)
	}
	for _, part := range parts {
		if !strings.Contains(p.stderr(), part) {
			t.Errorf("want %q in:\n%s", part, p.stderr())
		}
	}
	if strings.Contains(p.stderr(), "stiled serves") {
		t.Errorf("it served:\n%s", p.stderr())
	}
}

func mustStiled(t *testing.T) string {
	t.Helper()
	bin, err := stiled()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// After kill -9 and a restart all locks are free, and tokens go on above the
// old ones.
func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	last := uint64(0)
	for range 4 {
		n := startIn(t, dir)
		a, b := n.dial(), n.dial()
		for _, key := range []string{"one", "two", "three"} {
			token := a.acquire(key, "3600")
			if token <= last {
				t.Fatalf("token %d after %d", token, last)
			}
			last = token
			b.send("A %s 0 3600", key)
		}
		n.waiting(3)
		n.kill()
		b.SetReadDeadline(time.Now().Add(patience))
		if got, err := b.r.ReadString('\n'); err == nil {
			t.Errorf("a dead node said %q", got)
		}
	}
}

// A node whose state directory was lost is above its old tokens by its clock,
// within one second too.
func TestRestartWithoutItsState(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	last, epochs := uint64(0), map[uint64]int{}
	for range 8 {
		n := startIn(t, dir)
		epochs[n.epoch]++
		c := n.dial()
		for range 100 {
			token := c.acquire("k", "3600")
			if token <= last {
				t.Fatalf("token %d after %d", token, last)
			}
			last = token
			c.release("k", token)
		}
		n.kill()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("8 starts in %d seconds", len(epochs))
}

func TestStateDirThatCantBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "state"), "/dev/null/state"} {
		refusesToStart(t, mustStiled(t), dir, 1, nil, "state directory "+dir+" can't be", "--state-dir", "not a directory")
	}
	// The directory can be opened, but no epoch can be stored in it.
	dir := t.TempDir()
	n := startIn(t, dir)
	n.kill()
	epoch := filepath.Join(dir, "epoch")
	if err := os.Remove(epoch); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(epoch, 0o700); err != nil {
		t.Fatal(err)
	}
	refusesToStart(t, mustStiled(t), dir, 1, nil, epoch)
}

func TestDamagedEpochFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startIn(t, dir)
	first := n.dial().acquire("k", "30")
	n.kill()
	file := filepath.Join(dir, "epoch")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", string(good[:len(good)-2]), strings.Replace(string(good), " ", " 1", 1), "\x00\x00\x00\x00"} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		refusesToStart(t, mustStiled(t), dir, 1, nil, file, "damaged", "restore it")
		if now, _ := os.ReadFile(file); string(now) != bad {
			t.Errorf("the damaged file was changed to %q", now)
		}
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if token := startIn(t, dir).dial().acquire("k", "30"); token <= first {
		t.Errorf("token %d after %d", token, first)
	}
}

func TestTwoProcessesWithOneStateDir(t *testing.T) {
	t.Parallel()
	n := start(t)
	refusesToStart(t, mustStiled(t), n.dir, 1, nil, "state directory "+n.dir+" is in use by another process", "--state-dir")
	n.dial().acquire("k", "30")
	n.kill()
	startIn(t, n.dir)
}

// A clock that is plainly wrong for the build is refused: more than ten years
// after it, or before it where no epoch is known.
func TestClockAgainstTheBuild(t *testing.T) {
	t.Parallel()
	const built = "-X github.com/stile-lock/stile/server/buildinfo.built="
	old := mustBuild(t, "stiled-of-2010", built+"2010-01-01T00:00:00Z")
	dir := t.TempDir()
	refusesToStart(t, old, dir, 1, nil, "more than ten years after this program was built (2010-01-01)")
	if _, err := os.Stat(filepath.Join(dir, "epoch")); err == nil {
		t.Error("a start that was refused took an epoch")
	}

	future := mustBuild(t, "stiled-of-2200", built+"2200-01-01T00:00:00Z")
	refusesToStart(t, future, dir, 1, nil, "before this program was built (2200-01-01)", "no epoch")
	n := startIn(t, dir)
	first := n.dial().acquire("k", "30")
	n.kill()
	if token := startBin(t, future, dir).dial().acquire("k", "30"); token <= first {
		t.Errorf("token %d after %d", token, first)
	}
}
