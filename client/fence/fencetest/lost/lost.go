// Package lost shows what a lock alone does not prevent and a guard does:
// updates that are lost to a holder that was paused past its lease.
//
// There are two counters in PostgreSQL, each protected by a lock of a cluster
// of three nodes. Holders take the lock, read the counter, work for a moment,
// and write one more than they have read. To one counter they do so as it
// stands, to the other behind the guard of fencesql.
//
// In each round a holder of each counter, a process of its own, is stopped
// (SIGSTOP) after it has read; the active node is killed, paused or cut off;
// others go on once the lease is over; and then the holder wakes up and
// writes. An addition that the database has confirmed to its writer and that is
// not in the counter at the end is a lost update.
package lost

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// patience is how long anything may take that must happen.
const patience = rig.Patience

// Faults are what happens to the active node, in turn.
var Faults = []string{"kill -9", "pause", "partition"}

// Options say what to run.
type Options struct {
	Rounds  int
	Stiled  string              // the program
	Dir     string              // for the state of the nodes
	URL     string              // of an empty PostgreSQL database
	Sleeper []string            // the command that calls [Sleeper], but for the last three arguments
	Round   func(Round, Result) // called after each round with the result until then; may be nil
}

// Round is what happened in one.
type Round struct {
	Number         int
	Fault          string
	Plain, Guarded Figures
}

// Figures are what happened to a counter.
type Figures struct {
	Rounds    int
	Confirmed int64 // additions that the database has confirmed
	Lost      int64 // of these, those that are not in the counter
	Refused   int64 // additions that the guard refused
	Woken     int64 // additions of a holder that was paused past its lease which were accepted
}

func (f *Figures) add(o Figures) {
	f.Rounds += o.Rounds
	f.Confirmed += o.Confirmed
	f.Lost += o.Lost
	f.Refused += o.Refused
	f.Woken += o.Woken
}

// Result is what happened in all, by fault and counter.
type Result map[string]map[string]Figures

// Total sums up a counter's figures.
func (r Result) Total(counter string) (f Figures) {
	for _, of := range r {
		f.add(of[counter])
	}
	return f
}

// Run runs the rounds.
func Run(ctx context.Context, o Options) (Result, error) {
	db, err := sql.Open("pgx", o.URL)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if err := setUp(ctx, db); err != nil {
		return nil, err
	}
	cluster, err := rig.New(rig.Options{
		Binary: o.Stiled, Nodes: 3, Relays: true, Dir: o.Dir,
		Flags: []string{"--heartbeat=100ms", "--failure-timeout=500ms", "--boot-grace=500ms", "--takeback=manual"},
	})
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	if err := cluster.StartAll(); err != nil {
		return nil, err
	}
	var sides []*side
	for _, name := range []string{Plain, Guarded} {
		s, err := newSide(ctx, &counter{name: name, db: db}, cluster, o)
		if err != nil {
			return nil, err
		}
		defer s.close()
		sides = append(sides, s)
	}
	if _, err := settle(cluster); err != nil {
		return nil, err
	}
	result := Result{}
	for _, fault := range Faults {
		result[fault] = map[string]Figures{}
	}
	for number := range o.Rounds {
		fault := Faults[number%len(Faults)]
		if err := round(ctx, cluster, fault, sides); err != nil {
			return nil, fmt.Errorf("round %d, %s: %w", number+1, fault, err)
		}
		r := Round{Number: number + 1, Fault: fault, Plain: sides[0].now, Guarded: sides[1].now}
		for _, s := range sides {
			f := result[fault][s.count.name]
			f.add(s.now)
			result[fault][s.count.name] = f
		}
		if o.Round != nil {
			o.Round(r, result)
		}
	}
	return result, nil
}

// round has one fault, while holders of all sides sleep.
func round(ctx context.Context, cluster *rig.Cluster, fault string, sides []*side) error {
	active, err := settle(cluster)
	if err != nil {
		return err
	}
	for _, s := range sides {
		if err := s.begin(ctx); err != nil {
			return err
		}
	}
	defer func() {
		for _, s := range sides {
			s.quit()
		}
	}()
	for _, s := range sides {
		if err := s.sleep(ctx); err != nil {
			return err
		}
	}
	heal, err := strike(cluster, active, fault)
	if err != nil {
		return err
	}
	// The one that was cut off still serves; so does its successor by now.
	_, err = rig.Until(patience, "another node serves", func() (bool, error) {
		for _, n := range cluster.Nodes() {
			if n == active || !n.Running() {
				continue
			}
			if s, err := n.Status(); err == nil && s.Serves() {
				return true, nil
			}
		}
		return false, ctx.Err()
	})
	if err != nil {
		return withLogs(err, cluster)
	}
	for _, s := range sides {
		if err := s.others(ctx); err != nil {
			return withLogs(err, cluster)
		}
		if err := s.wake(ctx); err != nil {
			return err
		}
	}
	if err := heal(); err != nil {
		return err
	}
	if _, err := settle(cluster); err != nil {
		return err
	}
	for _, s := range sides {
		if err := s.end(ctx); err != nil {
			return err
		}
	}
	return nil
}

// strike does something to the active, and returns how it is undone.
func strike(cluster *rig.Cluster, active *rig.Node, fault string) (heal func() error, err error) {
	switch fault {
	case "kill -9":
		active.Kill()
		return func() error { return active.Start() }, nil
	case "pause":
		active.Pause()
		return func() error { active.Resume(); return nil }, nil
	case "partition":
		// Some holders are on each side: now two nodes grant. The nodes hear
		// nothing of each other; the clients are told.
		inside, outside := []int{active.ID}, []int(nil)
		for _, n := range cluster.Nodes() {
			if n != active {
				outside = append(outside, n.ID)
			}
		}
		cluster.Net.Partition(inside, outside)
		for _, n := range cluster.Nodes() {
			if n == active {
				for _, other := range outside {
					cluster.Net.Refuse(near(n), other)
				}
			} else {
				cluster.Net.Refuse(near(n), active.ID)
			}
		}
		return func() error { cluster.Net.Heal(); return nil }, nil
	}
	return nil, fmt.Errorf("no such fault: %q", fault)
}

// settle waits until one node serves and all follow it. Which one it is may
// change meanwhile: after a partition it takes a moment until they agree.
func settle(cluster *rig.Cluster) (active *rig.Node, err error) {
	var last error
	_, err = rig.Until(2*patience, "one node serves and the others follow it", func() (bool, error) {
		serving := 0
		for _, n := range cluster.Nodes() {
			if s, err := n.Status(); err == nil && s.Serves() {
				serving++
				active = n
			}
		}
		if serving != 1 {
			last = fmt.Errorf("%d nodes serve", serving)
			return false, nil
		}
		_, last = cluster.WaitSettled(active.ID, 0)
		return last == nil, nil
	})
	if err != nil {
		return nil, withLogs(fmt.Errorf("%w; last: %w", err, last), cluster)
	}
	return active, nil
}

// withLogs adds the end of what each node has written.
func withLogs(err error, cluster *rig.Cluster) error {
	for _, n := range cluster.Nodes() {
		if n.Running() {
			err = fmt.Errorf("%w\n== node %d\n%s", err, n.ID, n.Tail(20))
		}
	}
	return err
}

// near is the number by which the network knows the holders that stay with the
// node when it is cut off. Each counter has one, beside the one that sleeps.
func near(n *rig.Node) int { return 10 + n.ID }

// tries is how often each holder tries to add, at least, while one sleeps.
const tries = 10

// side is a counter with its holders.
type side struct {
	count   *counter
	clients []*client.Client // one near each node
	sleeper *sleeper

	now    Figures // of this round
	before int64   // the counter at its begin

	stop               atomic.Bool
	wg                 sync.WaitGroup
	confirmed, refused atomic.Int64
	tries              []atomic.Int64 // of each client; those of confirmed and refused
	failed             chan error
}

func newSide(ctx context.Context, count *counter, cluster *rig.Cluster, o Options) (*side, error) {
	nodes := cluster.Nodes()
	s := &side{count: count, failed: make(chan error, len(nodes))}
	s.tries = make([]atomic.Int64, len(nodes))
	for _, n := range nodes {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(near(n)))}}
		c, err := client.Dial(ctx, cluster.Addrs(), client.RetryFor(patience), client.Dialer(from.DialContext))
		if err != nil {
			s.close()
			return nil, err
		}
		s.clients = append(s.clients, c)
	}
	var err error
	if s.sleeper, err = startSleeper(o.Sleeper, count.name, cluster.Addrs(), o.URL); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *side) close() {
	s.quit()
	for _, c := range s.clients {
		c.Close()
	}
	if s.sleeper != nil {
		s.sleeper.close()
	}
}

// begin lets the others work.
func (s *side) begin(ctx context.Context) (err error) {
	s.now = Figures{Rounds: 1}
	s.confirmed.Store(0)
	s.refused.Store(0)
	if s.before, err = s.count.value(ctx); err != nil {
		return err
	}
	s.stop.Store(false)
	for i, c := range s.clients {
		s.wg.Go(func() {
			for !s.stop.Load() {
				if err := s.work(ctx, c, &s.tries[i]); err != nil {
					s.failed <- err
					return
				}
			}
		})
	}
	return nil
}

// work adds once. What the cluster cannot do at the moment is no error.
func (s *side) work(ctx context.Context, c *client.Client, tries *atomic.Int64) error {
	lock, err := c.Acquire(ctx, s.count.name, client.Wait(2*lease), client.Lease(lease))
	if err != nil {
		return ctx.Err()
	}
	err = s.count.add(ctx, lock, func() { time.Sleep(rand.N(4 * time.Millisecond)) })
	switch {
	case err == nil:
		s.confirmed.Add(1)
	case errors.Is(err, fence.ErrStale):
		s.refused.Add(1)
	default:
		return err
	}
	tries.Add(1)
	lock.Release(ctx) // it may be over
	return nil
}

// refusals is how often in a row the holder that is to sleep may be refused
// before it has read. More is no bad luck: the guard lets nobody through.
const refusals = 20

// sleep stops a holder that has read and not yet written. On a machine with
// much to do its lease may be over before it reads; then it tries again.
func (s *side) sleep(ctx context.Context) error {
	for range refusals {
		if err := s.sleeper.tell("add"); err != nil {
			return err
		}
		line, err := s.sleeper.says(ctx)
		switch {
		case err != nil:
			return err
		case line == sleeperRead:
			return s.sleeper.signal(syscall.SIGSTOP)
		case line == sleeperRefused:
			s.now.Refused++
		default:
			return fmt.Errorf("the holder that is to sleep said %q", line)
		}
	}
	return fmt.Errorf("the guard refused the holder of the counter %s %d times in a row, each time with a new grant", s.count.name, refusals)
}

// others waits until every other one has tried to add while the sleeper sleeps,
// and some have done so.
func (s *side) others(ctx context.Context) error {
	confirmed := s.confirmed.Load()
	from := make([]int64, len(s.tries))
	for i := range from {
		from[i] = s.tries[i].Load()
	}
	_, err := rig.Until(2*patience, "all others try to add to the counter "+s.count.name, func() (bool, error) {
		select {
		case err := <-s.failed:
			return false, err
		default:
		}
		for i := range from {
			if s.tries[i].Load() < from[i]+tries {
				return false, ctx.Err()
			}
		}
		return s.confirmed.Load() > confirmed, nil
	})
	return err
}

// wake lets the sleeper go on.
func (s *side) wake(ctx context.Context) error {
	if err := s.sleeper.signal(syscall.SIGCONT); err != nil {
		return err
	}
	if err := s.sleeper.tell("write"); err != nil {
		return err
	}
	line, err := s.sleeper.says(ctx)
	switch {
	case err != nil:
		return err
	case line == sleeperWrote:
		s.now.Woken++
		s.now.Confirmed++
	case line == sleeperRefused:
		s.now.Refused++
	default:
		return fmt.Errorf("the holder that woke up said %q", line)
	}
	return nil
}

// quit ends the work of the others.
func (s *side) quit() {
	s.stop.Store(true)
	s.wg.Wait()
}

// end compares the counter with what was confirmed.
func (s *side) end(ctx context.Context) error {
	s.quit()
	select {
	case err := <-s.failed:
		return err
	default:
	}
	after, err := s.count.value(ctx)
	if err != nil {
		return err
	}
	s.now.Confirmed += s.confirmed.Load()
	s.now.Refused += s.refused.Load()
	s.now.Lost = s.now.Confirmed - (after - s.before)
	return nil
}
