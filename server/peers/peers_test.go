package peers

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func mustParse(t *testing.T, s string) List {
	t.Helper()
	l, err := Parse(s)
	if err != nil {
		t.Fatalf("Parse(%q): %v", s, err)
	}
	return l
}

// has fails the test unless the error has all the parts.
func has(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want one with %q", what, parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v: want %q in it", what, err, part)
		}
	}
}

// list returns a list of n nodes n0:5625, n1:5625 and so on.
func list(n int) string {
	var entries []string
	for i := range n {
		entries = append(entries, fmt.Sprintf("n%d:5625", i))
	}
	return strings.Join(entries, ",")
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want List
		text string
	}{
		{"", nil, ""},
		{"a:1", List{{0, "a:1"}}, "a:1#0"},
		{"a:1,b:2,c:3", List{{0, "a:1"}, {1, "b:2"}, {2, "c:3"}}, "a:1#0,b:2#1,c:3#2"},
		{"c:3#2,a:1#0,b:2#1", List{{2, "c:3"}, {0, "a:1"}, {1, "b:2"}}, "c:3#2,a:1#0,b:2#1"},
		{"a:1#15,b:2,c:3#0", List{{15, "a:1"}, {1, "b:2"}, {0, "c:3"}}, "a:1#15,b:2#1,c:3#0"},
		{" a:1 ,\tb:2#7\n", List{{0, "a:1"}, {7, "b:2"}}, "a:1#0,b:2#7"},
		// What is dialled and told to clients is what was written.
		{"Node-1.Example.COM.:5625", List{{0, "Node-1.Example.COM.:5625"}}, "node-1.example.com:5625#0"},
		{"node_1:65535", List{{0, "node_1:65535"}}, "node_1:65535#0"},
		{"[2001:DB8:0::1]:5625", List{{0, "[2001:DB8:0::1]:5625"}}, "[2001:db8::1]:5625#0"},
		{"[::ffff:10.0.0.1]:5625", List{{0, "[::ffff:10.0.0.1]:5625"}}, "10.0.0.1:5625#0"},
		{"[::ffff:a00:1]:5625", List{{0, "[::ffff:a00:1]:5625"}}, "10.0.0.1:5625#0"},
		{"node1:5625,node10:5625,node1:56250,1node:5625", List{{0, "node1:5625"}, {1, "node10:5625"}, {2, "node1:56250"}, {3, "1node:5625"}},
			"node1:5625#0,node10:5625#1,node1:56250#2,1node:5625#3"},
	} {
		got := mustParse(t, tt.in)
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: %v, want %v", tt.in, got, tt.want)
		}
		if got.String() != tt.text {
			t.Errorf("%q: text %q, want %q", tt.in, got.String(), tt.text)
		}
	}
	if l := mustParse(t, list(MaxPeers)); len(l) != MaxPeers || l[15].ID != MaxID {
		t.Errorf("%v", l)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct {
		in    string
		parts []string
	}{
		{" ", []string{"entry 1 is empty"}},
		{",", []string{"entry 1 is empty", "comma"}},
		{"a:1,", []string{"entry 2 is empty", "comma"}},
		{"a:1,,b:2", []string{"entry 2 is empty"}},
		{list(17), []string{"17 entries", "at most 16"}},

		{"a:1,b", []string{`entry 2, "b"`, "host:port"}},
		{"a", []string{"host:port"}},
		{"5625", []string{"host:port"}},
		{":5625", []string{"host:port"}},
		{"a:", []string{"host:port"}},
		{"a:b", []string{"host:port"}},
		{"a:65536", []string{"host:port", "1 to 65535"}},
		{"a:-1", []string{"host:port"}},
		{"a:05625", []string{"host:port"}},
		{"a:0", []string{`entry 1, "a:0"`, "port 0"}},
		{"::1:5625", []string{"[ipv6]:port"}},
		{"[::1]", []string{"[ipv6]:port"}},
		{"[a]:1", []string{"[ipv6]:port"}},
		{"[10.0.0.1]:1", []string{"[ipv6]:port"}},
		{"[fe80::1%eth0]:1", []string{"[ipv6]:port"}},
		{"a b:1", []string{"host:port"}},
		{"a:1;b:2", []string{"host:port"}},
		{"http://a:1", []string{"host:port"}},
		{strings.Repeat("a", 257) + ":5625", []string{"host:port"}},

		{"0.0.0.0:1", []string{`entry 1, "0.0.0.0:1"`, "unspecified"}},
		{"[::]:1", []string{"unspecified"}},
		{"[::ffff:0.0.0.0]:1", []string{"unspecified"}},

		{".:1", []string{"missing beside a dot"}},
		{"a..b:1", []string{`"a..b"`, "missing beside a dot"}},
		{"a..:1", []string{"missing beside a dot"}},
		{".a:1", []string{"missing beside a dot"}},
		{"a/b:1", []string{`"a/b"`, "letters"}},
		{"kölle:1", []string{"xn--"}},
		{"127.1:1", []string{`"127.1"`, "IPv4"}},
		{"256.0.0.1:1", []string{"IPv4"}},
		{"010.0.0.1:1", []string{"IPv4", "leading zeros"}},
		{"10.0.0.1.:1", []string{"IPv4"}},
		{"0:1", []string{"IPv4"}},

		{"a:1#", []string{`entry 1, "a:1#"`, "0 to 15"}},
		{"a:1#16", []string{`"16"`, "0 to 15"}},
		{"a:1#256", []string{"0 to 15"}},
		{"a:1#-1", []string{"0 to 15"}},
		{"a:1#+1", []string{"0 to 15"}},
		{"a:1#01", []string{"0 to 15"}},
		{"a:1#1#2", []string{`"1#2"`, "0 to 15"}},
		{"a:1# 1", []string{"0 to 15"}},
		{"a:1 #1", []string{"host:port"}},
		{"#1", []string{"host:port"}},

		{"a:1,b:2,a:1", []string{`entry 1, "a:1"`, `entry 3, "a:1"`, "same address a:1"}},
		{"A:1#3,a.:1#4", []string{`entry 1, "A:1#3"`, `entry 2, "a.:1#4"`, "same address a:1"}},
		{"10.0.0.1:1,[::ffff:10.0.0.1]:1", []string{"same address 10.0.0.1:1"}},
		{"[2001:db8::1]:1,[2001:DB8:0:0::1]:1", []string{"same address [2001:db8::1]:1"}},
		{"a:1#1,b:2", []string{`entry 1, "a:1#1"`, `entry 2, "b:2"`, "same id 1", "ids of all"}},
		{"a:1,b:2,c:3#0", []string{`entry 1, "a:1"`, `entry 3, "c:3#0"`, "same id 0", "ids of all"}},
	} {
		l, err := Parse(tt.in)
		has(t, fmt.Sprintf("Parse(%q) = %v", tt.in, l), err, tt.parts...)
	}
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"LocalHost:5625":          "localhost:5625",
		"a.:1":                    "a:1",
		"a..:1":                   "a.:1",
		"a:00":                    "a:0",
		"a:05625":                 "a:5625",
		"127.0.0.1:05625":         "127.0.0.1:5625",
		"[::0001]:1":              "[::1]:1",
		"[::FFFF:127.0.0.1]:5625": "127.0.0.1:5625",
		":5625":                   ":5625",
		"a":                       "a",
		"":                        "",
		"[::1]":                   "[::1]",
	} {
		if got := Canonical(in); got != want {
			t.Errorf("Canonical(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFindAndIndex(t *testing.T) {
	l := mustParse(t, "a:1#4,b:2#0,c:3#1")
	for addr, want := range map[string]int{"a:1": 0, "B.:2": 1, "c:3": 2, "c:33": -1, "cc:3": -1, "": -1} {
		if i, ok := l.Find(addr); i != want || ok != (want >= 0) {
			t.Errorf("Find(%q) = %d, %v, want %d", addr, i, ok, want)
		}
	}
	for id, want := range map[uint8]int{4: 0, 0: 1, 1: 2, 2: -1, 255: -1} {
		if i, ok := l.Index(id); i != want || ok != (want >= 0) {
			t.Errorf("Index(%d) = %d, %v, want %d", id, i, ok, want)
		}
	}
}

// hosts are what the tests' lookup knows.
var hosts = map[string][]string{
	"localhost": {"::1", "127.0.0.1"},
	"node1":     {"10.0.0.1"},
	"one":       {"10.0.0.1"},
	"both":      {"::ffff:10.0.0.2", "10.0.0.3"},
	"node2":     {"10.0.0.2"},
}

func lookup(host string) (ips []netip.Addr) {
	for _, s := range hosts[host] {
		ips = append(ips, netip.MustParseAddr(s))
	}
	return ips
}

func TestSelf(t *testing.T) {
	for _, tt := range []struct {
		list, advertise string
		want            int
	}{
		{"a:1", "a:1", 0},
		{"a:1,b:2,c:3", "b:2", 1},
		{"node1:5625,node10:5625", "node10:5625", 1},
		{"node10:5625,node1:5625", "node1:5625", 1},
		{"a.example:1,a:1", "A:1", 1},
		{"Node1.:5625,node2:5625", "node1:5625", 0},
		{"node1:5625,node2:5625", "NODE2.:5625", 1},
		{"10.0.0.1:5625,10.0.0.2:5625", "[::ffff:10.0.0.2]:05625", 1},
		{"[2001:db8::1]:5625,[2001:db8::2]:5625", "[2001:DB8:0::2]:5625", 1},
		// One machine, three nodes.
		{"localhost:1,localhost:2,127.0.0.1:3", "localhost:2", 1},
		{"localhost:1,localhost:2,127.0.0.1:3", "127.0.0.1:3", 2},
		// Nothing is known of the addresses of the others.
		{"node1:5625,unknown:5625", "node1:5625", 0},
		{"unknown1:5625,unknown2:5625", "unknown2:5625", 1},
	} {
		for name, lookup := range map[string]func(string) []netip.Addr{"no lookup": nil, "lookup": lookup} {
			if i, err := mustParse(t, tt.list).Self(tt.advertise, lookup); i != tt.want || err != nil {
				t.Errorf("%s in %s, %s: %d, %v, want %d", tt.advertise, tt.list, name, i, err, tt.want)
			}
		}
	}
}

func TestSelfRefuses(t *testing.T) {
	for _, tt := range []struct {
		list, advertise string
		lookup          func(string) []netip.Addr
		parts           []string
	}{
		{"a:1,b:2", "c:3", nil, []string{"c:3", "in no entry", "a:1#0,b:2#1", "--advertise", "--listen"}},
		{"a:1,b:2", "c:3", lookup, []string{"in no entry"}},
		{"", "c:3", nil, []string{"in no entry"}},
		{"node10:5625,node2:5625", "node1:5625", nil, []string{"in no entry"}},
		{"node1:56250,node2:5625", "node1:5625", nil, []string{"in no entry", "entry 1, node1:56250, has another port"}},
		{"node1.example:5625", "node1:5625", nil, []string{"in no entry"}},
		{"localhost:5625,b:2", "127.0.0.1:5625", nil, []string{"127.0.0.1:5625", "in no entry", "--advertise"}},
		{"b:2,localhost:5625", "127.0.0.1:5625", lookup, []string{"in no entry", "entry 2", "give --advertise localhost:5625"}},
		{"localhost:5626", "127.0.0.1:5625", lookup, []string{"in no entry"}},
		{"10.0.0.1:5625,10.0.0.2:5625", "node2:5625", lookup, []string{"entry 2", "give --advertise 10.0.0.2:5625"}},

		// One node by name and by address, or by two names.
		{"node1:5625,10.0.0.1:5625", "node1:5625", lookup, []string{"twice", "entry 1, node1:5625", "entry 2, 10.0.0.1:5625", "remove one", "--advertise"}},
		{"node1:5625,10.0.0.1:5625", "10.0.0.1:5625", lookup, []string{"twice", "entry 1, node1:5625", "entry 2, 10.0.0.1:5625"}},
		{"a:1,localhost:5625,[::1]:5625", "[::1]:5625", lookup, []string{"twice", "entry 2", "entry 3", "lead to [::1]:5625"}},
		{"a:1,one:5625,node1:5625", "node1:5625", lookup, []string{"twice", "entry 2, one:5625", "entry 3, node1:5625", "lead to 10.0.0.1:5625"}},
		{"node2:5625,both:5625", "node2:5625", lookup, []string{"twice", "lead to 10.0.0.2:5625"}},
		{"one:5625,node1:5625", "10.0.0.1:5625", lookup, []string{"twice", "entry 1", "entry 2"}},

		{"a:1", "", nil, []string{"--advertise host:port"}},
		{"a:1", "a", nil, []string{`"a"`, "--advertise host:port"}},
		{"a:1", ":1", nil, []string{`":1"`, "--advertise host:port"}},
		{"a:1", "a:", nil, []string{"--advertise host:port"}},
	} {
		i, err := mustParse(t, tt.list).Self(tt.advertise, tt.lookup)
		has(t, fmt.Sprintf("%s in %s: %d", tt.advertise, tt.list, i), err, tt.parts...)
	}
	// Parse lets no such list pass.
	_, err := List{{0, "a:1"}, {1, "A:1"}}.Self("a:1", nil)
	has(t, "twice by its text", err, "twice", "entry 1", "entry 2")
}

func TestCompatible(t *testing.T) {
	for _, tt := range []struct {
		mine, theirs string
		parts        []string // nil: compatible
	}{
		{"a:1,b:2,c:3", "a:1,b:2,c:3", nil},
		{"a:1,b:2,c:3", "A.:1#0,b:2#1,C:3#2", nil},
		{"", "a:1", nil},
		{"a:1,b:2", "a:1,b:2,c:3", nil},
		{"a:1,b:2#1,c:3#2", "b:2#1,c:3#2", nil}, // a was removed
		{"a:1#0,c:3#2", "a:1#0,b:2#1,c:3#2", nil},
		{"a:1#0,b:2#1", "c:3#2,d:4#3", nil},
		{"a:1#0,b:2#1,c:3#2", "x:9#9,a:1#0,y:8#8,c:3#2", nil},

		{"a:1,b:2", "b:2,a:1", []string{"a:1 has the id 0 in this node's list and 1 in the other's"}},
		{"a:1#0", "a:1#3", []string{"a:1", "id 0", "3 in the other's"}},
		{"a:1,b:2", "a:1,c:3", []string{"the id 1 is b:2 in this node's list and c:3 in the other's"}},
		{"a:1,b:2", "c:3#1", []string{"the id 1 is b:2", "c:3"}},
		{"a:1#0,b:2#1", "b:2#1,a:1#0", []string{"a:1 has a higher priority than b:2", "same order"}},
		{"a:1#0,b:2#1,c:3#2", "a:1#0,x:9#9,c:3#2,b:2#1", []string{"b:2 has a higher priority than c:3"}},
		{"a:1#0,b:2#1,c:3#2", "c:3#2,a:1#0", []string{"a:1 has a higher priority than c:3"}},
		// 5625 and 56250 are two ports.
		{"a:5625", "a:56250", []string{"the id 0 is a:5625", "a:56250"}},
	} {
		mine, theirs := mustParse(t, tt.mine), mustParse(t, tt.theirs)
		err, back := Compatible(mine, theirs), Compatible(theirs, mine)
		if (err == nil) != (back == nil) {
			t.Errorf("%s, %s: %v, but the other way: %v", tt.mine, tt.theirs, err, back)
		}
		if tt.parts != nil {
			has(t, tt.mine+" and "+tt.theirs, err, tt.parts...)
		} else if err != nil {
			t.Errorf("%s and %s: %v", tt.mine, tt.theirs, err)
		}
	}
}

func TestSame(t *testing.T) {
	for _, tt := range []struct {
		mine, theirs string
		want         bool
	}{
		{"", "", true},
		{"a:1,b:2", "A.:1#0,b:2#1", true},
		{"a:1,b:2", "a:1", false},
		{"a:1,b:2", "a:1#1,b:2#0", false},
		{"a:1#0,b:2#1", "b:2#1,a:1#0", false},
		{"10.0.0.1:1", "[::ffff:10.0.0.1]:1", true},
	} {
		if got := Same(mustParse(t, tt.mine), mustParse(t, tt.theirs)); got != tt.want {
			t.Errorf("%q and %q: %v", tt.mine, tt.theirs, got)
		}
	}
}

var (
	genHost = rapid.OneOf(
		rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9_-]{0,3}(\.[a-z][a-zA-Z0-9]{0,3})?\.?`),
		rapid.StringMatching(`(10|0|255)\.0\.0\.[1-9]`),
		rapid.StringMatching(`\[(2001:[dD][bB]8|::[fF]{4})::?[1-9aA]?\]|\[::ffff:10\.0\.0\.[1-9]\]`),
	)
	genPort = rapid.IntRange(1, 65535)
)

// genList draws a list of at least min entries with ids of its own.
func genList(min int) *rapid.Generator[List] {
	return rapid.Custom(func(t *rapid.T) List {
		ids := rapid.Permutation([]uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}).Draw(t, "ids")
		want := rapid.IntRange(min, MaxPeers-1).Draw(t, "entries")
		var l List
		for len(l) < want {
			addr := fmt.Sprintf("%s:%d", genHost.Draw(t, "host"), genPort.Draw(t, "port"))
			p, err := parseEntry(fmt.Sprintf("%s#%d", addr, ids[len(l)]), 0)
			if _, known := l.Find(addr); err != nil || known {
				continue
			}
			l = append(l, p)
		}
		return l
	})
}

func TestTextIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := genList(0).Draw(t, "list")
		back, err := Parse(l.String())
		if err != nil {
			t.Fatalf("%v: %v", l, err)
		}
		if !Same(l, back) || len(back) != len(l) {
			t.Fatalf("%v was read as %v", l, back)
		}
		for i, p := range back {
			if p.ID != l[i].ID || p.Addr != Canonical(p.Addr) || p.Addr != Canonical(l[i].Addr) {
				t.Fatalf("%v was read as %v", l[i], p)
			}
			if j, err := l.Self(p.Addr, nil); j != i || err != nil {
				t.Fatalf("Self(%q) in %v: %d, %v, want %d", p.Addr, l, j, err, i)
			}
		}
	})
}

func TestAnyTextParsesOrNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[ab.:0-9#,\[\]%F ]{0,30}`).Draw(t, "text")
		l, err := Parse(s)
		if err != nil {
			return
		}
		if back, err := Parse(l.String()); err != nil || !Same(l, back) {
			t.Fatalf("%q is %v, which is read as %v, %v", s, l, back, err)
		}
	})
}

// few draws lists over few addresses and ids, so that they have much in common.
var few = rapid.Custom(func(t *rapid.T) List {
	addrs := rapid.Permutation([]string{"a:1", "b:1", "c:1", "d:1"}).Draw(t, "addresses")
	ids := []uint8{0, 1, 2, 3}
	if rapid.Bool().Draw(t, "other ids") {
		ids = rapid.Permutation([]uint8{0, 1, 2, 3, 4}).Draw(t, "ids")
	} else {
		for i, addr := range addrs {
			ids[i] = addr[0] - 'a'
		}
	}
	var l List
	for i := range rapid.IntRange(0, len(addrs)).Draw(t, "entries") {
		l = append(l, Peer{ids[i], addrs[i]})
	}
	return l
})

// compatible says the rule once more, pair by pair.
func compatible(mine, theirs List) bool {
	for _, m := range mine {
		for _, t := range theirs {
			if (m.ID == t.ID) != (m.Addr == t.Addr) {
				return false
			}
		}
	}
	for i, m := range mine {
		for _, n := range mine[i+1:] {
			if a, ok := theirs.Find(m.Addr); ok {
				if b, ok := theirs.Find(n.Addr); ok && a > b {
					return false
				}
			}
		}
	}
	return true
}

func TestCompatibleIsTheRuleBothWays(t *testing.T) {
	yes, no := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		mine, theirs := few.Draw(t, "mine"), few.Draw(t, "theirs")
		want := compatible(mine, theirs)
		if err := Compatible(mine, theirs); (err == nil) != want {
			t.Fatalf("%v and %v: %v, want compatible %v", mine, theirs, err, want)
		}
		if err := Compatible(theirs, mine); (err == nil) != want {
			t.Fatalf("%v and %v: %v, want compatible %v", theirs, mine, err, want)
		}
		if want {
			yes++
		} else {
			no++
		}
	})
	if yes < 10 || no < 10 {
		t.Errorf("%d lists were compatible, %d not: too few of one kind", yes, no)
	}
}

// A node is added at the end, and removed anywhere once the ids are written.
func TestAddingAndRemovingAreCompatible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := genList(1).Draw(t, "list")
		id := uint8(0)
		for ; ; id++ {
			if _, used := l.Index(id); !used {
				break
			}
		}
		longer := append(append(List{}, l...), Peer{id, "new.example:5625"})
		if err := Compatible(l, longer); err != nil {
			t.Fatalf("%v and %v: %v", l, longer, err)
		}
		gone := rapid.IntRange(0, len(l)-1).Draw(t, "removed")
		shorter := append(append(List{}, l[:gone]...), l[gone+1:]...)
		if err := Compatible(l, shorter); err != nil {
			t.Fatalf("%v and %v: %v", l, shorter, err)
		}
	})
}

func TestReorderingIsNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, MaxPeers).Draw(t, "entries")
		entries := strings.Split(list(n), ",")
		moved := rapid.Permutation(entries).Draw(t, "moved")
		a, err := Parse(strings.Join(entries, ","))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Parse(strings.Join(moved, ","))
		if err != nil {
			t.Fatal(err)
		}
		if err := Compatible(a, b); (err == nil) != reflect.DeepEqual(entries, moved) {
			t.Fatalf("%v and %v: %v", a, b, err)
		}
		// Nor with ids that stay with the addresses.
		for i, p := range b {
			j, _ := a.Find(p.Addr)
			b[i].ID = a[j].ID
		}
		if err := Compatible(a, b); (err == nil) != reflect.DeepEqual(entries, moved) {
			t.Fatalf("%v and %v: %v", a, b, err)
		}
	})
}
