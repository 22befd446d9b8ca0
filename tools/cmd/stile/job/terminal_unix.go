//go:build unix

package job

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the one that controls this process. All methods do nothing, or
// say no, where there is none (nil).
type terminal struct {
	fd    int
	given bool // to the command's group
}

func openTerminal() *terminal {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &terminal{fd: fd}
}

func (t *terminal) close() {
	if t != nil {
		syscall.Close(t.fd)
	}
}

// group is the process group in the foreground.
func (t *terminal) group() int {
	if t == nil {
		return -1
	}
	g, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return g
}

// mine reports whether this process is in the foreground.
func (t *terminal) mine() bool { return t != nil && t.group() == syscall.Getpgrp() }

// has reports whether the terminal was given to a group, and still is its own.
func (t *terminal) has(group int) bool { return t != nil && t.given && t.group() == group }

// interactive reports whether the command is to have the terminal from the
// start. In a pipeline others of the foreground may need it; there a command
// that asks for it gets it (stopped).
func (t *terminal) interactive() bool {
	yes := t.mine() && term.IsTerminal(0) && term.IsTerminal(1)
	if yes {
		t.given = true
	}
	return yes
}

// give puts a group into the foreground.
func (t *terminal) give(group int) {
	if t == nil {
		return
	}
	t.given = true
	t.set(group)
}

// take puts this process's group into the foreground again, if the command
// was there.
func (t *terminal) take() {
	if t == nil || !t.given {
		return
	}
	t.given = false
	t.set(syscall.Getpgrp())
}

func (t *terminal) set(group int) {
	// A background process that sets it would be stopped. It stays ignored:
	// Go has no way back to what was. Nothing is started later that would
	// mind.
	signal.Ignore(syscall.SIGTTOU)
	unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
}

// notStopped is how long stopSelf waits for an effect.
const notStopped = 200 * time.Millisecond

// stopSelf stops this process and the rest of its group by the signal that
// has stopped the command, and returns when it goes on, which takes the SIGCONT
// from the channel. It returns soon where no shell could continue it: the
// kernel stops no such group.
func stopSelf(by syscall.Signal, continued <-chan os.Signal) {
	select {
	case <-continued: // of before
	default:
	}
	// SIGTTIN was never caught. SIGTSTP, of Ctrl+Z, was, and Go has no way back.
	s := syscall.SIGTTIN
	if by != syscall.SIGTTIN && by != syscall.SIGTTOU {
		if restore := uncatch(syscall.SIGTSTP); restore != nil {
			defer restore() // not before it has had its effect, on whichever thread
			s = syscall.SIGTSTP
		}
	}
	syscall.Kill(0, s)
	for {
		began := time.Now()
		select {
		case <-continued:
			return
		case <-time.After(notStopped):
			if time.Since(began) < 2*notStopped {
				return
			}
			// It was stopped, and the signal is on its way.
		}
	}
}
