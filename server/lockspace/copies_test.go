package lockspace

import (
	"bytes"
	"slices"

	"github.com/google/go-cmp/cmp"
)

// copies are standbys of a Space that serves. One has followed from the
// start, but for the tables of snapshots that it takes over; the other is
// such a snapshot on its way.
type copies struct {
	t         tb
	active    *Space
	standby   *Space
	staged    *Space    // nil: no snapshot is on its way
	reading   *Snapshot // the rest of it
	rows      []Change
	snapshots int // that were completed
}

func newCopies(t tb, active *Space) copies {
	c := copies{t: t, active: active}
	c.standby = c.fresh()
	return c
}

// fresh makes an empty standby that files its keys in another way.
func (c *copies) fresh() *Space {
	cfg := c.active.cfg
	cfg.Seed++
	s := New(cfg)
	s.hashMask = c.active.hashMask
	s.Follow(c.active.now)
	return s
}

// follow makes the changes of the last call on the copies, and compares.
func (c *copies) follow() {
	c.t.Helper()
	changes := c.active.Changes()
	for i := range changes {
		// Some twice, since that must do no harm.
		for range 1 + i%2 {
			c.standby.Apply(c.active.now, &changes[i])
		}
		if c.staged != nil {
			c.staged.Apply(c.active.now, &changes[i])
		}
	}
	c.same(c.standby, "copy")
}

// snapshot goes on with the snapshot on its way, or begins one. A complete
// one is compared, and the standby goes on with its table.
func (c *copies) snapshot(most int) {
	c.t.Helper()
	if c.staged == nil {
		c.staged, c.reading = c.fresh(), c.active.Snapshot(false)
	}
	var more bool
	c.rows, more = c.reading.Next(c.active.now, most, c.rows)
	if len(c.rows) > most {
		c.t.Fatalf("%d rows, asked for %d", len(c.rows), most)
	}
	for i := range c.rows {
		c.staged.Apply(c.active.now, &c.rows[i])
	}
	if !more {
		c.same(c.staged, "snapshot")
		if c.staged.highest != c.active.highest {
			c.t.Fatalf("the highest token of a snapshot is %d, want %d", c.staged.highest, c.active.highest)
		}
		c.standby.Install(c.staged, c.active.now)
		c.same(c.standby, "copy after a snapshot")
		c.staged, c.reading = nil, nil
		c.snapshots++
	}
}

// same compares a copy with the table: the digests, and the times that are
// not in them.
func (c *copies) same(s *Space, what string) {
	c.t.Helper()
	want, got := c.active.Digest(nil), s.Digest(nil)
	if !bytes.Equal(want, got) {
		c.t.Fatalf("%s (-table +%s):\n%s", what, what, cmp.Diff(string(want), string(got)))
	}
	if len(s.effects) != 0 {
		c.t.Fatalf("a standby answers: %v", show(s.effects))
	}
	for _, it := range c.active.leases.items {
		e := it.v
		if of := s.find(e.key); of.deadline != e.deadline && e.deadline > c.active.now {
			c.t.Fatalf("%s: the lease of %q ends at %d, want %d", what, e.key, of.deadline, e.deadline)
		} else if of.since != e.since {
			c.t.Fatalf("%s: %q is held since %d, want %d", what, e.key, of.since, e.since)
		}
	}
	for _, it := range c.active.waits.items {
		r := it.v
		if r.name == nil {
			continue
		}
		if of := s.nameOf(r.name.fp).r; of.place != r.place && r.place.until > c.active.now {
			c.t.Fatalf("%s: the place of %s is %+v, want %+v", what, r.name.bytes(), of.place, r.place)
		}
	}
	// Where the memory for spent nonces is short, who has forgotten what
	// depends on when each of them looked.
	if c.active.cfg.MaxSpent < 1000 {
		return
	}
	spent := func(s *Space) (list []spentNonce) {
		for place := s.spent.first; place < s.spent.next; place++ {
			if sp := *s.spent.at(place); !sp.gone && sp.at+Time(s.cfg.SpentFor) > c.active.now {
				sp.link = 0 // a matter of the ring
				list = append(list, sp)
			}
		}
		slices.SortFunc(list, func(a, b spentNonce) int {
			x, y := pairOf(a.fp), pairOf(b.fp)
			return bytes.Compare(x[:], y[:])
		})
		return list
	}
	if diff := cmp.Diff(spent(c.active), spent(s), cmp.AllowUnexported(spentNonce{})); diff != "" {
		c.t.Fatalf("%s: spent nonces (-table +%s):\n%s", what, what, diff)
	}
}
