package history

import (
	"context"
	"testing"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/conformance/cluster/rig"
)

var base = time.Now()

func at(ms int) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }

const lease = 100 // ms

func acquire(token uint64, call, ret int) rig.Op {
	return rig.Op{Kind: rig.Acquire, Key: "k", Token: token, Lease: lease * time.Millisecond, Call: at(call), Return: at(ret)}
}

func release(token uint64, call, ret int, err error) rig.Op {
	return rig.Op{Kind: rig.Release, Key: "k", Token: token, Lease: lease * time.Millisecond, Call: at(call), Return: at(ret), Err: err}
}

func TestCheck(t *testing.T) {
	var (
		notHeld = &client.Error{Op: "release", Outcome: client.DidNotHappen, Err: client.ErrNotHeld}
		unknown = &client.Error{Op: "release", Outcome: client.MayHaveHappened, Err: client.ErrUndelivered}
		ended   = &client.Error{Op: "acquire", Outcome: client.MayHaveHappened, Err: context.Canceled}
	)
	failed := acquire(0, 0, 50)
	failed.Err = ended
	other := acquire(2, 1, 2)
	other.Key = "other"
	for _, test := range []struct {
		name string
		ops  []rig.Op
		want Verdict
	}{
		{"nothing", nil, Good},
		{"one after the other", []rig.Op{acquire(1, 0, 1), release(1, 2, 3, nil), acquire(2, 4, 5)}, Good},
		{"a wait that ends with the release", []rig.Op{acquire(1, 0, 1), acquire(2, 1, 6), release(1, 5, 7, nil)}, Good},
		{"granted before the release was called", []rig.Op{acquire(1, 0, 1), acquire(2, 1, 4), release(1, 5, 7, nil)}, Bad},
		{"another key", []rig.Op{acquire(1, 0, 1), other, release(1, 5, 7, nil)}, Good},
		{"granted after the lease", []rig.Op{acquire(1, 0, 1), acquire(2, 1, 101)}, Good},
		{"granted before the end of the lease", []rig.Op{acquire(1, 0, 1), acquire(2, 1, 99)}, Bad},
		{"the lease runs from the call at the earliest", []rig.Op{acquire(1, 50, 60), acquire(2, 1, 149)}, Bad},
		{"released late, and nobody else had it", []rig.Op{acquire(1, 0, 1), release(1, 200, 201, nil)}, Good},
		{"the same token twice", []rig.Op{acquire(1, 0, 1), release(1, 2, 3, nil), acquire(1, 4, 5)}, Bad},
		{"a lower token later", []rig.Op{acquire(2, 0, 1), release(2, 2, 3, nil), acquire(1, 4, 5)}, Bad},
		{"a lower token at the same time", []rig.Op{acquire(2, 0, 5), acquire(1, 0, 5), release(1, 2, 5, nil)}, Good},
		{"not held after the lease", []rig.Op{acquire(1, 0, 1), release(1, 100, 101, notHeld), acquire(2, 102, 103)}, Good},
		{"not held within the lease", []rig.Op{acquire(1, 0, 1), release(1, 50, 51, notHeld)}, Bad},
		{"not held, somebody else has it", []rig.Op{acquire(1, 0, 1), acquire(2, 1, 105), release(1, 106, 107, notHeld)}, Good},
		{"released although somebody else has it", []rig.Op{acquire(1, 0, 1), acquire(2, 1, 105), release(1, 106, 107, nil)}, Bad},
		{"a release of unknown outcome that happened", []rig.Op{acquire(1, 0, 1), release(1, 2, 3, unknown), acquire(2, 50, 51)}, Good},
		{"a release of unknown outcome that did not", []rig.Op{acquire(1, 0, 1), release(1, 2, 3, unknown), acquire(2, 4, 101)}, Good},
		{"granted before a release of unknown outcome", []rig.Op{acquire(1, 0, 1), acquire(2, 1, 2), release(1, 3, 4, unknown)}, Bad},
		{"a failed acquire says nothing", []rig.Op{failed, acquire(1, 1, 2), release(1, 3, 4, nil)}, Good},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, why := Check(test.ops, 10*time.Second); got != test.want {
				t.Errorf("got %v, want %v: %s", got, test.want, why)
			}
		})
	}
}
