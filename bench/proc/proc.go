// Package proc starts the servers that are measured, on free ports of loopback,
// and looks at what they use.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long a server may take to listen, or to end.
const patience = 30 * time.Second

// Process is a running server. Whatever happens to us, it does not outlive us,
// where the system can see to that.
type Process struct {
	name string
	cmd  *exec.Cmd
	log  tail
	done chan struct{}
	quit chan struct{}
}

// Start starts a program. Its output is kept for errors.
func Start(name string, args ...string) (*Process, error) {
	p := &Process{name: name, cmd: exec.Command(name, args...), done: make(chan struct{}), quit: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "STILE_") || strings.HasPrefix(kv, "ETCD_")
	})
	p.cmd.SysProcAttr = withUs()
	started := make(chan error)
	go func() {
		// The system ends the child when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", name, err)
	}
	return p, nil
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is the end of what the process has written.
func (p *Process) Log() string { return p.log.String() }

// WaitListens waits until the process accepts connections.
func (p *Process) WaitListens(ctx context.Context, addr string) error {
	return p.Wait(ctx, "listens on "+addr, func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
}

// Wait waits until something of the process is so.
func (p *Process) Wait(ctx context.Context, what string, so func() bool) error {
	limit := time.Now().Add(patience)
	for pause := time.Millisecond; !so(); pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-p.done:
			return fmt.Errorf("%s has ended by itself (%v), waiting until it %s; it wrote:\n%s", p.name, p.cmd.ProcessState, what, p.Log())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%s: not within %v: %s; it wrote:\n%s", p.name, patience, what, p.Log())
		}
	}
	return nil
}

// Stop ends the process: politely, then not.
func (p *Process) Stop() error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
	}
	p.cmd.Process.Kill()
	<-p.done
	return fmt.Errorf("%s (process %d) did not end within %v of SIGTERM, and was killed", p.name, p.PID(), patience)
}

// Kill ends the process at once.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
}

func onLinuxOnly(err error) error {
	if runtime.GOOS == "linux" {
		return err
	}
	return fmt.Errorf("%w: it is read from /proc, as on Linux", errors.ErrUnsupported)
}

// RSS is the memory that the process has in use, in bytes.
func (p *Process) RSS() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, fmt.Errorf("the memory of %s cannot be read: %w", p.name, onLinuxOnly(err))
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no line VmRSS", p.PID())
}

// clockTick is the unit of the times in /proc: the same on every Linux that Go
// runs on.
const clockTick = 10 * time.Millisecond

// CPU is the time that the process has computed, in user and system.
func (p *Process) CPU() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0, fmt.Errorf("the processor time of %s cannot be read: %w", p.name, onLinuxOnly(err))
	}
	// The name, in brackets, may have spaces.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", p.PID(), len(fields))
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// The ports that FreeAddrs gives are below those that any system gives to
// connections by itself: one of these could take a port before the server does.
const firstPort, lastPort = 6000, 9999

// FreeAddrs returns different addresses of loopback that nobody listens on.
func FreeAddrs(n int) ([]string, error) {
	var addrs []string
	for _, i := range rand.Perm(lastPort - firstPort + 1) {
		if len(addrs) == n {
			return addrs, nil
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+i))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			addrs = append(addrs, addr)
		}
	}
	return nil, fmt.Errorf("of the ports from %d to %d of loopback fewer than %d can be listened on", firstPort, lastPort, n)
}

// ErrAbsent is wrapped by the error of Find.
var ErrAbsent = errors.New("not on this machine")

// Find returns the path of a program.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, ErrAbsent)
	}
	return path, nil
}

// Version is the first line that a program prints with --version, empty if there
// is none.
func Version(ctx context.Context, path string) string {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// tail keeps the last bytes written.
type tail struct {
	mu  sync.Mutex
	end []byte
}

const tailLength = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, b...)
	if over := len(t.end) - tailLength; over > 0 {
		t.end = t.end[:copy(t.end, t.end[over:])]
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.end)
}
