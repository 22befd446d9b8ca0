package cli

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/stile-lock/stile/tools/cmd/stile/adminapi"
	"github.com/stile-lock/stile/tools/cmd/stile/shown"
)

type statusCommand struct {
	JSON bool `help:"Print what each node says as JSON."`
}

// Help is shown by --help, and in the man page.
func (*statusCommand) Help() string {
	return `Each node of --admin is asked, and listed with what it says of itself; then what each says of the others. Give the admin addresses of all nodes, and those that do not answer are seen, too.

READY is what /readyz says: a standby is ready when it has the whole table. IN SYNC is there in sync mode: whether answers of the active wait for that standby.

Exit status: 0 if all nodes of --admin answered and are ready, one of them serves, and nothing else is wrong; 1 if something is (it says what), 122 if none answered, 125 if they refuse to. So where nodes are restarted one after the other, it says before each one whether to go on.`
}

func (k *statusCommand) Run(a *app) error {
	api, err := a.admin()
	if err != nil {
		return err
	}
	nodes := adminapi.All(a.ctx, api, api.Status)
	if k.JSON {
		type node struct {
			Admin  string           `json:"admin"`
			Error  string           `json:"error,omitempty"`
			Status *adminapi.Status `json:"status,omitempty"`
		}
		list := make([]node, len(nodes))
		for i, n := range nodes {
			list[i] = node{Admin: n.Addr, Status: n.Got}
			if n.Err != nil {
				list[i].Error = n.Err.Error()
			}
		}
		if err := a.json(struct {
			Nodes    []node   `json:"nodes"`
			Problems []string `json:"problems"`
		}{list, adminapi.ProblemsOf(nodes).All()}); err != nil {
			return err
		}
	} else {
		a.showStatus(nodes)
	}
	return a.judge(nodes, !k.JSON)
}

// judge is the exit status for what the nodes said.
func (a *app) judge(nodes []adminapi.Answer[adminapi.Status], tell bool) error {
	if !slices.ContainsFunc(nodes, func(n adminapi.Answer[adminapi.Status]) bool { return n.Got != nil }) {
		return noNode(nodes)
	}
	wrong := adminapi.ProblemsOf(nodes).All()
	if len(wrong) == 0 {
		return nil
	}
	if tell {
		fmt.Fprintln(a.Out)
		for _, p := range wrong {
			fmt.Fprintln(a.Out, a.styles.bad("! "+p))
		}
	}
	return &exitError{status: ExitUnwell}
}

// noNode is the error when no admin server could be asked.
func noNode[T any](answers []adminapi.Answer[T]) error {
	var errs []error
	for _, n := range answers {
		var e *adminapi.Error
		if errs = append(errs, n.Err); errors.As(n.Err, &e) {
			return failed(ExitFailure, "%s", lines(errs, "")) // it was there, and refused
		}
	}
	status, hint := adminHint(errs)
	return failed(status, "no node could be asked:\n  %s\n%s", lines(errs, "  "), hint)
}

func lines(errs []error, indent string) string {
	var texts []string
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "\n"+indent)
}

// adminHint is the status, and what to do, when no admin server could be
// asked. One that is there, but not as the settings say, makes it their fault.
func adminHint(errs []error) (status int, hint string) {
	for _, err := range errs {
		var certificate *tls.CertificateVerificationError
		var other *adminapi.SettingsError
		switch {
		case errors.As(err, &certificate):
			return ExitFailure, certificateHint(certificate, "the nodes' certificates", "--admin")
		case errors.As(err, &other):
			return ExitFailure, "The text says what to change; --admin or STILE_ADMIN_ADDRS has the addresses."
		}
	}
	if !slices.ContainsFunc(errs, func(err error) bool { return !adminapi.Silent(err) }) {
		return ExitNoServer, "Does the process or its machine stand still, or does the network drop what is sent? Or are --admin or STILE_ADMIN_ADDRS wrong?"
	}
	return ExitNoServer, "Is a node running, and are --admin or STILE_ADMIN_ADDRS right? It is what nodes were given as --admin, not what clients use."
}

func (a *app) showStatus(nodes []adminapi.Answer[adminapi.Status]) {
	t := newTable("ADMIN", "NODE", "ROLE", "CLIENTS ARE", "READY", "EPOCH", "HELD", "WAITING", "CONNECTIONS", "UP", "VERSION")
	var paint []func(string) string
	plain := func(s string) string { return s }
	for _, n := range nodes {
		if n.Err != nil {
			role := "unreachable"
			if adminapi.Silent(n.Err) {
				role = "no answer"
			}
			t.row([]string{n.Addr, "-", role})
			paint = append(paint, a.styles.bad)
			continue
		}
		s := n.Got
		epoch, mode := strconv.FormatUint(s.Epoch, 10), "served"
		if c := s.Cluster; c != nil {
			epoch, mode = c.Epoch, c.ClientsAre()
		}
		ready := "-"
		if s.Ready != nil {
			ready = yesNo(*s.Ready)
		}
		t.row([]string{
			n.Addr, s.Addr, s.RoleName(), mode, ready, epoch, strconv.Itoa(s.Held), strconv.Itoa(s.Waiting),
			strconv.Itoa(s.Connections), short(time.Since(s.Started)), shown.Text(s.Version),
		})
		if s.Serves() {
			paint = append(paint, a.styles.good)
		} else {
			paint = append(paint, plain)
		}
	}
	for i, line := range t.lines() {
		if i == 0 {
			line = a.styles.head(line)
		} else {
			line = paint[i-1](line)
		}
		fmt.Fprintln(a.Out, line)
	}
	columns := []string{"SAYS", "OF", "ROLE", "REACHED", "FED", "LAG", "SILENT FOR"}
	sync := slices.ContainsFunc(nodes, func(n adminapi.Answer[adminapi.Status]) bool {
		return n.Got != nil && n.Got.Cluster != nil && n.Got.Cluster.Sync
	})
	if sync {
		columns = append(columns, "IN SYNC")
	}
	peers := newTable(columns...)
	any := false
	for _, n := range nodes {
		if n.Got == nil || n.Got.Cluster == nil {
			continue
		}
		for _, p := range n.Got.Cluster.Peers {
			any = true
			lag, silent := "-", "-"
			if p.Lag != nil {
				lag = strconv.FormatUint(*p.Lag, 10)
			}
			if p.Silent != nil {
				silent = short(time.Duration(*p.Silent * float64(time.Second)))
			}
			cells := []string{n.Got.Addr, p.Addr, p.Role, yesNo(p.Reached), yesNo(p.Fed), lag, silent}
			if sync {
				inSync := "-" // only the active has answers wait
				if c := n.Got.Cluster; c.Sync && c.Role == "active" {
					inSync = yesNo(slices.Contains(c.InSync, p.ID))
				}
				cells = append(cells, inSync)
			}
			peers.row(cells)
		}
	}
	if any {
		fmt.Fprintln(a.Out)
		for i, line := range peers.lines() {
			if i == 0 {
				line = a.styles.head(line)
			}
			fmt.Fprintln(a.Out, line)
		}
	}
	for _, n := range nodes {
		if n.Got != nil && n.Got.Cluster != nil && n.Got.Cluster.Why != "" {
			if !any {
				continue
			}
			fmt.Fprintf(a.Out, "\n%s is %s: %s", n.Got.Addr, n.Got.RoleName(), shown.Text(n.Got.Cluster.Why))
		}
	}
	if any {
		fmt.Fprintln(a.Out)
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

type keysCommand struct {
	Prefix  string `arg:"" optional:"" help:"Only keys that begin with this."`
	Limit   int    `default:"1000" help:"At most so many keys (${default})."`
	Waiters int    `default:"10" help:"Name at most so many of those who wait for each (${default})."`
	JSON    bool   `help:"Print them as JSON."`
}

// Help is shown by --help, and in the man page.
func (*keysCommand) Help() string {
	return `The active node is asked. If none is, or --admin does not have it, a standby tells what it knows, which is all but who the holders are.

"gone" after an address: that connection has ended, as that of stile acquire has; the lock is held all the same. A dash: the node does not know the holder yet. After a failover it does once the holder renews its lease.

Keys are whole always. On a terminal, one that is too long for its column has a line of its own, and long names are cut; in a pipe, and with --json, names are whole, too.`
}

// Most that one page of the admin server has, and names of those who wait.
const (
	maxPage    = 10_000
	maxWaiters = 1000
)

func (k *keysCommand) Run(a *app) error {
	if k.Limit < 1 {
		return failed(ExitFailure, "--limit %d is too low: want 1 or more", k.Limit)
	}
	if k.Waiters < 0 || k.Waiters > maxWaiters {
		return failed(ExitFailure, "--waiters %d is out of range: want 0 to %d", k.Waiters, maxWaiters)
	}
	api, err := a.admin()
	if err != nil {
		return err
	}
	q := adminapi.Query{Prefix: k.Prefix, Limit: min(k.Limit, maxPage), Waiters: k.Waiters}
	b, pages, err := best(a.ctx, api, q)
	if err != nil {
		return err
	}
	page, addr, at := b.Got, b.Addr, b.At
	keys := page.Keys
	for page.More() && len(keys) < k.Limit {
		q.Limit = min(k.Limit-len(keys), maxPage)
		more, err := api.Keys(a.ctx, addr, q.After(page))
		if err != nil {
			return err
		}
		page, keys, at = more, append(keys, more.Keys...), time.Now()
	}
	if k.JSON {
		if keys == nil {
			keys = []adminapi.Holding{}
		}
		return a.json(struct {
			Node    string             `json:"node"`
			Active  bool               `json:"active"`
			Held    int                `json:"held"`
			Waiting int                `json:"waiting"`
			More    bool               `json:"more"`
			Keys    []adminapi.Holding `json:"keys"`
		}{page.Node, page.Active, page.Held, page.Waiting, page.More(), keys})
	}
	a.showKeys(keys, at)
	if !page.Active {
		a.warn("%s", a.copyOf(api, page.Node, pages))
	}
	if page.More() {
		a.warn("there are more keys: give a longer PREFIX, or --limit")
	}
	return nil
}

// copyOf says why a listing is the copy of a standby: what is known of each
// node. The nodes that told of their keys are asked once more; those that did
// not are not waited for again.
func (a *app) copyOf(api *adminapi.Client, node string, pages []adminapi.Answer[adminapi.Page]) string {
	failed := map[string]error{}
	for _, p := range pages {
		if p.Err != nil {
			failed[p.Addr] = p.Err
		}
	}
	nodes := adminapi.All(a.ctx, api, func(ctx context.Context, addr string) (*adminapi.Status, error) {
		if err := failed[addr]; err != nil {
			return nil, err
		}
		return api.Status(ctx, addr)
	})
	text := "this is the copy of " + shown.Text(node)
	for _, n := range nodes {
		if n.Got == nil || n.Got.Addr != node {
			continue
		}
		if c := n.Got.Cluster; c != nil && c.Role == "active" && !n.Got.Serves() {
			text = "this is the table of " + shown.Text(node)
		}
		if text += ", which is " + shown.Text(n.Got.RoleName()); n.Got.Serves() {
			text += " since just now"
		}
	}
	if wrong := adminapi.ProblemsOf(nodes).All(); len(wrong) > 0 {
		text += ":\n  " + strings.Join(wrong, "\n  ")
	}
	return text
}

// best asks all servers and takes the active's answer, else any.
func best(ctx context.Context, api *adminapi.Client, q adminapi.Query) (*adminapi.Answer[adminapi.Page], []adminapi.Answer[adminapi.Page], error) {
	pages := api.EnoughPages(ctx, q)
	b := adminapi.Best(pages)
	if b == nil {
		return nil, nil, noNode(pages)
	}
	return b, pages, nil
}

func (a *app) showKeys(keys []adminapi.Holding, now time.Time) {
	if len(keys) == 0 {
		fmt.Fprintln(a.Out, "No key is held.")
		return
	}
	t := newTable("KEY", "TOKEN", "HOLDER", "ADDRESS", "HELD FOR", "ENDS IN", "WAITING")
	for _, h := range keys {
		t.row([]string{
			shown.Text(string(h.Key)), strconv.FormatUint(h.Token, 10), orDash(h.Holder.Client), addrOf(h.Holder),
			short(now.Sub(h.Since)), short(h.Until.Sub(now)), strconv.Itoa(h.Waiting),
		})
		for _, w := range h.Waiters {
			limit := "no limit"
			if w.Until != nil {
				limit = short(w.Until.Sub(now))
			}
			t.row([]string{"", "waits", orDash(w.Client), orDash(w.Addr), short(now.Sub(w.Since)), limit})
		}
		if more := h.Waiting - len(h.Waiters); more > 0 && len(h.Waiters) > 0 {
			t.row([]string{"", fmt.Sprintf("and %d more", more)})
		}
	}
	t.wholeFirst = true
	t.fit(widthOf(a.Out))
	for i, line := range t.lines() {
		if i == 0 {
			line = a.styles.head(line)
		}
		fmt.Fprintln(a.Out, line)
	}
}

func addrOf(w adminapi.Who) string {
	if w.Gone {
		return w.Addr + ", gone"
	}
	return orDash(w.Addr)
}

type breakCommand struct {
	Key   string `arg:"" help:"The key."`
	Token uint64 `type:"token" required:"" placeholder:"N" help:"The token of the holder, as stile keys shows it: nobody else is hit."`
	Yes   bool   `short:"y" help:"Do not ask."`
	JSON  bool   `help:"Print key, token and the next holder's token as JSON."`
}

// Help is shown by --help, and in the man page.
func (*breakCommand) Help() string {
	return `The first in line has KEY at once, as at the end of a lease. The old holder is not stopped: it learns of it at its next renewal, and works on until then; only what checks the token is safe from it. So make sure first that it is dead.

Exit status: 0 if it was broken; 1 if it was, but in sync mode the standbys do not know yet; 123 if KEY is not held under this token (any more).

The node that is active writes it into its log. It asks for a secret always: --admin-secret-file, or --secret-file where nodes have only that one.`
}

func (k *breakCommand) Run(a *app) error {
	api, err := a.admin()
	if err != nil {
		return err
	}
	if !k.Yes {
		if ok, err := a.confirm(fmt.Sprintf("Take %s from the holder of token %d? It is not stopped, and may work on for a while.", shown.Text(k.Key), k.Token)); err != nil || !ok {
			return err
		}
	}
	b, err := breakLock(a.ctx, api, adminapi.Key(k.Key), k.Token)
	if err != nil {
		return err
	}
	if k.JSON {
		if err := a.json(struct {
			Key       string `json:"key"`
			Token     uint64 `json:"token"`
			Text      uint64 `json:"token_text,string"`
			NextToken uint64 `json:"next_token,omitempty"`
			NextText  uint64 `json:"next_token_text,omitempty,string"`
			Uncertain bool   `json:"uncertain,omitempty"`
		}{k.Key, b.Token, b.Token, b.NextToken, b.NextToken, b.Uncertain}); err != nil {
			return err
		}
	}
	if b.Uncertain {
		return failed(ExitUncertain, "%s was broken, but the standbys do not know yet: if the active node dies now, the old holder may have it again.\nLook who holds it with `stile keys %[1]s`, and break it again if token %d still does.", shown.Text(k.Key), k.Token)
	}
	if k.JSON {
		return nil
	}
	next := "nobody waited for it"
	if b.NextToken > 0 {
		next = fmt.Sprintf("the first in line has it, with token %d", b.NextToken)
	}
	fmt.Fprintf(a.Out, "%s is broken: %s.\n", shown.Text(k.Key), next)
	return nil
}

// confirm asks the user. Without a terminal there is nobody to ask.
func (a *app) confirm(question string) (bool, error) {
	if a.In == nil || !term.IsTerminal(int(a.In.Fd())) {
		return false, failed(ExitFailure, "standard input is no terminal, so nobody can be asked: give --yes to do it")
	}
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	line, _ := bufio.NewReader(a.In).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, failed(ExitFailure, "nothing was done")
}

// breakLock asks the servers one after the other until one that is active has
// decided. A node that is not active refuses without an effect.
func breakLock(ctx context.Context, api *adminapi.Client, key adminapi.Key, token uint64) (*adminapi.Broken, error) {
	began := time.Now()
	nodes := adminapi.All(ctx, api, api.Status)
	if refusedAll(nodes) {
		return nil, noNode(nodes)
	}
	var tried []error
	active, unheard := "", false
	for _, addr := range likelyFirst(nodes) {
		b, err := api.Break(ctx, addr, key, token)
		if err == nil {
			return b, nil
		}
		var e *adminapi.Error
		if !errors.As(err, &e) {
			tried, unheard = append(tried, err), true
			continue
		}
		switch e.Code {
		case "not-active":
			active = cmp.Or(active, e.Active)
			tried = append(tried, err)
			continue
		case "no-active":
			tried = append(tried, err)
			continue
		case "not-held":
			return nil, failed(ExitLost, "%s is not held, so there is nothing to break", shown.Text(string(key)))
		case "token":
			return nil, failed(ExitLost, "%s is held under another token, %d: somebody else has it by now. Look with `stile keys %s` before you break that", shown.Text(string(key)), e.Token, shown.Text(string(key)))
		}
		return nil, err
	}
	status, hint := adminHint(tried)
	const see = "`stile status` tells what the nodes say of each other."
	switch refused := slices.ContainsFunc(tried, func(err error) bool { var e *adminapi.Error; return errors.As(err, &e) }); {
	case active != "" && unheard:
		status, hint = ExitNoServer, "The active is the node at "+shown.Text(active)+", so they say: one that could not be asked, or one whose admin address is not in --admin. "+see
	case active != "":
		status, hint = ExitNoServer, "The active is the node at "+shown.Text(active)+": give its admin address, too, with --admin."
	case refused:
		status, hint = ExitNoServer, "Those that answered know of no active node. "+see
	}
	took := ""
	if slices.ContainsFunc(tried, adminapi.Silent) {
		took = fmt.Sprintf(" in %v, one after the other", time.Since(began).Round(time.Second))
		hint += "\nA node that has not answered may break it yet, when it goes on: if it is active then, and the token is still this one."
	}
	return nil, failed(status, "no active node could be asked%s:\n  %s\n%s", took, lines(tried, "  "), hint)
}

// refusedAll reports whether no server told anything, and one wants another
// secret: then a wrong one is not given once more, as nodes count them.
func refusedAll(nodes []adminapi.Answer[adminapi.Status]) (refused bool) {
	for _, n := range nodes {
		var e *adminapi.Error
		if n.Got != nil {
			return false
		}
		refused = refused || errors.As(n.Err, &e) && (e.Status == http.StatusUnauthorized || e.Status == http.StatusTooManyRequests)
	}
	return refused
}

// likelyFirst is the servers in the order in which it is best to ask them for a
// break: who serves comes first, and who does not answer last, as that takes
// long each time.
func likelyFirst(nodes []adminapi.Answer[adminapi.Status]) []string {
	rank := func(n adminapi.Answer[adminapi.Status]) int {
		switch {
		case n.Got == nil:
			return 2
		case n.Got.Serves():
			return 0
		}
		return 1
	}
	slices.SortStableFunc(nodes, func(a, b adminapi.Answer[adminapi.Status]) int { return rank(a) - rank(b) })
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.Addr
	}
	return addrs
}
