// Package history judges what clients saw of locks. It has a lock of its own,
// a few lines long, and asks whether there is an order of the calls, each
// within the time it took, in which that lock would have answered the same.
package history

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// Verdict is the result of Check.
type Verdict = porcupine.CheckResult

// A history is Good, Bad, or could not be judged in the time.
const (
	Good    = porcupine.Ok
	Bad     = porcupine.Illegal
	Unknown = porcupine.Unknown
)

// Check judges the calls on each key. The times of the calls are from one
// monotonic clock.
//
// The lock is the strict kind: held by one, and each grant with a greater
// token than all before. It fits where no grant can have been lost: without a
// failover, or with synchronous replication and one failure at a time. What it
// leaves open is when a lease ends: from its own time on a held lock may be
// given to somebody else, or may not.
//
// An acquire that returned no lock says nothing: the client does not hold the
// key, and had it been taken for a moment, then that was as if a stranger had
// taken it between two others. A release of unknown outcome may take effect at
// any later time, or never.
func Check(ops []rig.Op, limit time.Duration) (Verdict, string) {
	if len(ops) == 0 {
		return Good, ""
	}
	base := ops[0].Call
	for _, o := range ops {
		if o.Call.Before(base) {
			base = o.Call
		}
	}
	byKey := map[string][]porcupine.Operation{}
	for _, o := range ops {
		in := input{kind: o.Kind, token: o.Token, op: o}
		in.call, in.ret = o.Call.Sub(base), o.Return.Sub(base)
		if o.Kind == rig.Acquire && o.Err != nil {
			continue
		}
		if o.Kind == rig.Release && o.Outcome() == client.MayHaveHappened {
			in.ret = math.MaxInt64
		}
		byKey[o.Key] = append(byKey[o.Key], porcupine.Operation{
			ClientId: o.Worker, Input: in, Call: int64(in.call), Return: int64(in.ret),
		})
	}
	verdict, where := Good, ""
	deadline := time.Now().Add(limit)
	for key, ops := range byKey {
		switch porcupine.CheckOperationsTimeout(model, ops, max(time.Millisecond, time.Until(deadline))) {
		case Bad:
			return Bad, fmt.Sprintf("key %s: no order of its %d calls explains the answers; %s", key, len(ops), suspect(ops))
		case Unknown:
			verdict, where = Unknown, fmt.Sprintf("key %s: its %d calls took too long to judge", key, len(ops))
		}
	}
	return verdict, where
}

type input struct {
	kind      rig.OpKind
	token     uint64
	call, ret time.Duration
	op        rig.Op
}

// lock is one state that the key may be in.
type lock struct {
	last uint64        // token
	held bool          // under that token
	ends time.Duration // the lease, at the earliest
}

var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{lock{}} },
	Step: func(state, in, _ any) (next []any) {
		for _, l := range step(state.(lock), in.(input)) {
			next = append(next, l)
		}
		return next
	},
	DescribeOperation: func(in, _ any) string { return in.(input).op.String() },
	DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
}).ToModel()

// step returns the states that the call may leave; none if it can't have been
// answered as it was.
func step(l lock, in input) []lock {
	free := l
	free.held = false
	mayHaveEnded := !l.held || in.ret >= l.ends
	switch {
	case in.kind == rig.Acquire:
		if mayHaveEnded && in.token > l.last {
			// A lease runs from the grant, which was after the call.
			return []lock{{last: in.token, held: true, ends: in.call + in.op.Lease}}
		}
		return nil
	case in.op.Err == nil: // a release that happened
		if l.held && l.last == in.token {
			return []lock{free}
		}
		return nil
	case in.op.Outcome() == client.MayHaveHappened:
		if l.held && l.last == in.token {
			return []lock{l, free}
		}
		return []lock{l}
	}
	// not held: its lease had ended, whether or not somebody else has the key
	switch {
	case l.last != in.token:
		return []lock{l}
	case mayHaveEnded:
		return []lock{free}
	}
	return nil
}

// suspect looks for the plainest thing that is wrong.
func suspect(ops []porcupine.Operation) string {
	grants := map[uint64]input{}
	for _, o := range ops {
		if in := o.Input.(input); in.kind == rig.Acquire {
			grants[in.token] = in
		}
	}
	released := map[uint64]time.Duration{} // called
	for _, o := range ops {
		if in := o.Input.(input); in.kind == rig.Release {
			released[in.token] = in.call
			if in.op.Err != nil && in.op.Outcome() == client.DidNotHappen && in.ret < grants[in.token].call+in.op.Lease {
				return fmt.Sprintf("suspect: %v, %v before its lease ended", in.op, grants[in.token].call+in.op.Lease-in.ret)
			}
		}
	}
	for a, ga := range grants {
		for b, gb := range grants {
			if a < b && gb.ret < ga.call+ga.op.Lease && (released[a] == 0 || gb.ret < released[a]) {
				return fmt.Sprintf("suspect: token %d was answered %v before the release of %d was called", b, released[a]-gb.ret, a)
			}
			if a < b && gb.ret < ga.call {
				return fmt.Sprintf("suspect: token %d was asked for %v after %d was answered", a, ga.call-gb.ret, b)
			}
		}
	}
	return "no plain suspect"
}
