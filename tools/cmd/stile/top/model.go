package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/stile-lock/stile/tools/cmd/stile/adminapi"
	"github.com/stile-lock/stile/tools/cmd/stile/shown"
)

// snapshot is what one look has found.
type snapshot struct {
	at    time.Time
	took  time.Duration
	nodes []adminapi.Answer[adminapi.Status]
	page  *adminapi.Page // nil: nobody told
}

// shortestPause is between two looks.
const shortestPause = 50 * time.Millisecond

// next is the time for another look.
type next struct{}

type order uint8

const (
	byWaiting order = iota
	byAge
)

// model is the state of the view. It changes by messages only.
type model struct {
	every time.Duration
	look  func() tea.Msg

	width, height int
	now, before   *snapshot
	rates         map[string]rate // by admin address
	lastSeen      map[string]*adminapi.Status
	order         order
	paused        bool
	top           int // the first key that is shown
}

// rate is of one node, per second.
type rate struct{ grants, ended, expired, keeps float64 }

func newModel(every time.Duration, look func() tea.Msg) *model {
	return &model{every: every, look: look, width: 80, height: 24, lastSeen: map[string]*adminapi.Status{}}
}

// Init begins with a look.
func (m *model) Init() tea.Cmd { return m.look }

// Update takes a message in.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		case "w":
			m.order, m.top = byWaiting, 0
		case "h":
			m.order, m.top = byAge, 0
		case "space", "p":
			m.paused = !m.paused
		case "down", "j":
			m.top++
		case "up", "k":
			m.top--
		case "pgdown":
			m.top += m.height / 2
		case "pgup":
			m.top -= m.height / 2
		case "home", "g":
			m.top = 0
		}
		m.clampTop()
	case snapshot:
		if !m.paused {
			m.take(&msg)
		}
		// Who does not answer makes a look long, and no pause longer.
		return m, tea.Tick(max(m.every-msg.took, shortestPause), func(time.Time) tea.Msg { return next{} })
	case next:
		return m, m.look
	}
	return m, nil
}

func (m *model) keys() int {
	if m.now == nil || m.now.page == nil {
		return 0
	}
	return len(m.now.page.Keys)
}

func (m *model) clampTop() { m.top = max(0, min(m.top, m.keys()-1)) }

// take makes a snapshot the present one.
func (m *model) take(s *snapshot) {
	m.before, m.now = m.now, s
	m.rates = map[string]rate{}
	for _, n := range s.nodes {
		if n.Got == nil {
			continue
		}
		m.lastSeen[n.Addr] = n.Got
		if m.before == nil {
			continue
		}
		for _, b := range m.before.nodes {
			// A node that was started again counts from 0.
			if b.Addr != n.Addr || b.Got == nil || !b.Got.Started.Equal(n.Got.Started) || b.Got.Counts == nil || n.Got.Counts == nil {
				continue
			}
			took := s.at.Sub(m.before.at).Seconds()
			if took <= 0 {
				continue
			}
			per := func(now, before uint64) float64 { return float64(now-min(now, before)) / took }
			nc, bc := n.Got.Counts, b.Got.Counts
			m.rates[n.Addr] = rate{
				grants:  per(sum(nc.Grants), sum(bc.Grants)),
				ended:   per(sum(nc.GrantsEnded), sum(bc.GrantsEnded)),
				expired: per(nc.GrantsEnded["expired"], bc.GrantsEnded["expired"]),
				keeps:   per(nc.Keeps, bc.Keeps),
			}
		}
	}
	if p := s.page; p != nil {
		slices.SortStableFunc(p.Keys, func(a, b adminapi.Holding) int {
			return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), a.Since.Compare(b.Since))
		})
	}
	m.clampTop()
}

func sum(counts map[string]uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

var (
	bold  = lipgloss.NewStyle().Bold(true)
	faint = lipgloss.NewStyle().Faint(true)
	green = lipgloss.NewStyle().Foreground(lipgloss.Color("2"))
	red   = lipgloss.NewStyle().Foreground(lipgloss.Color("1"))
)

// View draws the state.
func (m *model) View() tea.View {
	v := tea.NewView(m.draw())
	v.AltScreen = true
	v.WindowTitle = "stile top"
	return v
}

func (m *model) draw() string {
	var lines []string
	add := func(style lipgloss.Style, format string, args ...any) {
		lines = append(lines, style.Render(shown.CutEnd(fmt.Sprintf(format, args...), m.width)))
	}
	plain := lipgloss.NewStyle()
	if m.now == nil {
		add(plain, "stile top: asking the nodes…")
		return strings.Join(lines, "\n")
	}
	state := "every " + m.every.String()
	if m.paused {
		state = "PAUSED, space goes on"
	}
	add(bold, "stile top  %s  (%s)", m.now.at.Format("15:04:05"), state)
	add(plain, "")
	m.drawNodes(add)
	m.drawProblems(add)
	add(plain, "")
	if m.now.page == nil {
		add(red, "No node tells of its keys.")
	} else {
		m.drawKeys(add)
	}
	// The last line is for help, whatever the height.
	const help = "q quit  w busiest  h held longest  space stop  ↑↓ move"
	body := lines
	if m.height < 2 {
		return body[0]
	}
	if room := m.height - 1; len(body) > room {
		body = body[:room]
	}
	for len(body) < m.height-1 {
		body = append(body, "")
	}
	return strings.Join(append(body, faint.Render(shown.CutEnd(help, m.width))), "\n")
}

// drawNodes draws a line for each node. An address and what a node has to do
// matter most.
func (m *model) drawNodes(add func(style lipgloss.Style, format string, args ...any)) {
	g := &grid{columns: []column{
		{name: "ADMIN", flexible: true},
		{name: "NODE", flexible: true, spare: true, rank: 5},
		{name: "ROLE"},
		{name: "EPOCH", spare: true, rank: 7},
		{name: "LAG", right: true, rank: 3},
		{name: "HELD", right: true, rank: 1},
		{name: "WAITING", right: true, rank: 2},
		{name: "GRANTS/s", right: true, rank: 4},
		{name: "EXPIRED/s", right: true, spare: true, rank: 6},
	}}
	for _, n := range m.now.nodes {
		if n.Got == nil {
			addr := "-"
			if last := m.lastSeen[n.Addr]; last != nil {
				addr = shown.Text(last.Addr)
			}
			role, tail := "unreachable", strings.TrimPrefix(n.Err.Error(), n.Addr+": ")
			if adminapi.Silent(n.Err) {
				role, tail = "silent", tail+m.lastRole(n.Addr)
			}
			g.rows = append(g.rows, row{style: red, cells: cells(n.Addr, addr, role), tail: shown.Text(tail)})
			continue
		}
		s := n.Got
		epoch := strconv.FormatUint(s.Epoch, 10)
		if s.Cluster != nil {
			epoch = s.Cluster.Epoch
		}
		grants, expired := "-", "-"
		if r, ok := m.rates[n.Addr]; ok {
			grants, expired = fmt.Sprintf("%.0f", r.grants), fmt.Sprintf("%.1f", r.expired)
		}
		style := lipgloss.NewStyle()
		if s.Serves() {
			style = green
		}
		g.rows = append(g.rows, row{
			style: style,
			cells: cells(n.Addr, shown.Text(s.Addr), shown.Text(s.RoleName()), shown.Text(epoch), m.lag(s), strconv.Itoa(s.Held), strconv.Itoa(s.Waiting), grants, expired),
		})
	}
	g.draw(m.width, 0, func(style lipgloss.Style, text string) { add(style, "%s", text) })
}

// lastRole says what a node was when it last told.
func (m *model) lastRole(admin string) string {
	last := m.lastSeen[admin]
	if last == nil {
		return ""
	}
	return ", was " + last.RoleName()
}

// drawProblems draws what is wrong, but for the errors that the lines of the
// nodes have, in as few lines as leave room for keys: one for each problem, and
// what is left of them for those that are longer.
func (m *model) drawProblems(add func(style lipgloss.Style, format string, args ...any)) {
	p := adminapi.ProblemsOf(m.now.nodes)
	wrong := slices.Concat(p.Cluster, p.Nodes, p.Links)
	most := max(1, m.height/12)
	spare := max(0, most-len(wrong))
	for i, text := range wrong[:min(most, len(wrong))] {
		text, more := "! "+text, ""
		if left := len(wrong) - most; i == most-1 && left > 0 {
			more = fmt.Sprintf("  (and %d more: stile status)", left)
		}
		for ; spare > 0 && shown.Width(text) > m.width; spare-- {
			first, _, _ := strings.Cut(ansi.Wrap(text, m.width, ""), "\n")
			add(red, "%s", first)
			text = "  " + strings.TrimSpace(text[len(first):])
		}
		add(red, "%s", shown.CutEnd(text, m.width-shown.Width(more))+more)
	}
}

// lag is how far a standby is behind, as the active says.
func (m *model) lag(of *adminapi.Status) string {
	if of.Cluster == nil || of.Cluster.Role == "active" {
		return "-"
	}
	for _, n := range m.now.nodes {
		if n.Got == nil || n.Got.Cluster == nil || n.Got.Cluster.Role != "active" { // whether or not it serves now
			continue
		}
		for _, p := range n.Got.Cluster.Peers {
			if p.ID == of.Cluster.ID && p.Lag != nil {
				return strconv.FormatUint(*p.Lag, 10)
			}
		}
	}
	return "?"
}

func (m *model) drawKeys(add func(style lipgloss.Style, format string, args ...any)) {
	p := m.now.page
	keys := p.Keys
	if m.order == byAge {
		keys = slices.Clone(keys)
		slices.SortStableFunc(keys, func(a, b adminapi.Holding) int { return a.Since.Compare(b.Since) })
	}
	title, style := "Keys, those most waited for first", bold
	if m.order == byAge {
		title = "Keys, those held longest first"
	}
	if p.Held > len(keys) {
		title += fmt.Sprintf(" (%d of %d)", len(keys), p.Held)
	}
	if !p.Active {
		// Why, the problems say.
		of := ", as in the copy of "
		if m.isActive(p.Node) { // and has the table, but serves nobody now
			of = ", as in the table of "
		}
		title, style = title+of+shown.Text(p.Node), bold.Inherit(red)
	}
	add(style, "%s", title)
	g := &grid{columns: []column{
		{name: "KEY", flexible: true},
		{name: "HOLDER", flexible: true},
		{name: "HELD FOR", right: true, rank: 3},
		{name: "ENDS IN", right: true, rank: 1},
		{name: "WAITING", right: true, rank: 2},
		{name: "TOKEN", spare: true, rank: 4},
	}}
	for _, h := range keys {
		g.rows = append(g.rows, row{cells: append([]cell{{text: shown.Text(string(h.Key))}, holder(h.Holder)}, cells(
			age(m.now.at.Sub(h.Since)), age(h.Until.Sub(m.now.at)), strconv.Itoa(h.Waiting), strconv.FormatUint(h.Token, 10))...)})
	}
	g.draw(m.width, m.top, func(style lipgloss.Style, text string) { add(style, "%s", text) })
	if len(keys) == 0 {
		add(lipgloss.NewStyle(), "No key is held.")
	}
}

// isActive reports whether the node with this address is active, whether or not
// it serves.
func (m *model) isActive(addr string) bool {
	return slices.ContainsFunc(m.now.nodes, func(n adminapi.Answer[adminapi.Status]) bool {
		return n.Got != nil && n.Got.Addr == addr && n.Got.Cluster != nil && n.Got.Cluster.Role == "active"
	})
}

func holder(w adminapi.Who) cell {
	c := cell{text: shown.Text(cmp.Or(w.Client, w.Addr, "-"))}
	if w.Gone {
		c.end = ", gone"
	}
	return c
}

func age(d time.Duration) string {
	d = max(d, 0)
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
