package adminapi

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stile-lock/stile/tools/cmd/stile/shown"
)

// Problems is what is wrong with a cluster, as far as the nodes tell. Text of
// nodes is as shown.Text has it.
type Problems struct {
	Cluster []string // who serves: no node, or too many
	Errors  []string // of the admin servers that did not tell
	Nodes   []string // what nodes say of themselves
	Links   []string // what nodes say of each other
}

// All is every problem, the most important ones first.
func (p *Problems) All() []string {
	return slices.Concat([]string{}, p.Cluster, p.Errors, p.Nodes, p.Links)
}

// ProblemsOf looks for problems in what the admin servers answered.
func ProblemsOf(nodes []Answer[Status]) *Problems {
	p := new(Problems)
	told := map[string]bool{} // by address: of nodes that answered
	for _, n := range nodes {
		if n.Got != nil {
			told[n.Got.Addr] = true
		}
	}
	var serving []*Status
	var idle, unheard, active, unready []string
	misfit := map[string]bool{} // by address: a node that serves can't be linked with it, though it is there
	var said hearsay
	for _, n := range nodes {
		if n.Err != nil {
			p.Errors = append(p.Errors, n.Err.Error())
			continue
		}
		s := n.Got
		if s.Serves() {
			serving = append(serving, s)
		}
		for _, text := range s.Problems {
			p.Nodes = append(p.Nodes, fmt.Sprintf("%s: %s", s.Addr, shown.Text(text)))
		}
		if why := s.Unready(); why != "" {
			unready = append(unready, s.Addr+" is not ready: "+why)
		}
		if s.Cluster == nil {
			continue
		}
		if s.Cluster.Role == "active" && !s.Serves() {
			what := "but clients are " + s.Cluster.ClientsAre()
			if s.Stopping {
				what = "and about to end"
			}
			idle = append(idle, fmt.Sprintf("%s is active, %s", s.Addr, what))
		}
		if a := s.ActiveAddr(); a != "" && !told[a] && !slices.Contains(active, a) {
			active = append(active, a)
		}
		for _, peer := range s.Cluster.Peers {
			if peer.There && s.Serves() {
				misfit[peer.Addr] = true
			}
			if !told[peer.Addr] && !slices.Contains(unheard, peer.Addr) {
				unheard = append(unheard, peer.Addr)
			}
			text := "not reached"
			if peer.Problem != "" {
				text = namesPeer.ReplaceAllString(peer.Problem, "")
			} else if peer.Reached {
				continue
			}
			said.add(peer.Addr+": "+shown.Text(text), s.Addr)
		}
	}
	p.Links = said.lines()
	wrong := ""
	switch {
	case len(told) == 0: // and so nothing is known but the errors
	case len(serving) == 0 && len(idle) > 0:
		wrong = "no node serves clients: " + strings.Join(idle, ", and ")
	case len(serving) == 0 && len(active) > 0:
		wrong = fmt.Sprintf("no node that answered serves: the active is the node at %s, which %s", strings.Join(active, " or "), whyUnheard(nodes, unheard, true))
	case len(serving) == 0 && len(unheard) > 0:
		wrong = fmt.Sprintf("no node that answered serves, and none knows one that does; %s %s", strings.Join(unheard, " and "), whyUnheard(nodes, unheard, false))
	case len(serving) == 0:
		wrong = "no node serves clients"
	}
	if wrong != "" {
		p.Cluster = append(p.Cluster, wrong)
	}
	p.Cluster = append(p.Cluster, tooMany(serving, misfit)...)
	if len(serving) > 0 || len(active) > 0 { // else nobody can be ready
		p.Nodes = append(unready, p.Nodes...)
	}
	return p
}

// tooMany says why several nodes serve at the same time. Only those that are in
// each other's lists find each other when a network is whole again. misfit is
// the addresses with which one that serves can't be linked.
func tooMany(serving []*Status, misfit map[string]bool) (wrong []string) {
	var clusters [][]*Status // of each, every node is in the list of another, or has it
	for _, s := range serving {
		mine := []*Status{s}
		var others [][]*Status
		for _, c := range clusters {
			if slices.ContainsFunc(c, func(o *Status) bool { return s.lists(o) || o.lists(s) }) {
				mine = append(c, mine...)
			} else {
				others = append(others, c)
			}
		}
		clusters = append(others, mine)
	}
	var strangers []string
	for _, c := range clusters {
		strangers = append(strangers, c[0].Addr)
		if len(c) == 1 {
			continue
		}
		var addrs []string
		lacks := "" // who is not in a list that it should be in
		for _, s := range c {
			addrs = append(addrs, s.Addr)
			for _, o := range c {
				if o.lists(s) && !s.lists(o) {
					lacks = fmt.Sprintf("%s is not in the list of %s", o.Addr, s.Addr)
				}
			}
		}
		both := strings.Join(addrs, " and ") + " serve clients at the same time"
		switch {
		case slices.ContainsFunc(addrs, func(addr string) bool { return misfit[addr] }):
			wrong = append(wrong, both+", and there can be no link between them: see what they say of each other, and stop the wrong one")
		case lacks != "":
			wrong = append(wrong, both+", and "+lacks+": stop the wrong one, and give it the list of the others")
		default:
			wrong = append(wrong, both+": the network between them is cut, or was until just now")
		}
	}
	if len(strangers) > 1 {
		wrong = append(wrong, strings.Join(strangers, " and ")+" know nothing of each other: each grants the same keys; never give them to one client")
	}
	return wrong
}

// lists reports whether the node has another in its list.
func (s *Status) lists(o *Status) bool {
	return s.Cluster != nil && slices.ContainsFunc(s.Cluster.Peers, func(p Peer) bool { return p.Addr == o.Addr })
}

// namesPeer is how the problem of a peer names it, which the line does already.
var namesPeer = regexp.MustCompile(`^(node \d+( at \S+)?: )?(dial tcp \S+: )?`)

// hearsay is what nodes say of others: each text once, with all who say it.
type hearsay []struct {
	text string
	by   []string
}

func (h *hearsay) add(text, by string) {
	for i := range *h {
		if (*h)[i].text == text {
			(*h)[i].by = append((*h)[i].by, by)
			return
		}
	}
	*h = append(*h, struct {
		text string
		by   []string
	}{text, []string{by}})
}

func (h hearsay) lines() (lines []string) {
	for _, t := range h {
		verb := "says"
		if len(t.by) > 1 {
			verb = "say"
		}
		lines = append(lines, fmt.Sprintf("%s (%s %s)", t.text, verb, strings.Join(t.by, " and ")))
	}
	return lines
}

// whyUnheard says why nothing was heard of nodes that others name by the
// address which clients use, where that of their admin server need not be known.
// It is said of all of them, or of one.
func whyUnheard(nodes []Answer[Status], unheard []string, one bool) string {
	failed, allSilent, within := 0, true, ""
	for _, n := range nodes {
		if n.Err == nil {
			continue
		}
		failed++
		if s := (*SilentError)(nil); errors.As(n.Err, &s) {
			within = s.Within.String()
		} else {
			allSilent = false
		}
	}
	notAsked := "was not asked: give its admin address, too, with --admin"
	if !one && len(unheard) > 1 {
		notAsked = "were not asked: give their admin addresses, too, with --admin"
	}
	switch {
	case failed == 0:
		return notAsked
	case failed < len(unheard):
		return "did not answer, or " + notAsked
	case allSilent:
		return "did not answer within " + within
	}
	return "could not be asked"
}

// Silent reports whether an error is that of a server that was asked and did not
// answer in time.
func Silent(err error) bool {
	var s *SilentError
	return errors.As(err, &s)
}
