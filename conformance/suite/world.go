package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stile-lock/stile/conformance/report"
)

// World is what the steps of one running scenario share with the suite. Its
// methods may be called from any goroutine.
type World struct {
	// Scenario is the one that runs.
	Scenario *Scenario
	// Target is what Prepare found.
	Target Target
	// Prefix begins each key of this scenario, so that scenarios that run at
	// the same time, and others who use the target, never meet. See Key.
	Prefix string
	// Rand is this scenario's own, from the seed of the run.
	Rand *rand.Rand

	ctx   context.Context
	start time.Time
	late  func(time.Duration) // for tests of the suite: as if a sleep had been late

	mu       sync.Mutex
	events   []report.Event
	cleanups []func(context.Context)
	fault    error // from a goroutine; fails the scenario at its next step
}

// Context ends when the run is interrupted or the scenario's time is over.
// Whatever waits must end with it.
func (w *World) Context() context.Context { return w.ctx }

// Now is the time since the scenario began, on the monotonic clock.
func (w *World) Now() time.Duration { return time.Since(w.start) }

// Sleep sleeps, or returns an error when the scenario has to stop.
func (w *World) Sleep(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-w.ctx.Done():
		return w.Stopped()
	}
}

// SleepUntil sleeps until Now is at.
func (w *World) SleepUntil(at time.Duration) error { return w.Sleep(at - w.Now()) }

// Stopped is the error of a step whose Context ended.
func (w *World) Stopped() error {
	if errors.Is(context.Cause(w.ctx), errTimeLimit) {
		return w.Fail("the scenario to end", "it was stopped when "+errTimeLimit.Error())
	}
	return w.NotJudged("the run was interrupted")
}

var errTimeLimit = errors.New("its time was over")

// Key makes the real key of a name that a feature file uses.
func (w *World) Key(name string) string { return w.Prefix + name }

// Sent records a line that the suite sent, without its LF.
func (w *World) Sent(conn, line string) { w.record(report.Sent, conn, line) }

// Received records a line that the suite received, without its LF.
func (w *World) Received(conn, line string) { w.record(report.Received, conn, line) }

// Note records what happened besides lines: a connection opened, a node
// killed. conn may be "".
func (w *World) Note(conn, format string, args ...any) {
	w.record(report.Note, conn, fmt.Sprintf(format, args...))
}

func (w *World) record(kind report.Kind, conn, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, report.Event{At: w.Now(), Conn: conn, Kind: kind, Text: text})
}

// Transcript returns what was recorded until now.
func (w *World) Transcript() []report.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// Cleanup adds a function to be called when the scenario ends, however it
// ends, also by an interrupt; the last one added is called first. The context
// it gets is good for a few seconds. What it does is still recorded.
func (w *World) Cleanup(f func(context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cleanups = append(w.cleanups, f)
}

func (w *World) cleanup() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), 5*time.Second)
	defer cancel()
	for {
		w.mu.Lock()
		if len(w.cleanups) == 0 {
			w.mu.Unlock()
			return
		}
		f := w.cleanups[len(w.cleanups)-1]
		w.cleanups = w.cleanups[:len(w.cleanups)-1]
		w.mu.Unlock()
		f(ctx)
	}
}

// Fail makes the error of a step that saw something else than it had to. Both
// texts are in the words of the specification: "2 to be granted door next",
// "T door after 0.31 s".
func (w *World) Fail(expected, seen string) error {
	return &report.Failure{Expected: w.shorten(expected), Seen: w.shorten(seen)}
}

// Expect is Fail unless ok.
func (w *World) Expect(ok bool, expected, seen string) error {
	if ok {
		return nil
	}
	return w.Fail(expected, seen)
}

// NotJudged makes the error of a step that can't say anything about the
// target. The scenario's outcome is then "not judged".
func (w *World) NotJudged(format string, args ...any) error {
	return &notJudged{fmt.Sprintf(format, args...)}
}

type notJudged struct{ reason string }

func (n *notJudged) Error() string { return "not judged: " + n.reason }

// Fault fails the scenario from a goroutine that judges beside the steps: a
// scripted server, a poller. The first one counts, before any error that a
// step returns afterwards.
func (w *World) Fault(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == nil {
		w.fault = err
	}
}

func (w *World) faulted() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault
}

// shorten leaves the scenario's prefix out of a text for people.
func (w *World) shorten(text string) string {
	if w.Prefix == "" {
		return text
	}
	return strings.ReplaceAll(text, w.Prefix, "")
}
