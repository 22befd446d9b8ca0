package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Lease is the part of a lock that Run needs; *client.Lock is one. Somebody
// else renews it in the background.
type Lease interface {
	Expires() time.Time
	Context() context.Context // ends when the lock is lost
	Keep(ctx context.Context, lease time.Duration) error
}

// Command is what to run: the path of a program, with the arguments, its name
// first, and the environment.
type Command struct {
	Path string
	Args []string
	Env  []string
}

// Leftover says what becomes of processes that the command leaves behind in
// its group when it ends.
type Leftover string

// The choices. Whatever was chosen, a lost lease ends them all.
const (
	EndThem   Leftover = "end"   // SIGTERM, and SIGKILL after the grace
	AwaitThem Leftover = "wait"  // the lock is held until they have ended, too
	LeaveThem Leftover = "leave" // they go on, unguarded
)

// Options says how to run it.
type Options struct {
	Lease    time.Duration // that is asked for at each renewal
	Grace    time.Duration // from SIGTERM to SIGKILL
	Leftover Leftover
	// Signals are passed on to the command's group. Run adds those of job
	// control to the channel, which must have some room.
	Signals chan os.Signal
	// Warn tells the user what happens to the command.
	Warn func(format string, args ...any)
}

// Outcome is what became of the command.
type Outcome struct {
	Status int  // of the command; 128+n if signal n ended it
	Lost   bool // the lease was lost, or about to be; the command was ended for it

	// Interrupted: SIGINT ended the command while it had the terminal, as of
	// Ctrl+C there.
	Interrupted bool
}

// ErrTooLate is the error of Run when so little is left of the lease that the
// command was not started.
var ErrTooLate = errors.New("so little of the lease was left that the command was not started: ask for a longer one")

// StartError is the error of Run when the command can't be started.
type StartError struct {
	Path string
	Err  error
}

func (e *StartError) Error() string { return fmt.Sprintf("can't start %s: %v", e.Path, e.Err) }

// Unwrap returns the reason.
func (e *StartError) Unwrap() error { return e.Err }

// GuardArg is the one argument by which the program runs itself as the guard:
// its main must call Guard then. StartArg is the first by which it runs itself
// as what becomes the command: its main must call Start with the others.
const (
	GuardArg = "__guard"
	StartArg = "__start"
)
