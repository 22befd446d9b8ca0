package top

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/stile-lock/stile/tools/cmd/stile/adminapi"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// active is a look at a node that serves alone, with keys of these ages and
// as many waiters as their place in the list.
func active(at time.Time, granted uint64, ages ...time.Duration) snapshot {
	p := &adminapi.Page{Active: true, Node: "n0:1"}
	for i, age := range ages {
		p.Keys = append(p.Keys, adminapi.Holding{
			Key: adminapi.Key(fmt.Sprintf("key%d", i)), Token: uint64(100 + i), Waiting: i,
			Since: at.Add(-age), Until: at.Add(10 * time.Second), Holder: adminapi.Who{Client: fmt.Sprintf("holder%d", i)},
		})
	}
	lag := uint64(12)
	return snapshot{at: at, page: p, nodes: []adminapi.Answer[adminapi.Status]{
		{Addr: "a0:1", Got: &adminapi.Status{
			Addr: "n0:1", Started: start, Held: len(ages), Waiting: 3,
			Counts:  &adminapi.Counts{Grants: map[string]uint64{"at_once": granted}, GrantsEnded: map[string]uint64{"expired": granted / 10}},
			Cluster: &adminapi.Cluster{ID: 0, Role: "active", Mode: "serve", Epoch: "5.0", Peers: []adminapi.Peer{{ID: 1, Addr: "n1:1", Reached: true, Lag: &lag}}},
		}},
		{Addr: "a1:1", Got: &adminapi.Status{Addr: "n1:1", Started: start, Cluster: &adminapi.Cluster{ID: 1, Role: "standby", Mode: "redirect", Epoch: "5.0"}}},
	}}
}

func feed(m *model, msgs ...tea.Msg) tea.Cmd {
	var cmd tea.Cmd
	for _, msg := range msgs {
		_, cmd = m.Update(msg)
	}
	return cmd
}

func press(name string) tea.Msg {
	if len(name) == 1 {
		return tea.KeyPressMsg{Code: rune(name[0]), Text: name}
	}
	return tea.KeyPressMsg{Code: map[string]rune{"space": tea.KeySpace, "down": tea.KeyDown, "up": tea.KeyUp}[name]}
}

func newTest() *model {
	m := newModel(time.Second, func() tea.Msg { return nil })
	feed(m, tea.WindowSizeMsg{Width: 140, Height: 20})
	return m
}

// lineOf is the line with a text, among what is drawn.
func lineOf(t *testing.T, m *model, text string) (int, string) {
	t.Helper()
	for i, l := range strings.Split(m.draw(), "\n") {
		if strings.Contains(l, text) {
			return i, l
		}
	}
	t.Errorf("no %q in\n%s", text, m.draw())
	return -1, ""
}

func TestRates(t *testing.T) {
	m := newTest()
	if !strings.Contains(m.draw(), "asking") {
		t.Errorf("before the first look:\n%s", m.draw())
	}
	feed(m, active(start, 1000, time.Second))
	if _, l := lineOf(t, m, "a0:1"); !strings.Contains(l, "active") || !strings.HasSuffix(strings.TrimRight(l, "\x1b[m "), "-") {
		t.Errorf("rates after one look: %q", l)
	}
	if _, l := lineOf(t, m, "a1:1"); !strings.Contains(l, "standby") || !strings.Contains(l, " 12 ") {
		t.Errorf("the lag that the active tells: %q", l)
	}
	refusing := active(start, 1000, time.Second)
	refusing.nodes[0].Got.Cluster.Mode = "refuse"
	feed(m, refusing)
	if _, l := lineOf(t, m, "a1:1"); !strings.Contains(l, " 12 ") {
		t.Errorf("an active tells the lag also while it refuses clients: %q", l)
	}
	feed(m, active(start.Add(2*time.Second), 1200, time.Second))
	if r := m.rates["a0:1"]; r.grants != 100 || r.expired != 10 {
		t.Errorf("%+v, want 100 and 10", r)
	}
	// A node that was started again counts from 0.
	s := active(start.Add(3*time.Second), 5, time.Second)
	s.nodes[0].Got.Started = start.Add(2500 * time.Millisecond)
	feed(m, s)
	if r, ok := m.rates["a0:1"]; ok {
		t.Errorf("%+v after a restart", r)
	}
}

func TestHolders(t *testing.T) {
	for _, c := range []struct {
		who  adminapi.Who
		want string
	}{
		{adminapi.Who{Client: "ann", Addr: "a:1"}, " ann "},
		{adminapi.Who{Addr: "a:1"}, " a:1 "},
		{adminapi.Who{Client: "ann", Addr: "a:1", Gone: true}, " ann, gone "},
		{adminapi.Who{Client: strings.Repeat("x", 200), Gone: true}, "x…x"},
		{adminapi.Who{}, " - "},
	} {
		m := newTest()
		s := active(start, 0, time.Second)
		s.page.Keys[0].Holder = c.who
		feed(m, s)
		if _, l := lineOf(t, m, "key0"); !strings.Contains(l, c.want) {
			t.Errorf("%+v: %q", c.who, l)
		}
	}
}

func TestOrder(t *testing.T) {
	m := newTest()
	feed(m, active(start, 0, 3*time.Second, 5*time.Second, 4*time.Second))
	order := func() string {
		out := ""
		for _, l := range strings.Split(m.draw(), "\n") {
			if i := strings.Index(l, "key"); i >= 0 && strings.Contains(l, "holder") {
				out += l[i+3 : i+4]
			}
		}
		return out
	}
	if got := order(); got != "210" {
		t.Errorf("most waited for first: %s", got)
	}
	feed(m, press("h"))
	if got := order(); got != "120" {
		t.Errorf("held longest first: %s", got)
	}
	feed(m, press("w"), press("down"))
	if got := order(); got != "10" {
		t.Errorf("one down: %s", got)
	}
	feed(m, press("down"), press("down"), press("down"), press("down"))
	if got := order(); got != "0" {
		t.Errorf("at the end: %s", got)
	}
	feed(m, press("up"), press("up"), press("up"), press("up"))
	if got := order(); got != "210" {
		t.Errorf("at the top again: %s", got)
	}
}

// The time of the next look does not depend on how long this one took.
func TestPace(t *testing.T) {
	for took, pause := range map[time.Duration]time.Duration{0: time.Second, 300 * time.Millisecond: 700 * time.Millisecond, 5 * time.Second: shortestPause} {
		synctest.Test(t, func(t *testing.T) {
			s := active(start, 0)
			s.took = took
			cmd, began := feed(newTest(), s), time.Now()
			if msg := cmd(); msg != (next{}) || time.Since(began) != pause {
				t.Errorf("after a look of %v: %#v after %v, want %v", took, msg, time.Since(began), pause)
			}
		})
	}
}

func TestPauseAndQuit(t *testing.T) {
	m := newTest()
	feed(m, active(start, 0, time.Second), press("space"))
	lineOf(t, m, "PAUSED")
	if cmd := feed(m, active(start, 0)); cmd == nil {
		t.Error("it looks no more")
	}
	lineOf(t, m, "key0")
	feed(m, press("space"), active(start, 0))
	lineOf(t, m, "No key is held")
	looked := false
	m.look = func() tea.Msg { looked = true; return nil }
	feed(m, next{})()
	if !looked {
		t.Error("the time came, and it did not look")
	}
	if cmd := feed(m, press("q")); cmd == nil || cmd() != tea.Quit() {
		t.Error("q does not quit")
	}
}

func TestUnreachable(t *testing.T) {
	m := newTest()
	feed(m, active(start, 0, time.Second))
	s := active(start.Add(time.Second), 0)
	s.nodes[0] = adminapi.Answer[adminapi.Status]{Addr: "a0:1", Err: errors.New("a0:1: connection refused")}
	s.page.Active, s.page.Node = false, "n1:1"
	feed(m, s)
	_, l := lineOf(t, m, "unreachable")
	if !strings.Contains(l, "n0:1") || !strings.Contains(l, "connection refused") {
		t.Errorf("it should say which node that was, and why: %q", l)
	}
	lineOf(t, m, "Keys, those most waited for first, as in the copy of n1:1")
	s.page = nil
	feed(m, s)
	lineOf(t, m, "No node tells")
}

// What others chose as names can't write to the terminal, and nothing is
// wider or higher than it.
func TestFits(t *testing.T) {
	m := newTest()
	s := active(start, 0, make([]time.Duration, 100)...)
	for i := range s.page.Keys {
		s.page.Keys[i].Key = adminapi.Key(strings.Repeat("鍵", 40))
		s.page.Keys[i].Holder.Client = "evil\x1b[2J"
	}
	feed(m, s)
	if strings.Contains(m.draw(), "\x1b[2J") {
		t.Error("a client's name clears the screen")
	}
	for _, size := range []tea.WindowSizeMsg{{Width: 140, Height: 20}, {Width: 40, Height: 6}, {Width: 3, Height: 1}, {Width: 0, Height: 0}} {
		feed(m, size)
		lines := strings.Split(m.draw(), "\n")
		if len(lines) > max(size.Height, 1) {
			t.Errorf("%d lines at %v", len(lines), size)
		}
		for _, l := range lines {
			if w := lipgloss.Width(l); w > size.Width {
				t.Errorf("%d columns at %v: %q", w, size, l)
			}
		}
	}
}

// standbys is a cluster of three as a terminal has it, with keys that clients
// of this program hold.
func standbys() snapshot {
	s := snapshot{at: start, page: &adminapi.Page{Active: true, Node: "127.0.0.1:14801", Held: 2}}
	for i, role := range []string{"active", "standby", "standby"} {
		c := &adminapi.Cluster{ID: i, Role: role, Mode: "redirect", Epoch: "60500000.2", Active: 0}
		for p := range 3 {
			if lag := uint64(12345); p != i {
				c.Peers = append(c.Peers, adminapi.Peer{ID: p, Addr: fmt.Sprintf("127.0.0.1:1480%d", p+1), Reached: true, Lag: &lag})
			}
		}
		if i == 0 {
			c.Mode = "serve"
		}
		s.nodes = append(s.nodes, adminapi.Answer[adminapi.Status]{Addr: fmt.Sprintf("127.0.0.1:1481%d", i+1), Got: &adminapi.Status{
			Addr: fmt.Sprintf("127.0.0.1:1480%d", i+1), Started: start, Held: 1234, Waiting: 56789, Cluster: c,
			Counts: &adminapi.Counts{Grants: map[string]uint64{"at_once": 0}},
		}})
	}
	for i, key := range []string{"backup", "orders/eu/4711"} {
		s.page.Keys = append(s.page.Keys, adminapi.Holding{
			Key: adminapi.Key(key), Token: 259864247628988417, Waiting: 42 - i, Since: start.Add(-100 * time.Minute), Until: start.Add(30 * time.Second),
			Holder: adminapi.Who{Client: fmt.Sprintf("stile@host%d:31337", i), Gone: i == 1},
		})
	}
	return s
}

// What matters most is whole at every width; what does not fit is left out
// from what matters least on, and nothing else is cut.
func TestWidths(t *testing.T) {
	const token = "259864247628988417"
	for _, test := range []struct {
		width     int
		has, lack []string // in the whole picture
	}{
		{200, []string{"127.0.0.1:14811  127.0.0.1:14801  active", "EPOCH", "60500000.2", "EXPIRED/s", "TOKEN", token}, []string{"…"}},
		{120, []string{"127.0.0.1:14811  127.0.0.1:14801  active", "EPOCH", "EXPIRED/s", "TOKEN", token}, []string{"…"}},
		{80, []string{"127.0.0.1:14812  127.0.0.1:14802  standby", "LAG", "12345", "GRANTS/s", "HELD FOR", "1h40m0s"}, []string{"…", "EPOCH", "EXPIRED/s", "TOKEN", token}},
		{60, []string{"127.0.0.1:14812  standby", "LAG", "12345", "GRANTS/s", "HELD FOR"}, []string{"14802", "EPOCH", "EXPIRED/s", "TOKEN"}},
	} {
		m := newTest()
		feed(m, tea.WindowSizeMsg{Width: test.width, Height: 24}, standbys(), standbys())
		text := m.draw()
		has := append(test.has, "ADMIN", "127.0.0.1:14813", "ROLE", "HELD ", "1234", "WAITING", "56789", "KEY", "backup", "HOLDER", "stile", "gone", "ENDS IN", "30.0s", "42")
		if test.width > 60 {
			has = append(has, "orders/eu/4711", "stile@host0:31337", "stile@host1:31337, gone")
		}
		for _, want := range has {
			if !strings.Contains(text, want) {
				t.Errorf("%d columns: no %q in\n%s", test.width, want, text)
			}
		}
		for _, no := range test.lack {
			if strings.Contains(text, no) {
				t.Errorf("%d columns: %q is in\n%s", test.width, no, text)
			}
		}
		for _, l := range strings.Split(text, "\n") {
			if w := lipgloss.Width(l); w > test.width {
				t.Errorf("%d columns, %d are used: %q", test.width, w, l)
			}
		}
	}
}

// Columns are below each other whatever is in them.
func TestColumnsStand(t *testing.T) {
	m := newTest()
	s := standbys()
	s.page.Keys[0].Key, s.page.Keys[0].Holder.Client = "鍵/鍵", strings.Repeat("x", 100)
	s.nodes[1] = adminapi.Answer[adminapi.Status]{Addr: "127.0.0.1:14812", Err: errors.New("127.0.0.1:14812: connection refused")}
	for _, width := range []int{50, 60, 80, 120, 200} {
		feed(m, tea.WindowSizeMsg{Width: width, Height: 24}, s)
		ends := func(line, text string) int {
			before, _, found := strings.Cut(line, text)
			if !found {
				t.Errorf("%d columns: no %q in %q", width, text, line)
			}
			return lipgloss.Width(before) + len(text)
		}
		_, head := lineOf(t, m, "ENDS IN")
		_, one := lineOf(t, m, "鍵/鍵")
		_, two := lineOf(t, m, "4711")
		if at := ends(head, "ENDS IN"); ends(one, "30.0s") != at || ends(two, "30.0s") != at {
			t.Errorf("%d columns:\n%s\n%s\n%s", width, head, one, two)
		}
		if _, l := lineOf(t, m, "unreachable"); !strings.Contains(l, "unreachable  connection") {
			t.Errorf("%d columns: %q", width, l)
		}
	}
}

// The copy of a standby says so, and why it is shown.
func TestCopyOfAStandby(t *testing.T) {
	m := newTest()
	s := standbys()
	s.nodes = s.nodes[1:2]
	s.page.Active, s.page.Node = false, "127.0.0.1:14802"
	feed(m, tea.WindowSizeMsg{Width: 120, Height: 24}, s)
	lineOf(t, m, "Keys, those most waited for first, as in the copy of 127.0.0.1:14802")
	lineOf(t, m, "! no node that answered serves: the active is the node at 127.0.0.1:14801, which was not asked")
	s.nodes[0].Got.Cluster.Active = -1
	feed(m, s)
	lineOf(t, m, "! no node that answered serves, and none knows one that does; 127.0.0.1:14801 and 127.0.0.1:14803 were not asked")
}

// What is wrong has as few lines as leave room for keys, the most important
// first, and says how much more there is.
func TestProblems(t *testing.T) {
	well := strings.Split(drawn(standbys(), 80, 24), "\n")
	s := standbys()
	s.nodes[0].Got.Problems = []string{"the certificate in node.pem ends", "x\x1by"}
	s.nodes[1].Got.Problems = []string{"fewer standbys are in sync than --min-in-sync asks for"}
	for _, test := range []struct {
		height int
		want   []string
	}{
		{24, []string{
			"! 127.0.0.1:14801: the certificate in node.pem ends",
			`! 127.0.0.1:14801: "x\x1by"  (and 1 more: stile status)`,
		}},
		{48, []string{
			"! 127.0.0.1:14801: the certificate in node.pem ends",
			`! 127.0.0.1:14801: "x\x1by"`,
			"! 127.0.0.1:14802: fewer standbys are in sync than --min-in-sync asks for",
		}},
		{6, nil},
	} {
		var got []string
		key := -1
		lines := strings.Split(drawn(s, 80, test.height), "\n")
		for i, l := range lines {
			if strings.HasPrefix(l, "! ") {
				got = append(got, l)
			}
			if strings.HasPrefix(l, "backup ") {
				key = i
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%d lines: %q, want %q", test.height, got, test.want)
		}
		if test.height == 24 && (key < 0 || !strings.HasPrefix(well[key-2], "backup ")) {
			t.Errorf("the keys are pushed off by more than two lines:\n%s", strings.Join(lines, "\n"))
		}
	}
	// A long one goes on in lines that are left, and only there.
	s.nodes[1].Got.Problems = nil
	s.nodes[0].Got.Problems = []string{strings.Repeat("long ", 20) + "end"}
	if text := drawn(s, 80, 24); !strings.Contains(text, "long\n  long") || !strings.Contains(text, " end\n\n") {
		t.Errorf("\n%s", text)
	}
	// Too long for a line: how much more there is stays.
	s.nodes[1].Got.Problems = []string{"one more"}
	s.nodes[0].Got.Problems = []string{strings.Repeat("x", 100), strings.Repeat("y", 100)}
	if text := drawn(s, 80, 24); !strings.Contains(text, "xx…\n") || !strings.Contains(text, "yy…  (and 1 more: stile status)\n") {
		t.Errorf("\n%s", text)
	}
}

// drawn is a picture without colours.
func drawn(s snapshot, width, height int) string {
	m := newTest()
	feed(m, tea.WindowSizeMsg{Width: width, Height: height}, s)
	return ansi.Strip(m.draw())
}

// A silent node is not taken for one that is not there, and what it was is told.
func TestSilent(t *testing.T) {
	m := newTest()
	silent := standbys()
	silent.nodes[0] = adminapi.Answer[adminapi.Status]{Addr: "127.0.0.1:14811", Err: &adminapi.SilentError{Addr: "127.0.0.1:14811", Within: time.Second}}
	feed(m, tea.WindowSizeMsg{Width: 80, Height: 24}, silent)
	lineOf(t, m, "127.0.0.1:14811  -                silent   no answer within 1s")
	feed(m, standbys(), silent)
	lineOf(t, m, "127.0.0.1:14811  127.0.0.1:14801  silent   no answer within 1s, was active")
}

// Keys with a long beginning in common can be told apart.
func TestLongKeys(t *testing.T) {
	s := standbys()
	for i := range s.page.Keys {
		s.page.Keys[i].Key = adminapi.Key(strings.Repeat("orders/", 20) + fmt.Sprint(4711+i))
	}
	if text := drawn(s, 80, 24); !strings.Contains(text, "/4711 ") || !strings.Contains(text, "/4712 ") || strings.Count(text, "\norders/") != 2 {
		t.Errorf("\n%s", text)
	}
	s.page.Keys[0].Key = adminapi.Key(strings.Repeat("\xff", 100))
	if text := drawn(s, 80, 24); !strings.Contains(text, `\xff…\xff`) {
		t.Errorf("\n%s", text)
	}
}

// An active that refuses clients has the table, and no copy.
func TestTableOfAnActiveThatRefuses(t *testing.T) {
	m := newTest()
	s := standbys()
	s.nodes[0].Got.Cluster.Mode = "refuse"
	s.page.Active = false
	feed(m, tea.WindowSizeMsg{Width: 120, Height: 24}, s)
	lineOf(t, m, "Keys, those most waited for first, as in the table of 127.0.0.1:14801")
}
