package secrets

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
)

func TestSame(t *testing.T) {
	for _, tt := range []struct {
		want, got string
		same      bool
	}{
		{"sesame", "sesame", true}, {"sesame", "sesam", false}, {"sesame", "sesamee", false},
		{"sesame", "Sesame", false}, {"sesame", "", false}, {"", "", true},
	} {
		if Same([]byte(tt.want), []byte(tt.got)) != tt.same {
			t.Errorf("%q and %q: want %t", tt.want, tt.got, tt.same)
		}
	}
}

func TestAny(t *testing.T) {
	set := [][]byte{[]byte("new"), []byte("old")}
	for got, want := range map[string]bool{"new": true, "old": true, "newold": false, "": false, "other": false} {
		if Any(set, []byte(got)) != want {
			t.Errorf("%q: want %t", got, want)
		}
	}
	if Any(nil, nil) {
		t.Error("nothing is one of nothing")
	}
}

func TestSource(t *testing.T) {
	for ip, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "2001:db8:1:2::9": "2001:db8:1:2::", "fe80::1%eth0": "fe80::",
	} {
		if got := Source(netip.MustParseAddr(ip)).String(); got != want {
			t.Errorf("%s counts as %s, want %s", ip, got, want)
		}
	}
}

func TestWrong(t *testing.T) {
	w := Wrong{Max: 3}
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	now := time.Now()
	for i := range 3 {
		if wait := w.Wait(a, now); wait != 0 {
			t.Errorf("after %d it has to wait %v", i, wait)
		}
		if bars := w.Add(a, now.Add(time.Duration(i)*time.Second)); bars != (i == 2) {
			t.Errorf("wrong secret %d: bars is %t", i, bars)
		}
	}
	if got := w.Wait(a, now.Add(CountedFor-time.Second)); got != time.Second {
		t.Errorf("a second before the end it has to wait %v", got)
	}
	if w.Wait(a, now.Add(CountedFor)) != 0 || w.Wait(b, now) != 0 {
		t.Error("it has to wait for longer than a minute, or another address has to")
	}
	if w.Add(a, now.Add(CountedFor)) || w.Wait(a, now.Add(CountedFor)) != 0 {
		t.Error("the count does not begin anew")
	}
	var any Wrong
	for range 10 {
		if any.Add(a, now) || any.Wait(a, now) != 0 {
			t.Fatal("without a limit it has to wait")
		}
	}
}

// However many addresses there are, few are remembered, and old ones go first.
func TestWrongIsBounded(t *testing.T) {
	w := Wrong{Max: 1}
	addr := func(i int) netip.Addr {
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(i))))
	}
	now := time.Now()
	for i := range 3 * maxAddresses {
		if w.Add(addr(i), now); w.Wait(addr(i), now) == 0 {
			t.Fatalf("address %d need not wait", i)
		}
		if len(w.by) > maxAddresses {
			t.Fatalf("%d are remembered", len(w.by))
		}
	}
	later := now.Add(2 * CountedFor)
	for i := range maxAddresses {
		w.Add(addr(1<<30+i), later)
	}
	for a, e := range w.by {
		if e.since != later {
			t.Fatalf("%v is remembered, and counts no more", a)
		}
	}
}
