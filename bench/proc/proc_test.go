package proc

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestProcess(t *testing.T) {
	p, err := Start("sh", "-c", "echo started; exec sleep 60")
	if err != nil {
		t.Skip(err)
	}
	if err := p.Wait(t.Context(), "has said so", func() bool { return strings.Contains(p.Log(), "started") }); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" {
		if rss, err := p.RSS(); err != nil || rss < 1<<10 || rss > 1<<30 {
			t.Errorf("RSS %d, %v", rss, err)
		}
		if cpu, err := p.CPU(); err != nil || cpu < 0 || cpu > time.Minute {
			t.Errorf("CPU %v, %v", cpu, err)
		}
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestProcessThatEnds(t *testing.T) {
	p, err := Start("sh", "-c", "echo the disk is full; exit 3")
	if err != nil {
		t.Skip(err)
	}
	err = p.WaitListens(t.Context(), "127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "the disk is full") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("the error is %v", err)
	}
	p.Kill()
}

func TestWaitEndsWithContext(t *testing.T) {
	p, err := Start("sleep", "60")
	if err != nil {
		t.Skip(err)
	}
	defer p.Kill()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if err := p.Wait(ctx, "never", func() bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
}

func TestServerLeavesNothing(t *testing.T) {
	var dir string
	_, err := start(t.Context(), func(_, _, d string) []string {
		dir = d
		return []string{"sh", "-c", "exit 1"}
	})
	if err == nil {
		t.Fatal("a server that ended was started")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left, %v", dir, err)
	}
}

func TestVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho program 1.2.3\necho more\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("/bin/sh"); err != nil {
		t.Skip(err)
	}
	if v := Version(t.Context(), path); v != "program 1.2.3" {
		t.Errorf("%q", v)
	}
	if v := Version(t.Context(), "no-such-program-anywhere"); v != "" {
		t.Errorf("%q", v)
	}
}

func TestMaxFiles(t *testing.T) {
	if most, known := MaxFiles(); known != (runtime.GOOS == "linux" || runtime.GOOS == "darwin") || known && most < 16 {
		t.Errorf("%d, %v", most, known)
	}
}

func TestFind(t *testing.T) {
	if _, err := Find("no-such-program-anywhere"); !errors.Is(err, ErrAbsent) {
		t.Errorf("the error is %v", err)
	}
}

// A cluster whose nodes end is an error with what they wrote, and nothing is left.
func TestNodesThatEnd(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	program := filepath.Join(t.TempDir(), "stiled")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho the port is taken; exit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	nodes, err := StartNodes(t.Context(), program, 3)
	if err == nil || nodes != nil || !strings.Contains(err.Error(), "the port is taken") {
		t.Errorf("%v, the error is %v", nodes, err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestFreeAddrs(t *testing.T) {
	addrs, err := FreeAddrs(100)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(addrs)
	if n := len(slices.Compact(addrs)); n != 100 {
		t.Errorf("%d different ones", n)
	}
	if addrs, err := FreeAddrs(lastPort); err == nil {
		t.Errorf("%d addresses", len(addrs))
	}
}
