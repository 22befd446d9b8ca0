package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/tools/cmd/stile/job"
)

type lockCommand struct {
	Key     string   `arg:"" help:"The key: 1 to 255 bytes without spaces."`
	Command []string `arg:"" optional:"" passthrough:"partial" help:"The command and its arguments, after --."`
	waiting
	leasing
	Grace    time.Duration `short:"k" placeholder:"DURATION" help:"When the lock is about to be lost: from SIGTERM to SIGKILL (a third of the lease, 10s at most)."`
	Shell    string        `short:"c" placeholder:"COMMAND" help:"Have this line run by $$SHELL, or /bin/sh, instead of a command."`
	Leftover string        `enum:"end,wait,leave" default:"end" help:"What becomes of processes that the command leaves in its group: end, wait (for them, holding KEY) or leave (unguarded) (${default})."`

	ConflictExitCode int `short:"E" default:"121" placeholder:"N" help:"Exit status if KEY was not obtained in time (${default})."`
	NoServerExitCode int `default:"122" placeholder:"N" help:"Exit status if no server was there to ask (${default})."`
	LostExitCode     int `default:"123" placeholder:"N" help:"Exit status if the lock was lost while the command ran (${default})."`
}

// Help is shown by --help, and in the man page.
func (*lockCommand) Help() string {
	return `The command starts when KEY is obtained, never without it, and has STILE_KEY and STILE_TOKEN in its environment. The lease is renewed while it runs, and KEY is given back when it has ended.

    stile lock backup -- tar cf /backup/new.tar /data
    stile lock backup --no-wait -c 'tar cf - /data | ssh other dd of=new.tar'

The command has a process group of its own. Signals that stile gets go to all of it, and it has the terminal, so that Ctrl+C and Ctrl+Z work. While Ctrl+Z has stopped both, the lease is not renewed; fg goes on only if the lock is still held. A command that alone is stopped (kill -STOP) keeps the lock.

If the lease can't be renewed, the group gets SIGTERM before it ends, and SIGKILL after the grace, still before its end. A second process sees to that should stile be stopped or killed. Processes that leave the group (daemons) are out of reach, and so is a machine that stands still as a whole: what KEY protects should refuse a lower STILE_TOKEN than the highest it has seen.

Exit status: that of the command, 128+N if signal N has ended it (Ctrl+C ends stile as well, and a script that it is part of); 121 not obtained in time, 122 no server, 123 the lock was lost, 125 stile failed otherwise, 126 the command can't be started, 127 it was not found.`
}

func (k *lockCommand) check(line []string) (command job.Command, err error) {
	if k.keyIsMissing(line) {
		return command, failed(ExitFailure, "no KEY before --: stile lock KEY -- COMMAND…; one that begins with a dash stands between two: stile lock -- -KEY -- COMMAND…")
	}
	if err := k.waiting.check(); err != nil {
		return command, err
	}
	if err := checkLease(k.Lease); err != nil {
		return command, err
	}
	if k.Grace == 0 {
		k.Grace = job.DefaultGrace(k.Lease)
	}
	if k.Grace < 0 || k.Grace > job.MaxGrace(k.Lease) {
		return command, failed(ExitFailure, "--grace %v does not go with --lease %v: it can be half of that at most, for the rest is for renewing", k.Grace, k.Lease)
	}
	for _, code := range []struct {
		flag string
		is   int
	}{{"--conflict-exit-code", k.ConflictExitCode}, {"--no-server-exit-code", k.NoServerExitCode}, {"--lost-exit-code", k.LostExitCode}} {
		if code.is < 0 || code.is > 255 {
			return command, failed(ExitFailure, "%s %d is no exit status: want 0 to 255", code.flag, code.is)
		}
	}
	args := k.Command
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if k.Shell != "" {
		if len(args) > 0 {
			return command, failed(ExitFailure, "--shell and a command exclude each other: give one of them")
		}
		shell := os.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		args = []string{shell, "-c", k.Shell}
	}
	if len(args) == 0 {
		return command, failed(ExitFailure, "no command: stile lock %s -- COMMAND…; `stile acquire` takes a lock without one", k.Key)
	}
	command.Args = args
	// Before the wait: nobody should stand in line for a mistyped command.
	command.Path, err = exec.LookPath(args[0])
	if err != nil {
		return command, cannotRun(err)
	}
	return command, nil
}

// keyIsMissing reports whether the command line has its only -- before the
// KEY: what was meant as the command would be taken for the key.
func (k *lockCommand) keyIsMissing(line []string) bool {
	before := line[:len(line)-len(k.Command)] // up to the KEY, or flags behind it
	if k.Shell != "" && len(k.Command) == 0 || len(k.Command) > 0 && k.Command[0] == "--" {
		return false
	}
	at := slices.Index(before, "--")
	return at >= 0 && at < len(before)-1
}

func cannotRun(err error) error {
	status := ExitCannotRun
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		status = ExitNotFound
	}
	return failed(status, "%w", err)
}

func (k *lockCommand) Run(a *app) error {
	if !job.Supported {
		return failed(ExitFailure, "lock needs a Unix system: use acquire, keep and release here")
	}
	command, err := k.check(a.line)
	if err != nil {
		return err
	}
	// From here on a signal ends the wait, or goes to the command. To the very
	// end: one that comes when the command has ended must not take the place of
	// its status.
	signals := make(chan os.Signal, 32)
	job.Catch(signals)
	// Whoever reads our messages may be gone; the command must not be left
	// alone for that.
	closedPipe := make(chan os.Signal, 1)
	signal.Notify(closedPipe, syscall.SIGPIPE)
	defer signal.Stop(closedPipe)

	c, err := a.connect(a.ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	lock, err := a.acquire(c, k.Key, k.waiting, k.Lease, signals)
	if err != nil {
		return k.withStatus(err)
	}
	renewing, stopRenewing := context.WithCancel(a.ctx)
	defer stopRenewing()
	go lock.Renew(renewing)
	// Of another lock around this one.
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "STILE_KEY=") || strings.HasPrefix(kv, "STILE_TOKEN=")
	})
	command.Env = append(env, "STILE_KEY="+k.Key, "STILE_TOKEN="+strconv.FormatUint(lock.Token(), 10))
	out, err := job.Run(command, lock, job.Options{
		Lease: k.Lease, Grace: k.Grace, Leftover: job.Leftover(k.Leftover), Signals: signals, Warn: a.warn,
	})
	stopRenewing()

	ended := !time.Now().Before(lock.Expires())
	releaseErr := a.releaseUnlessHurried(lock, signals)

	var start *job.StartError
	switch {
	case errors.As(err, &start):
		return cannotRun(err)
	case errors.Is(err, job.ErrTooLate):
		return failed(k.LostExitCode, "%w", err)
	case err != nil:
		return err
	case out.Lost:
		return failed(k.LostExitCode, "the lock of %q was lost while the command ran: what it did last was possibly not protected", k.Key)
	case errors.Is(releaseErr, client.ErrNotHeld), ended && releaseErr != nil:
		text := fmt.Sprintf("the lock of %q was lost before the command ended: what it did last was possibly not protected", k.Key)
		if out.Status == 0 {
			return failed(k.LostExitCode, "%s", text)
		}
		a.warn("%s", text)
	case errors.Is(releaseErr, context.DeadlineExceeded):
		a.warn("no server could be told that the lock is given back: it was free at the end of its lease, just now")
	case releaseErr != nil:
		a.warn("the lock could not be given back: it is free at the end of its lease, in %v at most: %v", time.Until(lock.Expires()).Round(time.Second/10), releaseErr)
	}
	if out.Status != 0 {
		return &exitError{status: out.Status, interrupted: out.Interrupted, ofTerminal: true}
	}
	return nil
}

const (
	// hurriedRelease is how long a release is tried after a signal.
	hurriedRelease = time.Second
	// sameSignal is how far apart copies of one signal may come, as of timeout(1)
	// and service managers, which send it to the process and to its group.
	sameSignal = 100 * time.Millisecond
)

// releaseUnlessHurried gives the lock back when the command has ended. Signals
// from before that were the command's. One that comes now leaves a second for
// it, and a further one ends the process.
func (a *app) releaseUnlessHurried(lock *client.Lock, signals <-chan os.Signal) error {
	for len(signals) > 0 {
		<-signals
	}
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	go func() {
		var first time.Time
		for {
			select {
			case s := <-signals:
				switch now := time.Now(); {
				case !job.Ends(s):
				case first.IsZero():
					first = now
					hurry := time.AfterFunc(hurriedRelease, cancel)
					defer hurry.Stop()
				case now.Sub(first) > sameSignal:
					a.exit(job.Status(s))
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return giveBack(ctx, lock)
}

// withStatus puts in the statuses that the user chose.
func (k *lockCommand) withStatus(err error) error {
	status, text := explain(err)
	switch status {
	case ExitNotObtained:
		status = k.ConflictExitCode
	case ExitNoServer:
		status = k.NoServerExitCode
	}
	if text == "" {
		var e *exitError
		errors.As(err, &e)
		return e // a signal
	}
	return failed(status, "%s", text)
}
