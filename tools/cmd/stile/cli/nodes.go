package cli

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/stile-lock/stile/tools/cmd/stile/adminapi"
)

type statusCommand struct {
	JSON bool `help:"Print what each node says as JSON."`
}

// Help is shown by --help, and in the man page.
func (*statusCommand) Help() string {
	return `Each node of --admin is asked, and listed with what it says of itself; then what each says of the others. Give the admin addresses of all nodes, and those that do not answer are seen, too.

Exit status: 0 if all nodes of --admin answered and one of them serves, 1 if something is wrong (it says what), 122 if none answered, 125 if they refuse to.`
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
		}{list, problems(nodes)}); err != nil {
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
	wrong := problems(nodes)
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
			return ExitFailure, "Is --tls-ca the authority of the nodes' certificates, and are these for the hosts in --admin?"
		case errors.As(err, &other):
			return ExitFailure, "The text says what to change; --admin or STILE_ADMIN_ADDRS has the addresses."
		}
	}
	return ExitNoServer, "Is a node running, and are --admin or STILE_ADMIN_ADDRS right? It is what nodes were given as --admin, not what clients use."
}

// problems is what is wrong with the cluster, as far as the answers tell.
func problems(nodes []adminapi.Answer[adminapi.Status]) (wrong []string) {
	wrong = []string{}
	var serving, unasked, active []string
	misfit := map[string]bool{} // by address: a node that serves can't be linked with it, though it is there
	asked := map[string]bool{}
	for _, n := range nodes {
		if n.Got != nil {
			asked[n.Got.Addr] = true
		}
	}
	alone, silent := 0, false
	for _, n := range nodes {
		if n.Err != nil {
			silent = true
			wrong = append(wrong, n.Err.Error())
			continue
		}
		if n.Got.Serves() {
			serving = append(serving, n.Got.Addr)
		}
		for _, p := range n.Got.Problems {
			wrong = append(wrong, fmt.Sprintf("%s: %s", n.Got.Addr, printable(p)))
		}
		c := n.Got.Cluster
		if c == nil {
			alone++
			continue
		}
		if a := n.Got.ActiveAddr(); a != "" && !asked[a] && !slices.Contains(active, a) {
			active = append(active, a)
		}
		for _, p := range c.Peers {
			if p.There && n.Got.Serves() {
				misfit[p.Addr] = true
			}
			if !asked[p.Addr] && !slices.Contains(unasked, p.Addr) {
				unasked = append(unasked, p.Addr)
			}
			if p.Problem != "" {
				wrong = append(wrong, fmt.Sprintf("%s says of %s: %s", n.Got.Addr, p.Addr, printable(p.Problem)))
			} else if !p.Reached {
				wrong = append(wrong, fmt.Sprintf("%s does not reach %s", n.Got.Addr, p.Addr))
			}
		}
	}
	switch {
	case len(serving) == 0 && len(active) > 0 && silent: // which may be that one
		wrong = append(wrong, fmt.Sprintf("no node that answered serves: the active is the node at %s", strings.Join(active, " or ")))
	case len(serving) == 0 && len(active) > 0:
		wrong = append(wrong, fmt.Sprintf("no node that was asked serves: the active is the node at %s, which was not: give its admin address, too, with --admin", strings.Join(active, " or ")))
	case len(serving) == 0 && len(unasked) > 0:
		wrong = append(wrong, fmt.Sprintf("no node that was asked serves, and none knows one that does; %s was not asked: give its admin address, too, with --admin", strings.Join(unasked, " or ")))
	case len(serving) == 0 && slices.ContainsFunc(nodes, func(n adminapi.Answer[adminapi.Status]) bool { return n.Got != nil }):
		wrong = append(wrong, "no node serves clients")
	case len(serving) > 1 && slices.ContainsFunc(serving, func(addr string) bool { return misfit[addr] }):
		wrong = append(wrong, strings.Join(serving, " and ")+" serve clients at the same time, and there can be no link between them: see what they say of each other, and stop the wrong one")
	case len(serving) > 1 && alone < len(serving):
		wrong = append(wrong, strings.Join(serving, " and ")+" serve clients at the same time: the network between them is cut, or was until just now")
	case alone > 1:
		wrong = append(wrong, strings.Join(serving, " and ")+" know nothing of each other: each grants the same keys; never give them to one client")
	}
	return wrong
}

func (a *app) showStatus(nodes []adminapi.Answer[adminapi.Status]) {
	t := newTable("ADMIN", "NODE", "ROLE", "CLIENTS ARE", "EPOCH", "HELD", "WAITING", "CONNECTIONS", "UP", "VERSION")
	var paint []func(string) string
	plain := func(s string) string { return s }
	for _, n := range nodes {
		if n.Err != nil {
			t.row([]string{n.Addr, "-", "unreachable"})
			paint = append(paint, a.styles.bad)
			continue
		}
		s := n.Got
		epoch, mode := strconv.FormatUint(s.Epoch, 10), "served"
		if c := s.Cluster; c != nil {
			epoch, mode = c.Epoch, modeWords(c.Mode)
		}
		t.row([]string{
			n.Addr, s.Addr, s.RoleName(), mode, epoch, strconv.Itoa(s.Held), strconv.Itoa(s.Waiting),
			strconv.Itoa(s.Connections), short(time.Since(s.Started)), printable(s.Version),
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
	peers := newTable("SAYS", "OF", "ROLE", "REACHED", "FED", "LAG", "SILENT FOR")
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
			peers.row([]string{n.Got.Addr, p.Addr, p.Role, yesNo(p.Reached), yesNo(p.Fed), lag, silent})
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
			fmt.Fprintf(a.Out, "\n%s is %s: %s", n.Got.Addr, n.Got.RoleName(), printable(n.Got.Cluster.Why))
		}
	}
	if any {
		fmt.Fprintln(a.Out)
	}
}

// modeWords says how a node answers clients.
func modeWords(mode string) string {
	switch mode {
	case "serve":
		return "served"
	case "redirect":
		return "redirected"
	case "hold":
		return "kept waiting"
	case "refuse":
		return "refused"
	}
	return mode
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

On a terminal, long keys and names are cut where a line would be too long; in a pipe, and with --json, they are whole.`
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
	page, addr, errs, err := best(a.ctx, api, q)
	if err != nil {
		return err
	}
	keys := page.Keys
	for page.More() && len(keys) < k.Limit {
		q.Limit = min(k.Limit-len(keys), maxPage)
		more, err := api.Keys(a.ctx, addr, q.After(page))
		if err != nil {
			return err
		}
		page, keys = more, append(keys, more.Keys...)
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
	a.showKeys(keys, time.Now())
	if !page.Active {
		a.warn("%s", a.copyOf(api, page.Node, addr, errs))
	}
	if page.More() {
		a.warn("there are more keys: give a longer PREFIX, or --limit")
	}
	return nil
}

// copyOf says why a listing is the copy of a standby. The errors are those of
// the other admin servers.
func (a *app) copyOf(api *adminapi.Client, node, addr string, errs []error) string {
	text := "no node is active at the moment: this is the copy of " + printable(node)
	s, err := api.Status(a.ctx, addr)
	if err == nil && s.ActiveAddr() != "" && s.ActiveAddr() != node {
		text = fmt.Sprintf("this is the copy of a standby, %s: the active is the node at %s", printable(node), printable(s.ActiveAddr()))
		if len(errs) == 0 {
			text += "; give its admin address, too, with --admin"
		}
	}
	if len(errs) > 0 {
		text += "\n  " + lines(errs, "  ")
	}
	return text
}

// best asks all servers and takes the active's answer, else any; errs are of
// those that did not answer.
func best(ctx context.Context, api *adminapi.Client, q adminapi.Query) (page *adminapi.Page, addr string, errs []error, err error) {
	pages := adminapi.All(ctx, api, func(ctx context.Context, addr string) (*adminapi.Page, error) { return api.Keys(ctx, addr, q) })
	b := adminapi.Best(pages)
	if b == nil {
		return nil, "", nil, noNode(pages)
	}
	for _, p := range pages {
		if p.Err != nil {
			errs = append(errs, p.Err)
		}
	}
	return b.Got, b.Addr, errs, nil
}

func (a *app) showKeys(keys []adminapi.Holding, now time.Time) {
	if len(keys) == 0 {
		fmt.Fprintln(a.Out, "No key is held.")
		return
	}
	t := newTable("KEY", "TOKEN", "HOLDER", "ADDRESS", "HELD FOR", "ENDS IN", "WAITING")
	for _, h := range keys {
		t.row([]string{
			printable(string(h.Key)), strconv.FormatUint(h.Token, 10), orDash(h.Holder.Client), addrOf(h.Holder),
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
		if ok, err := a.confirm(fmt.Sprintf("Take %s from the holder of token %d? It is not stopped, and may work on for a while.", printable(k.Key), k.Token)); err != nil || !ok {
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
		return failed(ExitUncertain, "%s was broken, but the standbys do not know yet: if the active node dies now, the old holder may have it again.\nLook who holds it with `stile keys %[1]s`, and break it again if token %d still does.", printable(k.Key), k.Token)
	}
	if k.JSON {
		return nil
	}
	next := "nobody waited for it"
	if b.NextToken > 0 {
		next = fmt.Sprintf("the first in line has it, with token %d", b.NextToken)
	}
	fmt.Fprintf(a.Out, "%s is broken: %s.\n", printable(k.Key), next)
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
	var tried []error
	active := ""
	for _, addr := range api.Addrs {
		b, err := api.Break(ctx, addr, key, token)
		if err == nil {
			return b, nil
		}
		var e *adminapi.Error
		if !errors.As(err, &e) {
			tried = append(tried, err)
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
			return nil, failed(ExitLost, "%s is not held, so there is nothing to break", printable(string(key)))
		case "token":
			return nil, failed(ExitLost, "%s is held under another token, %d: somebody else has it by now. Look with `stile keys %s` before you break that", printable(string(key)), e.Token, printable(string(key)))
		}
		return nil, err
	}
	status, hint := adminHint(tried)
	if active != "" {
		status, hint = ExitNoServer, "The active is the node at "+active+": give its admin address, too, with --admin."
	}
	return nil, failed(status, "no active node could be asked:\n  %s\n%s", lines(tried, "  "), hint)
}
