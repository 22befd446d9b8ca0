//go:build unix

package job

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The guard is told by lines over its standard input, with times of a clock
// that all processes of the machine share:
//
//	lease GROUP TERM KILL GRACE   what is due unless another line comes
//	ending KILL                   SIGTERM was sent
//	done                          nothing is left to guard
//
// The end of the input without done means that Run has died.

// guardActed is the exit status of a guard that has sent a signal.
const guardActed = 3

// guard is Run's side of it.
type guard struct {
	pid  int // -1 when it has ended
	in   *os.File
	last string // line
	ws   syscall.WaitStatus
	// acted: one before this one has sent a signal.
	acted bool
}

func startGuard() (*guard, error) {
	g := new(guard)
	return g, g.start()
}

func (g *guard) start() error {
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	program, err := ownProgram()
	if err != nil {
		in.Close()
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		in.Close()
		return err
	}
	defer null.Close()
	pid, err := syscall.ForkExec(program, []string{os.Args[0], GuardArg}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   append(os.Environ(), "GOMAXPROCS=1"),
		Files: []uintptr{out.Fd(), null.Fd(), 2},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		in.Close()
		return err
	}
	// One that is stopped must not hold up Run.
	syscall.SetNonblock(int(in.Fd()), true)
	g.pid, g.in = pid, in
	return nil
}

// leaseEnds tells it when the lease ends, and reports whether it was told.
func (g *guard) leaseEnds(group int, s schedule, grace time.Duration) bool {
	now, clock := time.Now(), machineClock()
	at := func(t time.Time) int64 { return int64((clock + t.Sub(now)).Round(time.Millisecond)) }
	return g.tell(fmt.Sprintf("lease %d %d %d %d\n", group, at(s.guard), at(s.kill), int64(grace)))
}

func (g *guard) ending(killAt time.Time) {
	g.tell(fmt.Sprintf("ending %d\n", int64((machineClock() + time.Until(killAt)).Round(time.Millisecond))))
}

func (g *guard) tell(line string) bool {
	if g.pid < 0 {
		return false
	}
	if line == g.last {
		return true
	}
	// Lines are far shorter than what a pipe takes as a whole. One that is lost
	// because the guard does not read is followed by others.
	_, err := syscall.Write(int(g.in.Fd()), []byte(line))
	if err == nil {
		g.last = line
	}
	return err == nil
}

// again replaces a guard that has ended.
func (g *guard) again(ws syscall.WaitStatus) {
	g.in.Close()
	if ws.Exited() && ws.ExitStatus() == guardActed {
		g.acted, g.pid = true, -1 // the group is gone
		return
	}
	if g.start() != nil {
		g.pid = -1
	}
	g.last = ""
}

// finish ends the guard and reports whether it has sent a signal.
func (g *guard) finish() bool {
	if g.pid < 0 {
		return g.acted
	}
	g.tell("done\n")
	g.in.Close()
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		pid, err := syscall.Wait4(g.pid, &g.ws, syscall.WNOHANG, nil)
		if pid == g.pid || err != nil && err != syscall.EINTR {
			g.pid = -1
			return g.acted || g.ws.Exited() && g.ws.ExitStatus() == guardActed
		}
	}
	g.kill()
	return g.acted
}

func (g *guard) kill() {
	if g.pid < 0 {
		return
	}
	syscall.Kill(g.pid, syscall.SIGKILL)
	syscall.Wait4(g.pid, nil, 0, nil)
	g.pid = -1
	g.in.Close()
}

// Guard is the main function of the guard, see GuardArg.
func Guard() {
	// It ends with what it guards, not with whoever signals the whole job.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2)
	os.Exit(guardGroup(os.Stdin, os.Stderr))
}

func guardGroup(in io.Reader, stderr io.Writer) int {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			lines <- s.Text()
		}
	}()
	var (
		group               int
		termAt, killAt, gce int64
		ending, dead, acted bool
	)
	status := func() int {
		if acted {
			return guardActed
		}
		return 0
	}
	timer := time.NewTimer(time.Hour)
	for {
		// A second at most: timers stand still while the machine sleeps.
		timer.Reset(time.Second)
		if group > 0 {
			now := int64(machineClock())
			due := termAt
			if ending {
				due = killAt
			}
			wait := min(time.Duration(due-now), time.Second)
			if dead || acted {
				if syscall.Kill(-group, 0) == syscall.ESRCH {
					if dead {
						return status()
					}
				} else {
					wait = min(wait, 50*time.Millisecond)
				}
			}
			timer.Reset(max(wait, time.Millisecond))
		}
		select {
		case line, more := <-lines:
			var kind string
			switch fmt.Sscan(line, &kind); {
			case kind == "done" && !dead:
				return status()
			case kind == "lease" && !ending:
				fmt.Sscan(line, &kind, &group, &termAt, &killAt, &gce)
			case kind == "ending" && !acted:
				fmt.Sscan(line, &kind, &killAt)
				ending = true
			case !more && group == 0:
				return status() // nothing was started
			case !more:
				lines, dead = nil, true
				if !ending {
					fmt.Fprintln(stderr, "stile: the stile process was killed while its command runs: the command is told to end (SIGTERM)")
					termAt = 0
					killAt = min(killAt, int64(machineClock())+gce)
				}
			}
		case <-timer.C:
		}
		if group == 0 {
			continue
		}
		now := int64(machineClock())
		if !ending && now >= termAt {
			if !dead {
				fmt.Fprintln(stderr, "stile: the stile process stands still (was it stopped?) and its lease is about to end: the command is told to end (SIGTERM)")
			}
			ending, acted = true, true
			syscall.Kill(-group, syscall.SIGTERM)
			syscall.Kill(-group, syscall.SIGCONT)
		}
		if ending && now >= killAt {
			if syscall.Kill(-group, syscall.SIGKILL) == nil {
				acted = acted || dead
			}
			if dead {
				return status()
			}
			killAt = now + int64(time.Second) // once more, for whoever was born meanwhile
		}
	}
}

func clock(which int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(which, &ts); err != nil {
		panic(err) // every system has it
	}
	return time.Duration(ts.Nano())
}
