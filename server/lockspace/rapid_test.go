package lockspace

import (
	"flag"
	"math"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stile-lock/stile/protocol"
)

// TestMain makes rapid's runs long enough for 100,000 operations and more in
// an ordinary test run. For more yet: -rapid.checks=10000.
func TestMain(m *testing.M) {
	flag.Parse()
	steps := true // not set by hand
	flag.Visit(func(f *flag.Flag) { steps = steps && f.Name != "rapid.steps" })
	if steps {
		if err := flag.Set("rapid.steps", "2000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

const ms = time.Millisecond

// Few keys, sessions and nonces, and times of a few milliseconds: all that
// can meet should meet often. Some runs make do with one key or one nonce.
var (
	allKeys   = []string{"a", "b", "a-key-of-some-length-000"}
	allNonces = []string{"n1", "n2", "a-nonce-of-thirty-two-characters"}

	genWait    = rapid.SampledFrom([]time.Duration{protocol.NoQueue, 0, 1 * ms, 2 * ms, 5 * ms, 20 * ms, protocol.MaxSeconds})
	genLease   = rapid.SampledFrom([]time.Duration{0, 1 * ms, 2 * ms, 3 * ms, 10 * ms, protocol.MaxSeconds})
	genStep    = rapid.SampledFrom([]string{"", "", "", "1ns", "500µs", "1ms", "3ms", "12ms", "to", "to", "before", "after", "back"})
	genMost    = rapid.SampledFrom([]int{0, 1, 2, 3, 256})
	genSession = rapid.IntRange(0, 3)
	genTenth   = rapid.IntRange(0, 9)
)

// step moves the time, often to the very instant of a deadline.
func step(t *rapid.T, g *rig) {
	next := g.model.next()
	switch s := genStep.Draw(t, "step"); s {
	case "":
	case "to", "before", "after":
		if next != Never {
			off := map[string]Time{"to": 0, "before": -1, "after": 1}[s]
			g.now = max(g.now, next+off)
		}
	case "back":
		g.now = g.now - Time(ms)
	default:
		d, err := time.ParseDuration(s)
		if err != nil {
			panic(err)
		}
		g.now = g.now + Time(d)
	}
}

func drawSession(t *rapid.T, g *rig) Session {
	i := genSession.Draw(t, "session")
	for len(g.live) <= i {
		g.connect()
	}
	return g.live[i]
}

// drawToken draws the right token, mostly, or one that is wrong in some way.
func drawToken(t *rapid.T, g *rig, key string, genKey *rapid.Generator[string]) uint64 {
	switch genTenth.Draw(t, "token") {
	case 0:
		return g.older[key]
	case 1:
		return g.last[key] + 1
	case 2:
		return g.last[genKey.Draw(t, "token of")]
	case 3:
		return rapid.SampledFrom([]uint64{0, math.MaxUint64}).Draw(t, "odd token")
	}
	return g.last[key]
}

func TestAgainstModel(t *testing.T) {
	runs, ops, snapshots := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := newRig(t, Config{
			DefaultLease:     4 * ms,
			MaxLease:         15 * ms,
			ReattachGrace:    5 * ms,
			SpentFor:         20 * ms,
			MaxSpent:         rapid.SampledFrom([]int{1, 2, 3, 65536, 65536, 65536}).Draw(t, "max spent"),
			MaxWaitersPerKey: rapid.SampledFrom([]int{1, 2, 5, 1000}).Draw(t, "max waiters"),
			Seed:             1,
		}, rapid.SampledFrom([]uint64{0, 1, math.MaxUint64}).Draw(t, "hash mask"))

		// The origin of the clock does not matter.
		g.now = Time(rapid.SampledFrom([]time.Duration{0, time.Hour, -time.Hour}).Draw(t, "start"))

		genKey := rapid.SampledFrom(allKeys[:rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "keys")])
		genNonce := rapid.SampledFrom(allNonces[:rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "nonces")])
		noncesInTen := rapid.SampledFrom([]int{0, 3, 5, 9}).Draw(t, "nonces in ten acquires")

		acquire := func(t *rapid.T) {
			step(t, g)
			nonce := Nonce{}
			if genTenth.Draw(t, "with nonce") < noncesInTen {
				nonce = MakeNonce([]byte(genNonce.Draw(t, "nonce")))
			}
			g.acquire(Acquire{
				Session:  drawSession(t, g),
				Wait:     genWait.Draw(t, "wait"),
				Lease:    genLease.Draw(t, "lease"),
				Nonce:    nonce,
				MayQueue: genTenth.Draw(t, "may queue") != 0,
			}, genKey.Draw(t, "key"))
		}
		advance := func(t *rapid.T) {
			step(t, g)
			g.advance(genMost.Draw(t, "most"))
		}
		t.Repeat(map[string]func(*rapid.T){
			// Some twice, since all names are equally likely.
			"acquire":  acquire,
			"acquire2": acquire,
			"acquire3": acquire,
			"acquire4": acquire,
			"advance":  advance,
			"advance2": advance,
			"refuse": func(t *rapid.T) {
				step(t, g)
				g.refuse(drawSession(t, g), genKey.Draw(t, "key"), protocol.CodeBadRequest)
			},
			"release": func(t *rapid.T) {
				step(t, g)
				key := genKey.Draw(t, "key")
				g.release(key, drawToken(t, g, key, genKey))
			},
			"break": func(t *rapid.T) {
				step(t, g)
				key := genKey.Draw(t, "key")
				g.breakKey(key, drawToken(t, g, key, genKey))
			},
			"list": func(t *rapid.T) {
				step(t, g)
				g.list(rapid.SampledFrom([]int{1, 2, 100}).Draw(t, "portion"), rapid.SampledFrom([]int{0, 1, 3, 100}).Draw(t, "waiters"))
			},
			"keep": func(t *rapid.T) {
				step(t, g)
				key := genKey.Draw(t, "key")
				g.keep(drawSession(t, g), key, drawToken(t, g, key, genKey), genLease.Draw(t, "lease"))
			},
			"cancel": func(t *rapid.T) {
				step(t, g)
				nonce := MakeNonce([]byte(genNonce.Draw(t, "nonce")))
				g.cancel(genKey.Draw(t, "key"), nonce)
			},
			"drop": func(t *rapid.T) {
				step(t, g)
				g.drop(drawSession(t, g), rapid.IntRange(0, 2).Draw(t, "unread"))
				if genTenth.Draw(t, "undo at once") < 7 {
					for len(g.lost) > 0 {
						g.undoLost(0)
					}
				}
			},
			"undo": func(t *rapid.T) {
				step(t, g)
				if len(g.lost) > 0 {
					g.undoLost(rapid.IntRange(0, len(g.lost)-1).Draw(t, "which"))
				}
			},
			"undo early": func(t *rapid.T) {
				// The node may notice before it has dropped the session.
				step(t, g)
				session := drawSession(t, g)
				if fresh := g.fresh[session]; len(fresh) > 0 {
					g.fresh[session] = fresh[:len(fresh)-1]
					g.undo(fresh[len(fresh)-1])
				}
			},
			"almost due": func(t *rapid.T) {
				// Nothing happens before Next.
				if next := g.space.Next(); next != Never {
					g.now = max(g.now, next-1)
					due := next <= max(g.now, g.observer.now)
					held, waiting := g.space.Held(), g.space.Waiting()
					g.advance(math.MaxInt)
					if !due && (held != g.space.Held() || waiting != g.space.Waiting()) {
						t.Fatalf("something ended before Next")
					}
				}
			},
			"snapshot": func(t *rapid.T) {
				g.copies.snapshot(rapid.SampledFrom([]int{1, 1, 2, 3, 100}).Draw(t, "rows"))
			},
			"rare": func(t *rapid.T) {
				switch genTenth.Draw(t, "rare") {
				case 0:
					step(t, g)
					g.endWaiters(rapid.SampledFrom([]protocol.Code{protocol.CodeStopping, protocol.CodeNoActive}).Draw(t, "code"))
				case 1, 2:
					g.noTokens = true
				default:
					g.noTokens = false
				}
			},
		})
		g.noTokens = false
		g.drain(rapid.Bool().Draw(t, "drop first"))
		runs, ops, snapshots = runs+1, ops+g.ops, snapshots+g.copies.snapshots
	})
	t.Logf("%d operations and %d snapshots in %d runs", ops, snapshots, runs)
}
