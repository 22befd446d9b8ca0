package lockspace

import (
	"testing"
	"time"
)

// TestSince: how long a key has been held is told of the grant, wherever it was
// made, and neither a keep nor a change of who serves begins it anew.
func TestSince(t *testing.T) {
	key := []byte("k")
	// The clocks of three nodes have nothing to do with each other.
	const hour = Time(time.Hour)
	clocks := []Time{3 * hour, -2 * hour, 1000 * hour}
	nodes := make([]*Space, 3)
	for i := range nodes {
		nodes[i] = New(sinceConfig())
	}
	pass := func(d time.Duration) {
		for i := range clocks {
			clocks[i] += Time(d)
		}
	}
	held := func(i int, want time.Duration, when string) {
		t.Helper()
		h, _, ok := nodes[i].Look(key, 0)
		if got := time.Duration(clocks[i] - h.Since); !ok || got != want {
			t.Errorf("%s: node %d says that it is held for %v, want %v", when, i, got, want)
		}
	}
	stream := func(from int, to ...int) {
		changes := nodes[from].Changes()
		for i := range changes {
			for _, n := range to {
				nodes[n].Apply(clocks[n], &changes[i])
			}
		}
	}
	copyTo := func(from, to int) {
		staged := New(sinceConfig())
		staged.Follow(clocks[to])
		rows, more := nodes[from].Snapshot(false).Next(clocks[from], 1000, nil)
		if more {
			t.Fatal("more than everything")
		}
		for i := range rows {
			staged.Apply(clocks[to], &rows[i])
			staged.Apply(clocks[to], &rows[i])
		}
		nodes[to].Install(staged, clocks[to])
	}

	nodes[1].Follow(clocks[1])
	nodes[2].Follow(clocks[2])
	nodes[0].Acquire(clocks[0], Acquire{Session: 1, Key: key})
	nodes[0].Effects()
	stream(0, 1)
	pass(30 * time.Minute)
	if _, ok := nodes[0].Keep(clocks[0], 1, key, 1, 50*time.Hour); !ok {
		t.Fatal("not kept")
	}
	stream(0, 1)
	held(0, 30*time.Minute, "kept")
	held(1, 30*time.Minute, "kept")

	pass(10 * time.Hour)
	copyTo(0, 2)
	held(2, 10*time.Hour+30*time.Minute, "by a snapshot")
	copyTo(0, 1) // as after a lost link
	held(1, 10*time.Hour+30*time.Minute, "by a snapshot again")

	nodes[0].Follow(clocks[0])
	nodes[1].Promote(clocks[1], time.Second)
	pass(time.Minute)
	nodes[1].Keep(clocks[1], 1, key, 1, 50*time.Hour)
	stream(1, 0, 2)
	for i := range nodes {
		held(i, 10*time.Hour+31*time.Minute, "after a handoff")
	}

	// Another active, of another time, takes it over, and its standbys hear of it.
	other, follows := New(sinceConfig()), New(sinceConfig())
	follows.Follow(0)
	rows, _ := nodes[1].Snapshot(true).Next(clocks[1], 1000, nil)
	for i := range rows {
		other.Adopt(0, &rows[i], false)
		changes := other.Changes()
		for i := range changes {
			follows.Apply(0, &changes[i])
		}
	}
	for name, s := range map[string]*Space{"who adopted it": other, "a standby of that": follows} {
		if h, _, ok := s.Look(key, 0); !ok || time.Duration(-h.Since) != 10*time.Hour+31*time.Minute {
			t.Errorf("%s says that it is held since %v", name, time.Duration(h.Since))
		}
	}
}

// TestSecond: seconds have whole numbers, before the origin as well.
func TestSecond(t *testing.T) {
	const s = Time(time.Second)
	for at, want := range map[Time]int32{0: 0, 1: 0, s - 1: 0, s: 1, -1: -1, -s: -1, -s - 1: -2} {
		if got := second(at); got != uint32(want) {
			t.Errorf("%d is in second %d, want %d", at, int32(got), want)
		}
	}
}
