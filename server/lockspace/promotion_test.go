package lockspace

import (
	"testing"
	"time"
)

// A promotion moves deadlines, and the copies do not know. What a client is
// told of one afterwards, they must: else a second failover could end a lease
// sooner than its holder was told.
func TestRepeatAfterAPromotionIsRecorded(t *testing.T) {
	s := New(Config{
		DefaultLease: time.Minute, MaxLease: time.Hour, ReattachGrace: time.Second,
		SpentFor: 10 * time.Second, MaxSpent: 100, MaxWaitersPerKey: 100, Record: true,
		NextToken: func() (uint64, bool) { return 100, true },
	})
	nonce := MakeNonce([]byte("n"))
	s.Follow(0)
	s.Apply(0, &Change{Kind: GrantMade, Key: []byte("k"), Token: 7, Nonce: nonce, Lease: 10 * time.Second})
	s.Promote(0, 2*time.Second)
	s.Changes()
	s.Acquire(0, Acquire{Session: 1, Key: []byte("k"), Nonce: nonce})
	effects, changes := s.Effects(), s.Changes()
	const longer = 2*time.Second + time.Millisecond // the gap, and what a clock may be ahead after up to a second
	if len(effects) != 1 || effects[0].Token != 7 || effects[0].Lease != 10*time.Second+longer {
		t.Fatalf("told %+v", effects)
	}
	if len(changes) != 1 || changes[0].Kind != GrantKept || changes[0].Token != 7 || changes[0].Lease != effects[0].Lease {
		t.Errorf("recorded %+v, told %v", changes, effects[0].Lease)
	}
}
