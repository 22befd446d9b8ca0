package browser

import (
	"strings"
	"testing"
)

// What the page of a standby shows is that node's own, and says so once; that a
// peer is lost and comes back, and that the role will go back to it, is said.
func TestStandby(t *testing.T) {
	c := startCluster(t, 2, "--takeback=manual")
	const key = "orders/42"
	acquire(t, connect(t, c, "worker/0"), key)
	for i := range 5 {
		enqueue(t, c.Node(1), connect(t, c, "worker/"+string(rune('1'+i))), key, i+1)
	}
	p := open(t, newBrowser(t), c.Node(2).Admin, view(1280, 900))
	p.shows("#totals", "waiting 5", "connections to this node")
	p.shows("#list li:first-child summary", key, "5 waiting", "held for")
	p.shows("#keys-note", "in this node’s copy; the active’s page has the names")
	if summary := p.text("#list summary"); strings.Contains(summary, "known") || p.text("#list .chip") != "" {
		t.Errorf("who has no name is named: %s", summary)
	}
	p.do(click("#list li:first-child summary"))
	p.shows("#list .detail", "Held by known to the active")
	p.shows("#list .queue", "waits for", "without limit")
	if line := p.text("#list .queue"); strings.Contains(line, "known") || eval[int](p, `document.querySelectorAll('#list .queue li').length`) != 5 {
		t.Errorf("the line is %s", line)
	}
	p.picture("standby")
	p.do(click("#list li:first-child summary"))

	addr := c.Node(1).Advertise
	c.Node(1).Kill()
	p.shows("#active h2", "Node 1, "+c.Node(2).Advertise+", is active")
	p.shows("#totals", "connections")
	p.shows("#changes", "Node 0, "+addr+", is not reached any more")
	p.shows("#changes li:first-child", "This node became active")
	p.shows("#nodes li:first-child", "not reached", addr+": connection refused")
	if link := p.text("#nodes li:first-child"); strings.Contains(link, "dial") || strings.Contains(link, "->") || strings.Contains(link, "node 0") {
		t.Errorf("the link is shown as %s", link)
	}
	// Those who wait have come here; the holder does when it renews its lease.
	p.shows("#list li:first-child summary .line", "holder not known yet", "worker/1", "and 1 more")
	p.picture("taken-over")

	ok(t, c.Node(1).Start())
	p.shows("#changes li:first-child", "Node 0, "+addr+", is reached again")
	p.shows("#active-why", "node 0, of higher priority, does not get the role back by itself (--takeback manual).")
	p.picture("take-back-pending")
}
