package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// Keys that a page must show as they are, or not at all.
const (
	script   = `<img/src=x/onerror=document.title='owned'>`
	notText  = "raw\xff\x80"
	reversed = "safe\u202etxt.exe"
)

func connect(t *testing.T, c *rig.Cluster, name string) *client.Client {
	t.Helper()
	cl, err := client.Dial(t.Context(), c.Addrs(), client.Name(name), client.RetryFor(rig.Patience))
	ok(t, err)
	t.Cleanup(func() { cl.Close() })
	return cl
}

func acquire(t *testing.T, cl *client.Client, key string) *client.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lock, err := cl.Acquire(ctx, key, client.Lease(10*time.Minute))
	ok(t, err)
	return lock
}

// enqueue has a client wait for a key, and returns when it is in line.
func enqueue(t *testing.T, n *rig.Node, cl *client.Client, key string, place int) <-chan *client.Lock {
	t.Helper()
	got := make(chan *client.Lock, 1)
	go func() {
		lock, err := cl.Acquire(t.Context(), key, client.Lease(10*time.Minute))
		if err == nil {
			got <- lock
		} else if !errors.Is(err, context.Canceled) && !errors.Is(err, client.ErrClosed) {
			t.Errorf("number %d in line for %s: %v", place, key, err)
		}
	}()
	_, err := rig.Until(rig.Patience, fmt.Sprintf("%d wait", place), func() (bool, error) {
		s, err := n.Status()
		return err == nil && s.Waiting == place, nil
	})
	ok(t, err)
	return got
}

// What the pages of three nodes show while the active is killed and comes back
// is what happens.
func TestFailover(t *testing.T) {
	c := startCluster(t, 3)
	browser := newBrowser(t)
	var pages []*tab
	for _, n := range c.Nodes() {
		pages = append(pages, open(t, browser, n.Admin, view(1280, 900)))
	}
	one, two, three := pages[0], pages[1], pages[2]
	addr := func(id int) string { return c.Node(id).Advertise }
	for i, p := range pages {
		p.shows("#active h2", "Node 0, "+addr(1)+", is active")
		p.shows("#node", addr(i+1))
		p.shows("#nodes", addr(1), addr(2), addr(3), "Node 0 active", "Node 1 standby", "Node 2 standby")
		p.shows("#empty", "No key is held.")
	}
	one.shows("#active-why", "nobody else is active, and it is this node's turn")
	one.shows("#changes", "This node became active")
	two.shows("#changes", "Node 0, "+addr(1)+", is active")
	two.shows("#nodes li:nth-child(2)", "this node", "Lag none")
	one.picture("empty")

	// The line, as it is.
	const key = "orders/42"
	lock := acquire(t, connect(t, c, "worker/1"), key)
	next := enqueue(t, c.Node(1), connect(t, c, "worker/2"), key, 1)
	enqueue(t, c.Node(1), connect(t, c, "worker/3"), key, 2)
	strange := connect(t, c, "strange/1")
	for _, k := range []string{script, notText, reversed} {
		acquire(t, strange, k)
	}
	one.shows("#list li:first-child summary", key, "2 waiting", "held for", "lease ends in 9 min")
	one.shows("#list", script) // nobody waits for it, and it comes after
	one.shows("#keys-note", "most wait for, then those held for longest: 4 of 4")
	one.shows("#rates-note", "at this node, since this page has heard of it, ")
	line := func(p *tab) string { return p.text("#list li:first-child summary .chip") }
	if got := line(one); got != "worker/1\nworker/2\nworker/3" {
		t.Errorf("the line is shown as\n%s", got)
	}
	one.shows("#totals", "keys held 4", "waiting 2", "connections 4")
	one.do(click(`input[value=longest]`))
	one.shows("#list .key", key, script, "hex726177ff80", "safeU+202Etxt.exe")
	if eval[int](one, `document.querySelectorAll('main img').length`) != 0 {
		t.Error("a key became an element")
	}
	// Unfolded: all of it, the token exactly.
	one.do(click(`#list li:first-child summary`))
	token := strconv.FormatUint(lock.Token(), 10)
	one.shows("#list .detail", "Token "+token, "Held by worker/1 at 127.", "worker/2 at 127.", "without limit")
	one.picture("unfolded")
	one.do(click(`#list li:first-child summary`))

	before := statusOf(t, c.Node(1))
	// An active may take its next epoch at any time.
	epochOf := func(id int) func() []string {
		return func() []string { return []string{"Epoch " + number(statusOf(t, c.Node(id)).Cluster.Epoch)} }
	}
	one.agrees("#nodes li:first-child dl", epochOf(1))

	// The failover. A tab that is not in front draws nothing, and has its title.
	behind := open(t, browser, c.Node(2).Admin, view(1280, 900))
	behind.shows("#feed", "Live")
	eval[bool](behind, `(window.requestAnimationFrame = () => 0, true)`)
	c.Node(1).Kill()
	_, err := rig.Until(patience, "the title of a tab behind says who is active", func() (bool, error) {
		return strings.HasPrefix(eval[string](behind, `document.title`), "active · "), nil
	})
	ok(t, err)
	behind.close()
	one.shows("#lost", "Connection lost: ", "What you see is", "old", "ry")
	one.shows("#feed", "Lost, data")
	one.shows("#active h2", "Node 0, "+addr(1)+", was active")
	two.shows("#active h2", "Node 1, "+addr(2)+", is active")
	after := statusOf(t, c.Node(2))
	reign := number(after.Cluster.Place)
	if after.Role != "active" || after.Changes[0].Role != "active" || reign <= number(before.Cluster.Place) {
		t.Errorf("node 2 has %+v, and node 1 had %+v", after, before)
	}
	two.shows("#active-why", after.Cluster.Why)
	two.shows("#nodes li:nth-child(1)", "Node 0 not reached")
	two.shows("#nodes li:nth-child(2)", "Node 1 active this node")
	two.agrees("#nodes li:nth-child(2)", epochOf(2))
	two.shows("#nodes li:nth-child(3)", "Node 2 standby", "Lag none")
	two.agrees("#nodes li:nth-child(3)", epochOf(3))
	two.shows("#changes li:first-child", "This node became active: "+after.Cluster.Why, fmt.Sprintf("epoch %d", after.Changes[0].Epoch))
	three.shows("#active h2", "Node 1, "+addr(2)+", is active")
	three.shows("#changes li:first-child", "Node 1, "+addr(2)+", is active", "epoch "+reign)
	three.shows("#nodes li:nth-child(1)", "not reached")
	two.shows("#totals", "keys held 4", "waiting 2")
	two.shows("#list li:first-child summary", key, "2 waiting", "worker/2", "worker/3")
	two.do(click(`#list li:first-child summary`))
	two.shows("#list .detail", "Token "+token)
	two.picture("failover")
	one.picture("lost")

	// Life goes on, in the order of the line.
	ok(t, lock.Release(t.Context()))
	var second *client.Lock
	select {
	case second = <-next:
	case <-time.After(patience):
		t.Fatal("the first in line got nothing")
	}
	if second.Token() <= lock.Token() {
		t.Errorf("token %d after %d", second.Token(), lock.Token())
	}
	two.shows("#list .detail", fmt.Sprintf("Token %d", second.Token()), "Held by worker/2 at 127.")
	_, err = rig.Until(patience, "the line is worker/2, worker/3", func() (bool, error) { return line(two) == "worker/2\nworker/3", nil })
	ok(t, err)
	two.shows("#rates figure:nth-child(2) .axis", "most 1, in all 1")

	// It comes back, and takes its role back; its page connects by itself.
	ok(t, c.Node(1).Start())
	one.shows("#active h2", "Node 0, "+addr(1)+", is active")
	one.shows("#feed", "Live")
	if lost := one.text("#lost"); lost != "" {
		t.Errorf("it is connected again, and says: %s", lost)
	}
	one.shows("#changes li:first-child", "This node became active: it was handed the role")
	two.shows("#changes li:nth-child(2)", "This node became standby")
	two.shows("#changes li:first-child", "Node 0, "+addr(1)+", is active")
	one.shows("#list .key", key)
}

// The charts count what the node counts.
func TestRates(t *testing.T) {
	c := startCluster(t, 3)
	n := c.Node(1)
	p := open(t, newBrowser(t), n.Admin, view(1100, 800))
	p.shows("#rates figure:nth-child(1) .axis", "in all 0")
	p.shows("#feed", "Live")
	length := 3 * time.Second
	if *screenshots != "" {
		length = 45 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var load sync.WaitGroup
	for i := range 8 {
		name := fmt.Sprintf("%s/%d", []string{"billing", "shipping", "web"}[i%3], i)
		cl := connect(t, c, name)
		load.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				lock, err := cl.Acquire(ctx, fmt.Sprintf("orders/%d", 40+rand.IntN(4)), client.Lease(10*time.Second))
				if err != nil {
					continue // the time is over
				}
				time.Sleep(time.Duration(rand.IntN(40*(turn%80+5))) * time.Millisecond / 10)
				if err := lock.Release(t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	// Somebody who dies again and again, and is cleaned up after.
	forgetful := connect(t, c, "report/1")
	acquire(t, connect(t, c, "report/2"), "reports/daily")
	for ctx.Err() == nil {
		lock, err := forgetful.Acquire(ctx, "cache/refresh", client.Lease(500*time.Millisecond))
		if err == nil {
			p.shows("#feed", "Live")
			<-lock.Context().Done()
		}
	}
	p.picture("live")
	load.Wait()
	// Once all is quiet the page has the numbers of the node.
	var s status
	_, err := rig.Until(rig.Patience, "all leases have ended but one", func() (bool, error) {
		s = statusOf(t, n)
		return s.Held == 1, nil
	})
	ok(t, err)
	for i, want := range []int{s.Counts.Grants.Immediate + s.Counts.Grants.HandedOver, s.Counts.Grants.HandedOver, s.Counts.GrantsEnded.Expired} {
		if want == 0 {
			t.Errorf("there were none of number %d: this test is of no use", i)
		}
		p.shows(fmt.Sprintf("#rates figure:nth-child(%d) .axis", i+1), fmt.Sprintf("in all %s now", thousands(want)))
	}
}

// A node beyond loopback asks for its secret, and so does the page.
func TestSecret(t *testing.T) {
	c := startNode(t)
	n := c.Node(1)
	_, port, err := net.SplitHostPort(n.Admin)
	ok(t, err)
	ok(t, n.Start("--admin=0.0.0.0:"+port, "--admin-secret-file="+secretFile(t, "für-Admins")))
	p := open(t, newBrowser(t), "127.0.0.1:"+port, view(800, 700))
	p.shows("#auth", "asks for a secret")
	p.shows("#feed", "Secret needed")
	p.picture("secret")
	// The field has the focus.
	p.do(chromedp.KeyEvent("wrong" + kb.Enter))
	p.shows("#auth-error", "The admin secret is another one.")
	p.do(chromedp.KeyEvent("für-Admins" + kb.Enter))
	p.shows("#active h2", "is active")
	if text := p.text("#auth"); text != "" {
		t.Errorf("it still asks: %s", text)
	}
	// /keys needs it too.
	acquire(t, connect(t, c, "a"), "door")
	p.do(click("input[value=key]"), enter("#prefix", "doo"))
	p.shows("#list .key", "door")
}

// startNode chooses the address of a node alone.
func startNode(t *testing.T) *rig.Cluster {
	t.Helper()
	c, err := rig.New(rig.Options{Binary: stiled, Nodes: 1, Dir: t.TempDir(), Flags: []string{"--boot-grace=100ms"}})
	ok(t, err)
	t.Cleanup(c.Close)
	return c
}

// Many keys with long names and long lines, on a phone and in the dark, with
// the keyboard alone.
func TestManyKeys(t *testing.T) {
	c := startNode(t)
	n := c.Node(1)
	ok(t, n.Start("--admin-secret-file="+secretFile(t, "for-admins")))
	cl := connect(t, c, "importer-of-all-orders-of-the-north/17")
	var locks []*client.Lock
	for i := range 130 {
		locks = append(locks, acquire(t, cl, long(i)))
	}
	for i := range 40 {
		acquire(t, cl, fmt.Sprintf("users/%d", i))
	}
	waiters := 0
	for i := range 12 {
		w, err := rig.Dial(n.Advertise)
		ok(t, err)
		defer w.Close()
		_, err = w.Ask(rig.Patience, "H 1 billing-%d.example/%d", i, i)
		ok(t, err)
		for k := range 30 - i {
			ok(t, w.Send("A %s 0 600", long(k)))
			waiters++
		}
		_, err = w.Ask(rig.Patience, "P in-step") // they are in line before the next one's
		ok(t, err)
	}
	for range 300 {
		w, err := rig.Dial(n.Advertise)
		ok(t, err)
		defer w.Close()
		ok(t, w.Send("A orders/0000/ 600 600"))
		waiters++
	}
	_, err := rig.Until(rig.Patience, "all wait", func() (bool, error) {
		s, err := n.Status()
		return err == nil && s.Waiting == waiters, nil
	})
	ok(t, err)

	browser := newBrowser(t)
	p := open(t, browser, n.Admin, view(1280, 900))
	p.shows("#list li:first-child summary", "orders/0000/", "312 waiting", "billing-0.example/0", "and 308 more")
	p.shows("#keys-note", "20 of 170")
	// Lists by prefix, and page by page.
	count := func(p *tab) int { return eval[int](p, `document.querySelectorAll('#list > li').length`) }
	p.do(enter("#prefix", "users/3"), click(`input[value=longest]`))
	p.shows("#keys-note", "11 of 170")
	if got := p.text("#list .key"); !strings.HasPrefix(got, "users/3\nusers/30\nusers/31") || count(p) != 11 {
		t.Errorf("those that begin with users/3:\n%s", got)
	}
	p.do(click(`input[value=busiest]`))
	p.shows("#empty", "Nobody waits for a key with this beginning.")
	p.do(enter("#prefix", "xx"), click(`input[value=key]`))
	p.shows("#empty", "No key with this beginning is held.")
	p.do(enter("#prefix", "o"))
	p.shows("#keys-note", "50 of 170")
	for _, first := range []string{"orders/0050/", "orders/0100/"} {
		p.do(click("#next"))
		p.shows("#list li:first-child .key", first)
	}
	p.shows("#keys-note", "30 of 170")
	p.do(click("#first"))
	p.shows("#list li:first-child .key", "orders/0000/")
	// In hex, and if that is none.
	p.do(click("#hex"))
	p.shows("#filter-error", "“o” is no hexadecimal number: with “hex” on, give two digits")
	p.shows("#empty", "No key is looked for.")
	p.do(enter("#prefix", "757"))
	p.shows("#filter-error", "A digit is missing: each byte has two.")
	p.do(enter("#prefix", "7573"))
	p.shows("#list li:first-child .key", "users/0")
	if got := p.text("#filter-error"); got != "" {
		t.Errorf("all is well, and it says %s", got)
	}

	// A lock is broken elsewhere: the list of changes says it.
	broken := fmt.Sprintf(`{"key":%q,"token":%d}`, long(5), locks[5].Token())
	req, err := http.NewRequest("POST", "http://"+n.Admin+"/break", strings.NewReader(broken))
	ok(t, err)
	req.Header.Set("Authorization", "Bearer for-admins")
	resp, err := http.DefaultClient.Do(req)
	ok(t, err)
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	p.shows("#changes li:first-child", "Broken by hand: orders/0005/a-long", strconv.FormatUint(locks[5].Token(), 10), "importer-of-all")

	// The address has what is looked for: it outlives a reload, and can be sent.
	for _, f := range []struct {
		actions              []action
		query, order, prefix string
		hex                  bool
	}{
		{nil, "?order=key&prefix_hex=7573", "key", "7573", true},
		{[]action{click("#hex"), enter("#prefix", "users/3"), click("input[value=longest]")}, "?order=longest&prefix=users%2F3", "longest", "users/3", false},
		{[]action{enter("#prefix", " "), click("input[value=busiest]")}, "", "busiest", "", false},
	} {
		p.do(f.actions...)
		waitFor(p, `location.search === `+strconv.Quote(f.query))
		p.do(chromedp.Reload())
		p.shows("#feed", "Live")
		want := fmt.Sprintf("%s %s %v", f.order, f.prefix, f.hex)
		if got := eval[string](p, "[new FormData(filter).get('order'), prefix.value, hex.checked].join(' ')"); got != want {
			t.Errorf("after a reload of %q: %q, want %q", f.query, got, want)
		}
		if f.prefix != "" {
			p.shows("#list li:first-child .key", "users/")
		}
	}
	// What is none of it harms nobody.
	p.do(chromedp.Navigate("http://" + n.Admin + "/?order=%3Cb%3E&prefix_hex=zz&x=1#keys"))
	p.shows("#filter-error", "“zz” is no hexadecimal number")
	p.close()

	// With the keyboard alone: from the top to the order, to a key, into it. What
	// has the focus keeps it while the list moves.
	p = open(t, browser, n.Admin, view(1280, 900, dark...))
	p.shows("#list li:first-child summary", "312 waiting")
	p.do(chromedp.KeyEvent(kb.Tab + kb.Enter)) // skips to the keys
	p.do(chromedp.KeyEvent(kb.Tab + kb.ArrowRight))
	p.shows("#keys-note", "held for longest")
	at := `(e => e.id || e.value || e.tagName + (e.checkVisibility() && e.matches(':focus-visible') ? ' seen' : ''))(document.activeElement)`
	p.do(chromedp.KeyEvent(kb.ArrowLeft + kb.Tab + kb.Tab + kb.Tab))
	if focus := eval[string](p, at); focus != "SUMMARY seen" {
		t.Errorf("the focus is at %s", focus)
	}
	p.do(chromedp.KeyEvent(kb.Enter))
	p.shows("#list [open] .detail", fmt.Sprintf("Token %d", locks[0].Token()), "billing-11.example/11", "gives up in 9 min", "and 112 more in line")
	p.picture("many-dark")
	ok(t, locks[0].Release(t.Context()))
	p.shows("#list [open] .detail", "Held by billing-0.example/0")
	if focus := eval[string](p, at); focus != "SUMMARY seen" {
		t.Errorf("the focus has moved to %s", focus)
	}
	p.do(chromedp.KeyEvent(kb.Enter))

	// Nothing moves where that is asked for, and while it is paused.
	p = open(t, browser, n.Admin, view(1280, 900, "prefers-reduced-motion", "reduce"))
	p.shows("#feed", "Live")
	if names := eval[string](p, `getComputedStyle(document.getElementById('lamp')).animationName`); names != "none" {
		t.Errorf("the animation %s runs", names)
	}
	p.shows("#list li:first-child summary", "311 waiting")
	p.picture("many")
	if !eval[bool](p, above("#charts", "#keys")) {
		t.Error("the charts are not above the keys, where there is room")
	}
	p.do(click("#pause"))
	p.shows("#feed", "Paused, data")
	was := p.text("#list")
	p.shows("#feed", "Paused, data 2")
	if got := p.text("#list"); got != was {
		t.Error("it is paused, and changes")
	}
	p.do(click("#pause"))
	p.shows("#feed", "Live")

	// On a phone nothing is wider than the screen.
	for name, look := range map[string]action{"phone": view(360, 740), "phone-dark": view(360, 740, dark...)} {
		p := open(t, browser, n.Admin, look)
		p.shows("#list li:first-child summary", "311 waiting")
		p.do(click(`#list li:nth-child(3) summary`))
		p.shows("#list [open] .detail", "billing-2.example/2")
		if !eval[bool](p, above("#keys", "#changes")+`&&`+above("#changes", "#charts")) {
			t.Error("the keys are not above the changes and the charts")
		}
		wide := eval[[]string](p, `document.documentElement.scrollWidth <= 360 ? [] : [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > 360).map(e => e.outerHTML.slice(0, 100))`)
		if len(wide) > 0 {
			t.Errorf("wider than the screen: %s", strings.Join(wide, "\n"))
		}
		// Keys that differ only at their ends are told apart.
		if cut := eval[[]string](p, `[...document.querySelectorAll('#list .key')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent)`); len(cut) > 0 {
			t.Errorf("keys that are not shown whole: %s", strings.Join(cut, "\n"))
		}
		p.picture(name)
	}

	// A lock outlives the connection of its holder.
	ok(t, cl.Close())
	p = open(t, browser, n.Admin, view(1280, 900))
	const gone = "#list li:nth-child(3) summary .chip.holder"
	p.shows(gone, "importer-of-all")
	if got := eval[string](p, `(e => e.title + ', ' + getComputedStyle(e).outlineStyle)(document.querySelector(`+strconv.Quote(gone)+`))`); got != "holds it, though its connection has ended, dashed" {
		t.Errorf("the holder that is gone is shown as: %s", got)
	}
	p.picture("gone")
	p.do(click(`#list li:nth-child(3) summary`))
	p.shows("#list [open] .detail", "Held by importer-of-all-orders-of-the-north/17 at 127.0.0.1:", "its connection has ended")
}

// above is a script that tells whether an element is above another one.
func above(one, other string) string {
	bottom := `document.querySelector(` + strconv.Quote(one) + `).getBoundingClientRect().bottom`
	return bottom + ` <= document.querySelector(` + strconv.Quote(other) + `).getBoundingClientRect().top`
}

// waitFor waits until a script is true.
func waitFor(p *tab, script string) {
	p.t.Helper()
	_, err := rig.Until(patience, script, func() (bool, error) { return eval[bool](p, script), nil })
	ok(p.t, err)
}

// long is the name of key number i.
func long(i int) string {
	return fmt.Sprintf("orders/%04d/%s", i, strings.Repeat("a-long-name-", i%16))
}

// status is what a node says of itself, beyond what the rig asks for.
type status struct {
	Role, Addr string
	Held       int
	Counts     struct {
		Grants struct {
			Immediate  int
			HandedOver int `json:"handed_over"`
		}
		GrantsEnded struct{ Expired int } `json:"grants_ended"`
	}
	Cluster struct{ Why, Epoch, Place string }
	Changes []struct {
		Kind, Role, Why string
		Epoch           int
	}
}

func statusOf(t *testing.T, n *rig.Node) (s status) {
	t.Helper()
	resp, err := http.Get("http://" + n.Admin + "/status")
	ok(t, err)
	defer resp.Body.Close()
	ok(t, json.NewDecoder(resp.Body).Decode(&s))
	return s
}

// number is that of an epoch, or of the reign of a place.
func number(epoch string) string {
	n, _, _ := strings.Cut(epoch, ".")
	return n
}

// thousands is a number as the page writes it.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

func secretFile(t *testing.T, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	ok(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	return file
}
