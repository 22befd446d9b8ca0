//go:build unix

package job

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Supported reports whether commands can be run on this system.
const Supported = true

// Run runs the command while the lease lasts, and returns when it has ended.
// The process must have no other children: Run waits for all there are.
func Run(c Command, lease Lease, o Options) (Outcome, error) {
	// The kernel's notice that Run has died is about the thread that has
	// started the command.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := &run{lease: lease, o: o, held: lease.Context(), tty: openTerminal(), child: -1, continued: make(chan os.Signal, 1)}
	defer r.tty.close()
	if !time.Now().Before(scheduleOf(lease.Expires(), o.Grace).term) || r.held.Err() != nil {
		return r.out, ErrTooLate
	}
	becomeSubreaper()
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	var err error
	if r.guard, err = startGuard(); err != nil {
		return r.out, &StartError{"the guard of the command", err}
	}
	defer r.guard.kill()

	foreground := r.tty.interactive()
	defer r.tty.take()
	attr := &syscall.ProcAttr{Env: c.Env, Files: []uintptr{0, 1, 2}, Sys: groupOfItsOwn()}
	if foreground {
		attr.Sys.Foreground, attr.Sys.Ctty = true, r.tty.fd
	}
	child, starter, err := startWaiting(c, attr)
	if err != nil {
		return r.out, &StartError{c.Path, err}
	}
	r.child = child
	s := scheduleOf(lease.Expires(), o.Grace)
	if !r.guard.leaseEnds(child, s, o.Grace) {
		starter.giveUp(child)
		return r.out, &StartError{"the guard of the command", errors.New("it has ended")}
	}
	if !time.Now().Before(s.term) || r.held.Err() != nil {
		starter.giveUp(child)
		return r.out, ErrTooLate
	}
	notify(o.Signals, syscall.SIGTSTP, syscall.SIGWINCH)
	signal.Notify(r.continued, syscall.SIGCONT)
	defer signal.Stop(r.continued)
	executed := starter.goOn()
	r.loop(children)
	if r.guard.finish() {
		r.out.Lost = true
	}
	if err := <-executed; err != nil {
		return r.out, &StartError{c.Path, err}
	}
	return r.out, nil
}

// notify is signal.Notify for the signals that were not ignored when the
// program started, as nohup does it: they stay ignored, for the command, too.
func notify(to chan os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(to, s)
		}
	}
}

// Catch has the signals that end a process delivered to the channel.
func Catch(to chan os.Signal) {
	notify(to, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
}

// Ends reports whether a signal ends a process that does nothing about it.
func Ends(s os.Signal) bool {
	switch s {
	case syscall.SIGTSTP, syscall.SIGWINCH:
		return false
	}
	return true
}

// Interrupt ends this process as Ctrl+C does, and with it the rest of its
// group if that has the terminal in common. A shell that runs a script then
// ends, too, and does not go on with the next line, as it would after an exit
// status. It returns where SIGINT is ignored.
func Interrupt(group bool) {
	signal.Reset(syscall.SIGINT)
	to := os.Getpid()
	if group {
		to = 0
	}
	if syscall.Kill(to, syscall.SIGINT) == nil && !signal.Ignored(syscall.SIGINT) {
		time.Sleep(time.Second) // it is on its way
	}
}

// Status is the exit status of a program that a signal ends.
func Status(s os.Signal) int { return 128 + int(s.(syscall.Signal)) }

type run struct {
	lease Lease
	held  context.Context
	o     Options
	tty   *terminal
	guard *guard
	child int // the process, and its group
	out   Outcome

	// continued gets SIGCONT. There is one channel for it: whoever takes it
	// from there has the command go on, and nobody does it again. A second time
	// could undo a stop that the user has asked for meanwhile.
	continued chan os.Signal

	exited   bool // the command itself
	ending   bool // SIGTERM was sent to the group
	killAt   time.Time
	killed   bool
	lookedAt time.Time
}

// pollEvery is how often Run looks for processes of the group that are left,
// when the command has ended: not all of them are children that it would hear
// of.
const pollEvery = 20 * time.Millisecond

// loop goes on until the command, and what it left behind, has ended.
func (r *run) loop(children <-chan os.Signal) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	held := r.held.Done()
	r.lookedAt = time.Now()
	for {
		r.reap()
		if r.exited {
			if r.over() {
				return
			}
			timer.Reset(pollEvery)
		}
		var got os.Signal
		lost, due, continued := false, false, false
		select {
		case <-children:
			continue
		case got = <-r.o.Signals:
		case <-r.continued:
			continued = true
		case <-held:
			held, lost = nil, true
		case <-timer.C:
			due = true
		}
		// This process may just go on after a stop. What has ended meanwhile
		// needs no end, and no word about one.
		r.reap()
		if r.exited && !r.groupLives() {
			return
		}
		switch {
		case got != nil:
			r.signal(got.(syscall.Signal)) // handed on
		case continued:
			r.resume()
		case lost && time.Now().Before(r.lease.Expires()):
			r.end("the servers do not know the lock any more: it was broken by hand, or lost in a failover")
		case lost:
			r.end("the lease has ended")
		case due:
			timer.Reset(r.look())
		}
	}
}

// look compares the lease with the clock, does what is due, and says when to
// look again.
func (r *run) look() time.Duration {
	now := time.Now()
	every := lookEvery(r.o.Lease)
	late := now.Sub(r.lookedAt) > 2*every+time.Second
	s := scheduleOf(r.lease.Expires(), r.o.Grace)
	if late && !r.ending && !now.Before(s.term) {
		// This process was stopped. What is left may do to renew the lease.
		r.renew()
		now = time.Now()
		s = scheduleOf(r.lease.Expires(), r.o.Grace)
	}
	r.lookedAt = now
	switch {
	case r.killed:
	case r.ending && !now.Before(r.killAt):
		r.signal(syscall.SIGKILL)
		r.killed = true
	case !r.ending && !now.Before(s.kill):
		r.out.Lost = true
		r.o.Warn("the lease has ended and could not be renewed: the command is killed")
		r.ending, r.killed, r.killAt = true, true, now
		r.signal(syscall.SIGKILL)
	case !r.ending && !now.Before(s.term):
		r.end("the lease could not be renewed")
	}
	if r.ending {
		r.guard.ending(r.killAt)
		return min(every, max(r.killAt.Sub(now), time.Millisecond))
	}
	r.guard.leaseEnds(r.child, s, r.o.Grace)
	return min(every, max(s.term.Sub(now), time.Millisecond))
}

// end makes the group end, because the lock is lost or about to be.
func (r *run) end(why string) {
	r.out.Lost = true
	if r.ending {
		return
	}
	now := time.Now()
	r.killAt = killAfter(now, r.lease.Expires(), r.o.Grace)
	if r.held.Err() != nil {
		r.killAt = now.Add(r.o.Grace) // its end by the clock counts no more
	}
	if !r.exited {
		r.o.Warn("%s: the command is told to end (SIGTERM), and is killed in %v", why, r.killAt.Sub(now).Round(time.Millisecond))
	}
	r.terminate()
}

// terminate sends SIGTERM, after which killAt counts.
func (r *run) terminate() {
	r.ending = true
	r.guard.ending(r.killAt)
	r.signal(syscall.SIGTERM)
	r.signal(syscall.SIGCONT) // what is stopped can't end
}

// over reports whether nothing is left to wait for once the command itself
// has ended.
func (r *run) over() bool {
	if !r.groupLives() {
		return true
	}
	switch {
	case r.ending && r.killed && time.Since(r.killAt) > time.Second:
		r.o.Warn("processes of the command can't be killed; the lock is given up all the same")
		return true
	case r.ending:
	case r.o.Leftover == LeaveThem:
		return true
	case r.o.Leftover == EndThem:
		r.o.Warn("the command has ended and left processes behind: they are told to end (SIGTERM), see --leftover")
		r.killAt = killAfter(time.Now(), r.lease.Expires(), r.o.Grace)
		r.terminate()
	}
	return false
}

// reap takes note of all children that have ended or stopped.
func (r *run) reap() {
	newGuard := false
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG|syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		switch {
		case err != nil || pid <= 0:
			if newGuard && !r.exited {
				r.look() // tells it what it has to know
			}
			return
		case pid == r.guard.pid && !ws.Stopped():
			r.guard.again(ws)
			newGuard = true
		case pid != r.child: // of the command, and left to this process
		case ws.Stopped():
			r.stopped(ws.StopSignal())
		case ws.Signaled():
			r.exited, r.out.Status = true, 128+int(ws.Signal())
			r.out.Interrupted = ws.Signal() == syscall.SIGINT && r.tty.has(r.child)
		default:
			r.exited, r.out.Status = true, ws.ExitStatus()
		}
	}
}

func (r *run) signal(s syscall.Signal) { syscall.Kill(-r.child, s) }

// groupLives reports whether anybody is left in the command's group.
func (r *run) groupLives() bool { return syscall.Kill(-r.child, 0) != syscall.ESRCH }

// stopped follows the command when job control has stopped it: the shell has
// to see this process stop.
func (r *run) stopped(s syscall.Signal) {
	if r.tty == nil || r.exited || r.ending {
		return
	}
	wants := s == syscall.SIGTTIN || s == syscall.SIGTTOU
	switch {
	case wants && r.tty.mine():
		r.tty.give(r.child)
		r.signal(syscall.SIGCONT)
		return
	case s == syscall.SIGSTOP && r.tty.group() != r.child:
		return // somebody has stopped it by hand: the lock stays
	}
	r.tty.take()
	stopSelf(s, r.continued)
	r.resume()
}

// resume goes on after a stop, if the lock is still held.
func (r *run) resume() {
	if r.exited || r.ending {
		return
	}
	r.renew()
	if !time.Now().Before(scheduleOf(r.lease.Expires(), r.o.Grace).term) || r.held.Err() != nil {
		r.look()
		return
	}
	if r.tty.interactive() {
		r.tty.give(r.child)
	}
	r.signal(syscall.SIGCONT)
}

// renew asks for the whole lease again, now, while there is time for it.
func (r *run) renew() {
	left := time.Until(scheduleOf(r.lease.Expires(), r.o.Grace).kill)
	if left <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(left, 5*time.Second))
	defer cancel()
	r.lease.Keep(ctx, r.o.Lease) // what came of it shows in the lease
}
