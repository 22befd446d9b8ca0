package replica

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stile-lock/stile/server/lockspace"
)

// TestMain makes rapid's runs long enough, unless -rapid.steps is given.
func TestMain(m *testing.M) {
	flag.Parse()
	steps := true
	flag.Visit(func(f *flag.Flag) { steps = steps && f.Name != "rapid.steps" })
	if steps {
		if err := flag.Set("rapid.steps", "500"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// table is a lock table as simple as can be: what key has what token. It
// minds the order of the records of a key, and no record is without effect.
type table map[string]uint64

func (t table) apply(c *lockspace.Change) {
	switch c.Kind {
	case lockspace.GrantMade:
		t[string(c.Key)] = c.Token
	case lockspace.GrantEnded:
		delete(t, string(c.Key))
	default:
		panic(fmt.Sprintf("a change of kind %d", c.Kind))
	}
}

// active is a node that writes a log, and remembers the table at each
// position.
type active struct {
	log     *Log
	table   table
	history []table // by position - start
	start   uint64
	tokens  uint64
	keys    [][]string // of each shard
	epoch   Epoch
	members uint16
}

func newActive(log *Log, tbl table, keys [][]string) *active {
	return &active{log: log, table: tbl, history: []table{maps.Clone(tbl)}, start: log.Pos(), keys: keys, tokens: uint64(log.reign.N) << 32}
}

func (a *active) at(pos uint64) table { return a.history[pos-a.start] }

func (a *active) change(t *rapid.T) lockspace.Change {
	shard := rapid.SampledFrom(a.keys).Draw(t, "shard")
	key := rapid.SampledFrom(shard).Draw(t, "key")
	c := lockspace.Change{Kind: lockspace.GrantEnded, Key: []byte(key), Token: a.table[key]}
	if c.Token == 0 {
		a.tokens++
		c.Kind, c.Token = lockspace.GrantMade, a.tokens
	}
	a.table.apply(&c)
	a.history = append(a.history, maps.Clone(a.table))
	return c
}

// append appends some records, one by one or all at once.
func (a *active) append(t *rapid.T, most int) {
	n := rapid.IntRange(0, most).Draw(t, "records")
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0:
		a.epoch = Epoch{a.epoch.N + a.log.reign.N + 1, 3}
		a.stream(t, Record{Kind: EpochTaken, Epoch: a.epoch})
	case 1:
		a.members = rapid.Uint16().Draw(t, "members")
		a.stream(t, Record{Kind: InSync, Members: a.members})
	case 2, 3, 4:
		var changes []lockspace.Change
		for range n {
			changes = append(changes, a.change(t))
		}
		want := a.log.Pos() + uint64(n)
		if got := a.log.AppendChanges(changes); got != want || a.log.Pos() != want {
			t.Fatalf("AppendChanges returns %d, Pos %d, want %d", got, a.log.Pos(), want)
		}
	default:
		for range n {
			want := a.log.Pos() + 1
			rec := change(a.change(t))
			if got := a.log.Append(&rec); got != want || a.log.Pos() != want {
				t.Fatalf("Append returns %d, Pos %d, want %d", got, a.log.Pos(), want)
			}
		}
	}
}

func (a *active) stream(t *rapid.T, rec Record) {
	a.history = append(a.history, a.history[len(a.history)-1])
	a.log.Append(&rec)
}

// rows is a Source of the active's table. Others go on appending while it is
// read.
type rows struct {
	t     *rapid.T
	a     *active
	shard int
	last  string // the last key of the shard that was looked at
}

func (r *rows) Rows(most int, buf []byte) ([]byte, uint64, bool) {
	r.a.append(r.t, 1)
	at := r.a.log.Pos()
	keys := slices.Clone(r.a.keys[r.shard])
	slices.Sort(keys)
	n := rapid.IntRange(0, 3).Draw(r.t, "rows")
	for _, key := range keys {
		if key <= r.last {
			continue
		}
		if n--; n < 0 {
			break
		}
		if token := r.a.table[key]; token != 0 {
			rec := change(lockspace.Change{Kind: lockspace.GrantMade, Key: []byte(key), Token: token})
			if len(AppendRecord(buf, &rec)) > most {
				break
			}
			buf = AppendRecord(buf, &rec)
		}
		r.last = key
	}
	if r.last == keys[len(keys)-1] {
		r.shard, r.last = r.shard+1, ""
	}
	r.a.append(r.t, 1)
	return buf, at, r.shard < len(r.a.keys)
}

// standby is a node that follows, and the link to it.
type standby struct {
	recv    *Receiver
	live    table
	staging table // nil: none
	epoch   Epoch
	members uint16

	stagedEpoch   Epoch
	stagedMembers uint16

	sender *Sender
	link   [][]byte // frames on their way
	stale  [][]byte // frames of streams that are over
	broken bool     // the receiver gave up
}

func newStandby(place Place, live table) *standby {
	return &standby{recv: NewReceiver(place), live: live, broken: true}
}

func (s *standby) Apply(r *Record) {
	switch r.Kind {
	case TableChange:
		s.live.apply(&r.Change)
	case EpochTaken:
		s.epoch = r.Epoch
	case InSync:
		s.members = r.Members
	}
}

func (s *standby) Stage() { s.staging, s.stagedEpoch, s.stagedMembers = table{}, Epoch{}, 0 }

func (s *standby) StageApply(r *Record) {
	switch r.Kind {
	case TableChange:
		s.staging.apply(&r.Change)
	case EpochTaken:
		s.stagedEpoch = r.Epoch
	case InSync:
		s.stagedMembers = r.Members
	}
}

func (s *standby) Install() {
	s.live, s.epoch, s.members = s.staging, s.stagedEpoch, s.stagedMembers
	s.staging = nil
}

// TestStream: whatever happens to links, a copy always is what the table was
// at the place that the receiver names.
func TestStream(t *testing.T) {
	const standbys = 2
	var modes [Snapshot + 1]int
	overruns, mixed, records, stale, reigns, splits := 0, 0, 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		keys := make([][]string, rapid.IntRange(1, 3).Draw(t, "shards"))
		for i := range keys {
			for j := range rapid.IntRange(1, 6).Draw(t, "keys") {
				// Some as long as they get, so that frames are full.
				keys[i] = append(keys[i], fmt.Sprintf("%d-%d-%s", i, j, strings.Repeat("k", rapid.SampledFrom([]int{0, 0, 250}).Draw(t, "long"))))
			}
		}
		blocks := rapid.SampledFrom([]int{4, 8, 60, 200, 200}).Draw(t, "blocks")
		blockLen := rapid.SampledFrom([]int{MaxRecord, 2 * MaxRecord, 3 * MaxRecord}).Draw(t, "block")

		a := newActive(newLog(Place{Reign: Epoch{1, 1}}, Place{}, blocks, blockLen), table{}, keys)
		nodes := make([]*standby, standbys)
		for i := range nodes {
			nodes[i] = newStandby(Place{}, table{})
		}
		streams := uint64(0)
		old := map[Place]table{{}: {}} // what a table is at a place of an earlier reign

		check := func(s *standby) {
			t.Helper()
			place := s.recv.Place()
			want, ok := old[place]
			if place.Reign == a.log.Reign() {
				want, ok = a.at(place.Pos), true
			}
			if !ok {
				t.Fatalf("the copy is at %v, and nobody has ever been there", place)
			}
			if !maps.Equal(s.live, want) {
				t.Fatalf("the copy at %v is %v, want %v", place, s.live, want)
			}
		}
		connect := func(s *standby) {
			s.stale = append(s.stale, s.link...)
			s.link = nil
			streams++
			have := s.recv.Place()
			s.sender = NewSender(a.log, streams, have, &rows{t: t, a: a})
			s.recv.Expect(streams)
			s.broken = false
			mode := s.sender.Mode()
			modes[mode]++
			switch {
			case have == (Place{}):
				if mode != Snapshot {
					t.Fatalf("a standby that has nothing gets %v", mode)
				}
			case have == a.log.Base() && a.log.First() == a.start+1:
				if mode != FromBase {
					t.Fatalf("a standby at the base %v gets %v", have, mode)
				}
			case have.Reign == a.log.Reign() && have.Pos+1 >= a.log.First():
				if mode != Tail {
					t.Fatalf("a standby at %v gets %v, and %d is kept", have, mode, a.log.First())
				}
			default:
				if mode != Snapshot {
					t.Fatalf("a standby at %v gets %v of %v, base %v", have, mode, a.log.Reign(), a.log.Base())
				}
			}
		}
		// pull takes a frame from the sender and puts it on the link.
		pull := func(s *standby) bool {
			t.Helper()
			if s.broken {
				connect(s)
			}
			most := rapid.SampledFrom([]int{0, 400, 700, MaxFrame}).Draw(t, "most")
			syncing := s.sender.Syncing()
			frame, ok, err := s.sender.Next(most, []byte("before"))
			if err != nil {
				if !errors.Is(err, ErrOverrun) || s.sender.Pos()+1 >= a.log.First() {
					t.Fatalf("after %d, with %d on kept: %v", s.sender.Pos(), a.log.First(), err)
				}
				if ok || string(frame) != "before" {
					t.Fatalf("%v, and yet a frame %q", err, frame)
				}
				overruns++
				connect(s)
				return true
			}
			if !ok {
				if string(frame) != "before" || syncing || s.sender.Pos() != a.log.Pos() {
					t.Fatalf("there is nothing to send, %q, at %d of %d; syncing: %t", frame, s.sender.Pos(), a.log.Pos(), syncing)
				}
				return false
			}
			frame, found := bytes.CutPrefix(frame, []byte("before"))
			if !found || !IsFrame(frame) || len(frame) > max(most, minFrame) {
				t.Fatalf("a frame of %d bytes, at most %d: %q", len(frame), most, frame)
			}
			if kind := frame[0]; kind == frameRecords {
				records++
				if syncing {
					mixed++
				}
				if s.sender.Pos() < a.log.Pos() {
					splits++
				}
			}
			s.link = append(s.link, frame)
			return true
		}
		// deliver takes a frame from the link to the receiver.
		deliver := func(s *standby) {
			t.Helper()
			if len(s.link) == 0 {
				return
			}
			frame := s.link[0]
			s.link = s.link[1:]
			if err := s.recv.Frame(frame, s); err != nil {
				t.Fatalf("%x: %v", frame, err)
			}
			for i := range frame {
				frame[i] = 0xEE // nobody may hold on to it
			}
			if s.recv.Syncing() != (s.staging != nil) {
				t.Fatalf("Syncing is %t", s.recv.Syncing())
			}
			check(s)
		}
		drawNode := func() *standby { return nodes[rapid.IntRange(0, standbys-1).Draw(t, "node")] }
		// cut ends the stream; what is on its way may or may not arrive.
		cut := func(s *standby) {
			for range rapid.IntRange(0, len(s.link)).Draw(t, "arrive still") {
				deliver(s)
			}
			s.staging = nil
			s.recv.Expect(0)
			s.broken = true
		}

		t.Repeat(map[string]func(*rapid.T){
			"append":   func(*rapid.T) { a.append(t, 12) },
			"pull":     func(*rapid.T) { pull(drawNode()) },
			"pull2":    func(*rapid.T) { pull(drawNode()) },
			"deliver":  func(*rapid.T) { deliver(drawNode()) },
			"deliver2": func(*rapid.T) { deliver(drawNode()) },
			"catch up": func(*rapid.T) {
				for s := drawNode(); pull(s) || len(s.link) > 0; {
					deliver(s)
				}
			},
			"cut": func(*rapid.T) {
				cut(drawNode())
			},
			"late": func(*rapid.T) {
				// A frame of a stream that is over.
				if s := drawNode(); len(s.stale) > 0 {
					stale++
					place := s.recv.Place()
					if err := s.recv.Frame(s.stale[0], s); err != nil || s.recv.Place() != place {
						t.Fatalf("%x: %v", s.stale[0], err)
					}
					s.stale = s.stale[1:]
					check(s)
				}
			},
			"lose": func(*rapid.T) {
				// A frame is lost, doubled or changes places with another.
				s := drawNode()
				if s.broken || len(s.link) < 2 {
					return
				}
				switch rapid.IntRange(0, 2).Draw(t, "how") {
				case 0:
					s.link = s.link[1:]
				case 1:
					s.link = append([][]byte{bytes.Clone(s.link[0])}, s.link...)
				case 2:
					s.link[0], s.link[1] = s.link[1], s.link[0]
				}
				for _, frame := range s.link {
					if err := s.recv.Frame(frame, s); err != nil {
						if !errors.Is(err, ErrGap) || s.recv.Syncing() {
							t.Fatalf("%x: %v, syncing: %t", frame, err, s.recv.Syncing())
						}
						s.broken, s.staging, s.link = true, nil, nil
						break
					}
					check(s)
				}
				if !s.broken {
					t.Fatalf("a fault was not seen: at %d, sent %d", s.recv.pos, s.sender.Pos())
				}
				check(s)
			},
			"promote": func(*rapid.T) {
				if rapid.IntRange(0, 4).Draw(t, "really") > 0 {
					return
				}
				reigns++
				for _, s := range nodes {
					cut(s)
					old[s.recv.Place()] = maps.Clone(s.live)
				}
				s := drawNode()
				base := s.recv.Place()
				if base.Reign == a.log.Reign() && !maps.Equal(a.at(base.Pos), s.live) {
					t.Fatalf("not the table at %v", base)
				}
				begin := Place{Epoch{a.log.Reign().N + 1, 2}, rapid.SampledFrom([]uint64{0, 0, 1000}).Draw(t, "begin")}
				a = newActive(newLog(begin, base, blocks, blockLen), maps.Clone(s.live), keys)
			},
		})
		// In the end everybody has everything.
		for _, s := range nodes {
			for pull(s) || len(s.link) > 0 {
				deliver(s)
			}
			if want := a.log.Place(); s.recv.Place() != want || s.recv.Syncing() {
				t.Fatalf("the copy is at %v, want %v", s.recv.Place(), want)
			}
			if !maps.Equal(s.live, a.table) {
				t.Fatalf("the copy is %v, want %v", s.live, a.table)
			}
			if a.epoch != (Epoch{}) && s.epoch != a.epoch || a.members != 0 && s.members != a.members {
				t.Fatalf("the copy knows of epoch %v and in-sync set %b, want %v, %b", s.epoch, s.members, a.epoch, a.members)
			}
		}
	})
	t.Logf("streams: %d from the base, %d tails, %d snapshots; %d overruns, %d frames of records, %d in snapshots, %d with more behind, %d stale frames, %d reigns",
		modes[FromBase], modes[Tail], modes[Snapshot], overruns, records, mixed, splits, stale, reigns)
	if !t.Failed() && !testing.Short() {
		for what, n := range map[string]int{
			"streams from the base": modes[FromBase], "tails": modes[Tail], "snapshots": modes[Snapshot], "overruns": overruns,
			"records in snapshots": mixed, "frames with more behind": splits, "stale frames": stale, "reigns": reigns,
		} {
			if n == 0 {
				t.Errorf("no %s", what)
			}
		}
	}
}
