package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// Driver drives servers of one kind.
type Driver interface {
	// Name tells the results of drivers apart.
	Name() string

	// Run carries out the plan. A wrong answer of the server is an error that
	// wraps ErrWrong. With any other error, an end of ctx among them, there is a
	// result if something was measured until then.
	Run(ctx context.Context, p Plan) (*Result, error)
}

// ErrWrong is wrapped by the errors that say that a server answered wrongly, or
// not at all.
var ErrWrong = errors.New("wrong answer")

// ErrRefused is wrapped by the errors that say that a server did not serve a
// request and said so, as its protocol allows: too many wait, or another node
// is active. The run ends, but the server was not wrong.
var ErrRefused = errors.New("the server refuses")

// ErrUnserved is wrapped by the errors of a Locker's release that no server
// confirmed in time. The run goes on, and counts it.
var ErrUnserved = errors.New("no server was reached")

// Plan is the load of one run. Its zero fields get the defaults of Complete.
type Plan struct {
	Connections int           `json:"connections"`
	Depth       int           `json:"depth"` // requests under way on a connection
	Warmup      time.Duration `json:"warmup_ns"`
	Duration    time.Duration `json:"duration_ns"`

	// Rate is how many pairs are due in a second, over all connections. 0 is
	// the closed loop: the next pair begins when one has ended.
	Rate    float64 `json:"rate"`
	Poisson bool    `json:"poisson"` // due at random instants, not evenly

	Keys      int     `json:"keys"`
	KeyLength int     `json:"key_length"`
	Skew      float64 `json:"skew"`   // exponent of Zipf's law; 0: all keys alike
	Shared    bool    `json:"shared"` // any request may take any key; implied by Skew
	// Contended is the share of pairs that take one of HotKeys further keys,
	// which all connections share.
	Contended float64 `json:"contended"`
	HotKeys   int     `json:"hot_keys"`

	Lease time.Duration `json:"lease_ns"`
	Hold  time.Duration `json:"hold_ns"`

	// Cancel is the share of acquires that are given up if they still wait
	// after CancelAfter.
	Cancel      float64       `json:"cancel"`
	CancelAfter time.Duration `json:"cancel_after_ns"`

	// Retry is how long to pause before asking again, where the server has no
	// line to wait in.
	Retry time.Duration `json:"retry_ns"`

	Interval time.Duration `json:"interval_ns"` // of the series over time
	Drain    time.Duration `json:"drain_ns"`    // patience with what is under way at the end
	Seed     uint64        `json:"seed"`
}

// Complete returns the plan with its defaults filled in, or an error that says
// which field cannot be.
func (p Plan) Complete() (Plan, error) {
	setDefault(&p.Connections, 1)
	setDefault(&p.Depth, 1)
	setDefault(&p.Duration, 5*time.Second)
	setDefault(&p.Keys, max(100_000, p.Slots()))
	setDefault(&p.KeyLength, 24)
	setDefault(&p.HotKeys, 16)
	setDefault(&p.Lease, 30*time.Second)
	setDefault(&p.CancelAfter, time.Millisecond)
	setDefault(&p.Retry, time.Millisecond)
	setDefault(&p.Drain, 10*time.Second)
	if p.Interval == 0 {
		p.Interval = max(100*time.Millisecond, (p.Duration/60 + 99*time.Millisecond).Truncate(100*time.Millisecond))
	}
	p.Shared = p.Shared || p.Skew > 0
	if p.Contended == 0 {
		p.HotKeys = 0
	}
	for _, bad := range []struct {
		is   bool
		what string
	}{
		{p.Connections < 1 || p.Connections > 1<<16, fmt.Sprintf("%d connections: 1 to 65536 are possible", p.Connections)},
		{p.Depth < 1 || p.Depth > protocol.MaxUnanswered/2, fmt.Sprintf("a depth of %d: 1 to %d are possible", p.Depth, protocol.MaxUnanswered/2)},
		{p.Duration <= 0 || p.Warmup < 0 || p.Interval <= 0 || p.Drain < 0, "a duration is negative"},
		{p.Rate < 0, fmt.Sprintf("a rate of %g pairs a second: 0 is the closed loop, else it is above 0", p.Rate)},
		{p.Poisson && p.Rate == 0, "random arrivals need a rate"},
		{p.Skew < 0 || p.Skew > 10, fmt.Sprintf("a skew of %g: 0 to 10 are possible", p.Skew)},
		{p.Contended < 0 || p.Contended > 1, fmt.Sprintf("a contended share of %g: it is between 0 and 1", p.Contended)},
		{p.Cancel < 0 || p.Cancel > 1, fmt.Sprintf("a cancelled share of %g: it is between 0 and 1", p.Cancel)},
		{p.Keys < 1 || p.Keys > 1<<28, fmt.Sprintf("%d keys: 1 to %d are possible", p.Keys, 1<<28)},
		{!p.Shared && p.Keys < p.Slots(), fmt.Sprintf("%d keys are too few for %d requests under way that share none: "+
			"give more keys, or let them be shared", p.Keys, p.Slots())},
		{p.KeyLength < keyDigits(p.Keys+p.HotKeys) || p.KeyLength > protocol.MaxKey,
			fmt.Sprintf("a key length of %d: %d to %d are possible for %d keys", p.KeyLength, keyDigits(p.Keys+p.HotKeys), protocol.MaxKey, p.Keys+p.HotKeys)},
		{p.Lease < time.Millisecond || p.Lease%time.Millisecond != 0, fmt.Sprintf("a lease of %v: it is in whole milliseconds", p.Lease)},
		{p.Hold < 0 || p.Hold >= p.Lease, fmt.Sprintf("a hold time of %v does not fit into the lease of %v", p.Hold, p.Lease)},
	} {
		if bad.is {
			return p, fmt.Errorf("the load cannot be made: %s", bad.what)
		}
	}
	return p, nil
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Slots is how many requests can be under way.
func (p Plan) Slots() int { return p.Connections * p.Depth }
