package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stile-lock/stile/server/certs"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/member"
)

// idleFor is how long a node may be of no use to clients before somebody should
// look: a start, a failover, and the copy of a large table take less.
const idleFor = time.Minute

// finding is something that is not as it should be. Whether a node is ready, and
// what its problems are, both come from the findings alone.
type finding struct {
	// unready is why the node is of no use to clients, or could not take over;
	// empty: it is and could all the same. Everybody may see it.
	unready string
	// problem is what somebody has to look after; empty: it passes by itself.
	problem string
}

// FailedReload is a setting whose file could not be used at the latest SIGHUP.
type FailedReload struct {
	Setting string
	Err     error
	At      time.Time
}

func (r FailedReload) problem() string {
	return fmt.Sprintf("SIGHUP at %s: a new file of %s can't be used, and the old one stays in force: %v; mend it and send SIGHUP again",
		r.At.UTC().Format(time.RFC3339), r.Setting, r.Err)
}

// health is what a node's findings are made of.
type health struct {
	now          time.Time
	stopping     bool
	cluster      *member.Status // nil: the node is alone
	unfit        error          // of a node alone: why it can't store the next epoch
	certificates []certs.End
	reloads      []FailedReload
}

func (h *health) findings() (all []finding) {
	if h.stopping {
		all = append(all, finding{unready: "stopping"})
	}
	if h.cluster != nil {
		all = append(all, h.ofCluster()...)
	}
	if h.unfit != nil {
		all = append(all, finding{problem: fmt.Sprintf("the next epoch can't be stored, and grants end when this one's tokens are used up: %v", h.unfit)})
	}
	for _, e := range h.certificates {
		f := finding{problem: e.Problem(h.now)}
		if e.Shuts(h.now) {
			f.unready = "a certificate has ended, and nobody can connect"
		}
		all = append(all, f)
	}
	for _, r := range h.reloads {
		all = append(all, finding{problem: r.problem()})
	}
	return all
}

func (h *health) ofCluster() (all []finding) {
	c := h.cluster
	serves, redirects := c.Mode == cluster.Serve.String(), c.Mode == cluster.Redirect.String()
	// What passes as a rule is a problem where it does not.
	lasting := func(unready string) finding {
		f := finding{unready: unready}
		if c.Idle >= idleFor && !h.stopping {
			f.problem = fmt.Sprintf("%s; so it has been for over %dm", unready, c.Idle/time.Minute)
		}
		return f
	}
	switch {
	case serves && c.Sync && len(c.PeerViews) == 0:
		all = append(all, finding{problem: "there is no other node in --peers to be in sync: what is answered now is lost if this node dies"})
	case serves && c.Sync && len(c.InSync) == 0:
		all = append(all, finding{problem: "no standby is in sync: what is answered now is lost if this node dies"})
	case serves:
	case redirects && !c.Complete:
		all = append(all, lasting(fmt.Sprintf("standby that has not got the table of node %d, which is active, yet; clients are sent there", c.Active)))
	case redirects:
	case c.Mode == cluster.Refuse.String():
		standbys := "standbys are"
		if len(c.InSync) == 1 {
			standbys = "standby is"
		}
		few := fmt.Sprintf("active, but %d %s in sync, and --min-in-sync wants %d: clients get no-active", len(c.InSync), standbys, c.MinInSync)
		all = append(all, finding{few, few})
	default:
		f := lasting(c.Role + ", clients are answered by: " + c.Mode)
		if c.Mode == cluster.Hold.String() && slices.ContainsFunc(c.PeerViews, func(p cluster.PeerView) bool { return p.There }) {
			f.unready += ": " + c.Why
			f.problem = f.unready
		}
		all = append(all, f)
	}
	if c.Unfit {
		// An active one serves on. A standby is of no use when its turn comes.
		const look = ": see 'an epoch can't be stored' in its log, and its state directory"
		f := finding{problem: "this node can't store epochs, so it can't become active" + look}
		if c.Role == cluster.Active.String() {
			f.problem = "this node can't store epochs, so it serves no longer than its tokens last" + look
		}
		if !serves {
			f.unready = "it can't store epochs, so it can't become active"
		}
		all = append(all, f)
	}
	for _, p := range c.PeerViews {
		for _, text := range p.Differs {
			all = append(all, finding{problem: fmt.Sprintf("node %d at %s has other settings: %s", p.ID, p.Addr, text)})
		}
	}
	return all
}

// problems are those of the node itself.
func problems(all []finding) []string {
	list := []string{}
	for _, f := range all {
		if f.problem != "" {
			list = append(list, f.problem)
		}
	}
	return list
}

// ready says whether the node is of use to clients: it answers them, or sends
// them to who does and could take over from that.
func (h *health) ready(all []finding) (said string, ready bool) {
	var why []string
	for _, f := range all {
		if f.unready != "" && !slices.Contains(why, f.unready) {
			why = append(why, f.unready)
		}
	}
	switch c := h.cluster; {
	case h.stopping:
		return "stopping", false
	case len(why) > 0:
		return "not ready: " + strings.Join(why, "; "), false
	case c == nil:
		return "ok", true
	case c.Mode == cluster.Redirect.String():
		return fmt.Sprintf("ok: standby, node %d is active", c.Active), true
	case c.Sync && len(c.PeerViews) == 0:
		return "ok: active, and there is no other node in --peers to be in sync: what is answered now is lost if this node dies", true
	case c.Sync && len(c.InSync) == 0:
		return "ok: active, and no standby is in sync: what is answered now is lost if this node dies", true
	}
	return "ok: active", true
}
