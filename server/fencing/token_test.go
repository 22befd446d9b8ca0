package fencing

import (
	"math"
	"slices"
	"sync"
	"testing"
)

func TestTokenLayout(t *testing.T) {
	for _, tt := range []struct {
		epoch uint32
		node  uint8
		seq   uint32
		want  uint64
	}{
		{1, 0, 1, 1<<32 + 1},
		{60_000_000, 0, 1, 257_698_037_760_000_001}, // the first one in the transcripts of SPEC.md
		{1, 1, 0, 1<<32 + 1<<28},
		{1, 15, maxSeq, 2<<32 - 1},
		{maxEpoch, 15, maxSeq, math.MaxInt64},
	} {
		got := Token(tt.epoch, tt.node, tt.seq)
		if got != tt.want {
			t.Errorf("Token(%d, %d, %d) = %d, want %d", tt.epoch, tt.node, tt.seq, got, tt.want)
		}
		if got > math.MaxInt64 {
			t.Errorf("%d does not fit a signed 64-bit column", got)
		}
		if e := Epoch(got); e != tt.epoch {
			t.Errorf("Epoch(%d) = %d, want %d", got, e, tt.epoch)
		}
	}
	if MaxNodes != 16 {
		t.Errorf("MaxNodes is %d", MaxNodes)
	}
	// Every token of an epoch is above every one of the epoch before,
	// whichever nodes gave them.
	if last, next := Token(7, MaxNodes-1, maxSeq), Token(8, 0, 0); next != last+1 {
		t.Errorf("epoch 7 ends at %d, epoch 8 begins at %d", last, next)
	}
}

// wanted reports whether a further epoch is wanted, and takes the wish.
func wanted(a *Allocator) bool {
	select {
	case <-a.Want():
		return true
	default:
		return false
	}
}

func mustNext(t *testing.T, a *Allocator) uint64 {
	t.Helper()
	token, ok := a.Next()
	if !ok {
		t.Fatalf("no token, %d left in epoch %d", a.Left(), a.Epoch())
	}
	return token
}

func TestNextCountsUp(t *testing.T) {
	a := NewAllocator(9, 3, 100)
	for seq := uint32(101); seq < 200; seq++ {
		if got, want := mustNext(t, a), Token(9, 3, seq); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	}
	if a.Epoch() != 9 || a.Left() != maxSeq-199 {
		t.Errorf("epoch %d, %d left", a.Epoch(), a.Left())
	}
	if wanted(a) {
		t.Error("an epoch is wanted at the very start of one")
	}
}

func TestUsedUp(t *testing.T) {
	a := NewAllocator(9, 15, maxSeq-3)
	if !wanted(a) {
		t.Error("nothing wanted by an allocator that starts near its end")
	}
	for seq := uint32(maxSeq - 2); seq <= maxSeq; seq++ {
		if got, want := mustNext(t, a), Token(9, 15, seq); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	}
	wanted(a)
	for range 3 {
		// The sequence must not run into the node bits, nor into the epoch.
		if token, ok := a.Next(); ok {
			t.Fatalf("a token after the last: %d", token)
		}
		if !wanted(a) {
			t.Error("used up, and no epoch is wanted")
		}
	}
	a.Reserve(12, 15, 1000)
	for seq := uint32(1001); seq < 1010; seq++ {
		if got, want := mustNext(t, a), Token(12, 15, seq); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	}
	if a.Epoch() != 12 {
		t.Errorf("epoch %d", a.Epoch())
	}
}

func TestReservedEpochIsUsedAtTheEnd(t *testing.T) {
	a := NewAllocator(9, 0, maxSeq-3)
	a.Reserve(10, 0, 0)
	wanted(a)
	want := []uint64{Token(9, 0, maxSeq-2), Token(9, 0, maxSeq-1), Token(9, 0, maxSeq), Token(10, 0, 1), Token(10, 0, 2)}
	for _, w := range want {
		if got := mustNext(t, a); got != w {
			t.Fatalf("got %d, want %d", got, w)
		}
	}
	if wanted(a) {
		t.Error("an epoch is wanted though one was reserved, and used just now")
	}
	// What was reserved once is not used twice.
	a.last.Store(Token(10, 0, maxSeq))
	if token, ok := a.Next(); ok {
		t.Errorf("token %d of an epoch that was used up", token)
	}
	if !wanted(a) {
		t.Error("used up, and no epoch is wanted")
	}
}

func TestWantedAtSevenEighths(t *testing.T) {
	if aheadAt < 1<<seqBits/8*7-8 || aheadAt > 1<<seqBits/8*7 {
		t.Errorf("wanted at %d of %d", aheadAt, 1<<seqBits)
	}
	a := NewAllocator(9, 0, aheadAt-10)
	for range 10 {
		mustNext(t, a)
		if wanted(a) {
			t.Fatalf("wanted %d tokens too early", a.Left()-(maxSeq-aheadAt))
		}
	}
	mustNext(t, a)
	if !wanted(a) {
		t.Fatal("not wanted at 7/8")
	}
	mustNext(t, a)
	if wanted(a) {
		t.Fatal("wanted with each token")
	}
	// Whoever was to take an epoch may have died over it: it is asked again.
	for range 1 << 16 {
		mustNext(t, a)
	}
	if !wanted(a) {
		t.Fatal("wanted only once, though nobody reserved")
	}
	a.Reserve(10, 0, 0)
	for range 3 << 16 {
		mustNext(t, a)
	}
	if wanted(a) {
		t.Error("wanted though an epoch is reserved")
	}
}

func TestReserveMustBeAbove(t *testing.T) {
	for _, epoch := range []uint32{8, 9} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Reserve(%d) during epoch 9 does not panic", epoch)
				}
			}()
			a := NewAllocator(9, 0, 5)
			a.Reserve(epoch, 0, 5)
		}()
	}
}

// Tokens given to many at once are all different and rise for each of them,
// also over the end of an epoch, with the next one reserved while they are
// taken.
func TestNextConcurrently(t *testing.T) {
	const (
		takers = 8
		each   = 30_000
	)
	a := NewAllocator(9, 2, maxSeq-takers*each/2)
	stop := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() {
		for epoch := uint32(10); ; epoch++ {
			select {
			case <-stop:
				return
			case <-a.Want():
				a.Reserve(epoch, 2, maxSeq-takers*each/8)
			}
		}
	})
	var got [takers][]uint64
	var wg sync.WaitGroup
	for i := range takers {
		wg.Go(func() {
			got[i] = make([]uint64, 0, each)
			for len(got[i]) < each {
				if token, ok := a.Next(); ok {
					got[i] = append(got[i], token)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	keeper.Wait()
	var all []uint64
	for i := range got {
		if !slices.IsSorted(got[i]) {
			t.Errorf("the tokens of taker %d do not rise", i)
		}
		all = append(all, got[i]...)
	}
	slices.Sort(all)
	for i, token := range all {
		if i > 0 && token == all[i-1] {
			t.Fatalf("token %d was given twice", token)
		}
		if node := token >> seqBits & (MaxNodes - 1); node != 2 {
			t.Fatalf("token %d is of node %d", token, node)
		}
	}
	if first, last := Epoch(all[0]), Epoch(all[len(all)-1]); first != 9 || last < 11 {
		t.Errorf("epochs %d to %d: the test never saw the end of one", first, last)
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	a := NewAllocator(9, 0, 0)
	if n := testing.AllocsPerRun(1000, func() { a.Next() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkNext(b *testing.B) {
	a := NewAllocator(9, 0, 0)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a.Next()
		}
	})
}
