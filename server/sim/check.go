package sim

import (
	"bytes"
	"math/bits"
	"slices"
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/fencing"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/replica"
)

// checks is what the checks remember.
type checks struct {
	tokens    map[uint64]int // who gave each
	resources map[string]uint64
	holds     map[string][]*hold
	adopted   map[string]Time // when the key was last adopted from another active
	broken    map[uint64]bool // tokens of locks that were broken by an operator
	longest   Time            // lease that was ever granted

	reigns  []*reign
	byEpoch map[replica.Epoch][]*reign // of one node without its disk there can be several

	ages ages

	disturbed []disturbance
	cuts      []int // open ones, by from*nodes+to

	together [][]Time // since when two nodes are both active, 0: not

	bestSettled Time
	probes      int
	digest      []byte
}

// reign is the time of one active.
type reign struct {
	number  uint64
	epoch   replica.Epoch
	by      *process
	start   uint64 // its first position
	began   Time
	base    replica.Place
	floor   uint64            // the highest token of the table that it began with
	digests map[uint64]uint64 // of its table, by position
	// answered are positions of changes that were answered in sync mode while
	// some standby was in sync.
	answered []answeredAt
	spent    map[string]Time // nonces
	gaveWay  bool            // it ended as another active was met, who took over its table
}

type answeredAt struct {
	pos     uint64
	at      Time
	members uint
	what    string
}

// disturbance is something that may have made nodes lose each other.
type disturbance struct {
	from, to Time
	nodes    uint // as bits
	cut      bool // two nodes may both go on
}

func (s *Sim) initChecks() {
	s.tokens = make(map[uint64]int)
	s.resources = make(map[string]uint64)
	s.adopted = make(map[string]Time)
	s.broken = make(map[uint64]bool)
	s.holds = make(map[string][]*hold)
	s.ages.init()
	s.byEpoch = make(map[replica.Epoch][]*reign)
	s.cuts = make([]int, s.plan.nodes*s.plan.nodes)
	for range s.plan.nodes {
		s.together = append(s.together, make([]Time, s.plan.nodes))
	}
}

// shake notes that something has happened to a node.
func (s *Sim) shake(id int) { s.disturb(1<<id, false) }

func (s *Sim) disturb(nodes uint, cut bool) {
	s.disturbed = append(s.disturbed, disturbance{s.now, s.now, nodes, cut})
}

// disturbFor notes that something happens to a node until a moment. cut: it may
// seem gone to others, and they to it.
func (s *Sim) disturbFor(id int, until Time, cut bool) {
	s.disturbed = append(s.disturbed, disturbance{s.now, until, 1 << id, cut})
}

func (s *Sim) cutBegins(from, to int) {
	if from < s.plan.nodes && to < s.plan.nodes {
		s.cuts[from*s.plan.nodes+to]++
		s.ages.delayed(s.now)
		s.disturb(1<<from|1<<to, true)
	}
}

func (s *Sim) cutEnds(from, to int) {
	if from < s.plan.nodes && to < s.plan.nodes {
		s.cuts[from*s.plan.nodes+to]--
		s.ages.delayed(s.now)
		s.disturb(1<<from|1<<to, true)
	}
}

// single reports whether all that has gone wrong since a moment has to do
// with one node, and which: any of those named. cut: links were cut, too;
// calm: nothing has gone wrong at all.
func (s *Sim) single(since Time) (which uint, cut, calm bool) {
	calm = true
	// What went wrong shortly before may still have its effect.
	since -= 3 * failureTimeout
	which = 1<<s.plan.nodes - 1
	for i := len(s.disturbed) - 1; i >= 0; i-- {
		if d := &s.disturbed[i]; d.to >= since {
			which &= d.nodes
			cut = cut || d.cut
			calm = false
		}
	}
	for i, n := range s.cuts {
		if n > 0 {
			which &= 1<<(i/s.plan.nodes) | 1<<(i%s.plan.nodes)
			cut, calm = true, false
		}
	}
	for _, n := range s.nodes {
		if n.proc == nil || n.proc.paused {
			which &= 1 << n.id
			calm = false
		}
	}
	return which, cut, calm
}

// checkToken looks at each token as it is made.
func (s *Sim) checkToken(p *process, token uint64) {
	if by, known := s.tokens[token]; known {
		s.fail("token %d was given twice, by n%d and by n%d", token, by, p.n.id)
	}
	s.tokens[token] = p.n.id
	if token <= p.lastToken {
		s.fail("n%d: token %d follows %d", p.n.id, token, p.lastToken)
	}
	p.lastToken = token
	if p.n.proc != p {
		s.fail("n%d: a process that has ended grants", p.n.id)
	}
	if !p.member.Active() {
		s.fail("n%d grants and is not active", p.n.id)
	}
	switch p.mode {
	case cluster.Serve, cluster.Refuse, cluster.Ending:
	default:
		// Taking over another active's table is the last that it does before
		// it serves again.
		if !p.within {
			s.fail("n%d grants in mode %v", p.n.id, p.mode)
		}
	}
}

// checkEpoch looks at the first tokens of an epoch: they must be above all
// that the node, and those that it reaches, know.
func (s *Sim) checkEpoch(p *process, e replica.Epoch, start uint32) {
	first := fencing.Token(e.N, e.Node, start) + 1
	if first <= p.highest() || first <= p.lastToken {
		s.fail("n%d: tokens from %d on, and %d is in its table", p.n.id, first, max(p.highest(), p.lastToken))
	}
	if d := p.n.disk.epoch; d.Compare(e) < 0 {
		s.fail("n%d gives tokens of %v, and has %v on its disk", p.n.id, e, d)
	}
	if p.log != nil {
		return // the others' were looked at when its reign began
	}
	for _, o := range s.nodes {
		q := o.proc
		if q == nil || q == p || q.paused || q.member.Active() || !s.linked(p, q) {
			continue
		}
		if r := s.reignAt(q.member.Place()); r != nil && s.now-r.began < 250*time.Millisecond {
			continue // that may still be on its way to the candidate
		}
		if first <= q.highest() {
			s.fail("n%d becomes active with tokens from %d on, and n%d, which it reaches, knows %d", p.n.id, first, o.id, q.highest())
		}
	}
}

// linked reports whether two processes have both links, and nothing has
// happened to them lately.
func (s *Sim) linked(p, q *process) bool {
	for _, v := range p.member.Status().PeerViews {
		if int(v.ID) == q.n.id && !v.Reached {
			return false
		}
	}
	a, b := p.outs[q.n.id], p.ins[q.n.id]
	return a != nil && a.aUp && a.bUp && a.b == q && b != nil && b.aUp && b.bUp && b.a == q
}

func (p *process) highest() (token uint64) {
	for _, sh := range p.shards {
		token = max(token, sh.gate.Space.HighestToken())
	}
	return token
}

// checkReign is called when a node begins to serve.
func (s *Sim) checkReign(p *process, l *replica.Log) {
	r := &reign{
		number: uint64(len(s.reigns) + 1), epoch: l.Reign(), by: p, start: l.Pos(), began: s.now, base: l.Base(),
		digests: make(map[uint64]uint64), spent: make(map[string]Time), floor: p.highest(),
	}
	for _, old := range s.byEpoch[r.epoch] {
		last := old.start
		for pos := range old.digests {
			last = max(last, pos)
		}
		if r.start <= last {
			s.fail("n%d begins the reign %v again, at %d", p.n.id, r.epoch, r.start)
		}
	}
	if p.told {
		s.fail("n%d takes the role though it is stopping", p.n.id)
	}
	s.logf("n%d: reign %d, %v, begins at %v", p.n.id, r.number, r.epoch, r.base)
	s.count("reigns")
	if old := s.reignAt(r.base); old != nil && !p.forked {
		s.compare(p, old, r.base.Pos, "at its promotion")
	}
	s.checkWitness(p)
	s.checkBeside(p, r)
	s.reigns = append(s.reigns, r)
	s.byEpoch[r.epoch] = append(s.byEpoch[r.epoch], r)
	p.reign = r
	if s.plan.sync {
		s.checkLoss(p, r)
	}
	r.digests[r.start] = s.digestOf(p)
	p.view.promoted(p)
}

// checkWitness fails if a node becomes active though somebody that it reaches
// has a link to an active. A role that is handed over is not one more.
func (s *Sim) checkWitness(p *process) {
	if p.member.Status().Why == "it was handed the role" {
		for _, g := range s.nodes {
			if g.proc != nil && g.proc != p && g.proc.member.Active() && g.proc.log != nil && g.proc.log.Reign() == p.log.Base().Reign {
				s.fail("n%d takes a role that n%d still has", p.n.id, g.id)
			}
		}
		return
	}
	for _, w := range s.nodes {
		if w.proc == nil || w.proc == p || !s.steady(p.n, w) {
			continue
		}
		for _, a := range s.nodes {
			if a != w && a.proc != nil && a.proc != p && a.proc.member.Active() && s.steady(w, a) && s.now-a.proc.reign.began > failureTimeout {
				s.fail("n%d becomes active, and n%d, which it reaches, has a link to n%d, which is", p.n.id, w.id, a.id)
			}
		}
	}
}

// checkBeside fails if a node that has nothing becomes active beside one that it
// can't be linked with, though that answers, and has served for long.
func (s *Sim) checkBeside(p *process, r *reign) {
	if r.base != (replica.Place{}) {
		return
	}
	for _, o := range s.nodes {
		q := o.proc
		if q == nil || q == p || q.misfit == p.misfit || q.paused || !q.member.Active() || s.now-q.reign.began < 4*failureTimeout ||
			s.cuts[p.n.id*s.plan.nodes+o.id] > 0 || s.cuts[o.id*s.plan.nodes+p.n.id] > 0 {
			continue
		}
		calm := true
		for _, d := range s.disturbed {
			mine, theirs := d.nodes&(1<<p.n.id) != 0, d.nodes&(1<<o.id) != 0
			if d.to > s.now-4*failureTimeout && (theirs || mine && (d.cut || d.to > p.begun)) {
				calm = false
			}
		}
		if calm {
			s.fail("n%d becomes active with nothing, and n%d, which answers it and can't be linked with it, is", p.n.id, o.id)
		}
	}
}

// steady reports whether two nodes have long reached each other.
func (s *Sim) steady(n, o *node) bool {
	p, q := n.proc, o.proc
	if p.paused || q.paused || !s.linked(p, q) || s.now-max(p.begun, q.begun) < 2*failureTimeout {
		return false
	}
	both := uint(1<<n.id | 1<<o.id)
	for i := len(s.disturbed) - 1; i >= 0; i-- {
		d := &s.disturbed[i]
		if d.to > s.now-2*failureTimeout && (d.cut && d.nodes == both || !d.cut && d.nodes&both != 0) {
			return false
		}
	}
	return s.cuts[n.id*s.plan.nodes+o.id] == 0 && s.cuts[o.id*s.plan.nodes+n.id] == 0
}

// checkGivesWay fails if a node gives way to another active that has changed
// nothing since this one went on from where it was. Of several actives it gives
// way to the one of highest priority.
func (s *Sim) checkGivesWay(p *process) {
	for _, o := range s.nodes {
		if a := o.proc; a != nil && a != p && a.log != nil && a.member.Active() && s.linked(p, a) {
			if a.log.Place() == p.reign.base {
				s.fail("n%d gives way to n%d, which has changed nothing since %v", p.n.id, o.id, p.reign.base)
			}
			return
		}
	}
}

// checkLoss looks for answered changes that a new active lacks though no more
// than one node has failed.
func (s *Sim) checkLoss(p *process, now *reign) {
	for i := len(s.reigns) - 2; i >= 0; i-- {
		r := s.reigns[i]
		if now.base.Compare(replica.Place{Reign: r.epoch, Pos: r.start}) > 0 && s.reignAt(now.base) != r || s.takenOver(r, now) {
			continue
		}
		for j := len(r.answered) - 1; j >= 0; j-- {
			a := &r.answered[j]
			if s.reignAt(now.base) == r && a.pos <= now.base.Pos {
				break
			}
			which, cut, _ := s.single(a.at)
			// Somebody in sync other than the one that failed must have been
			// there.
			if which == 0 || cut {
				break
			}
			for ; which != 0; which &= which - 1 {
				if failed := uint(1) << bits.TrailingZeros(which); a.members&^failed != 0 {
					s.fail("n%d begins at %v: %s, at %v/%d, was answered at %v with %b in sync, and is lost",
						p.n.id, now.base, a.what, r.epoch, a.pos, a.at, a.members)
				}
			}
		}
	}
}

// takenOver reports whether another active has taken over the table of r, or
// of a reign that went on from it: what r answered is then in no place of now,
// but may well be in its table. What was lost before that is judged when the
// one that gave way began.
func (s *Sim) takenOver(r, now *reign) bool {
	if r.gaveWay {
		return true
	}
	for a := now; a != nil; a = s.reignAt(a.base) {
		if a == r {
			return false
		}
	}
	for _, x := range s.reigns {
		if x.gaveWay {
			for a := x; a != nil; a = s.reignAt(a.base) {
				if a == r {
					return true
				}
			}
		}
	}
	return false
}

// reignAt is the reign that a place is in.
func (s *Sim) reignAt(at replica.Place) (found *reign) {
	for _, r := range s.byEpoch[at.Reign] {
		if r.start <= at.Pos {
			found = r
		}
	}
	return found
}

// reignOf is the number of the reign that a process serves in.
func (s *Sim) reignOf(p *process) uint64 {
	if p.log == nil {
		return 0
	}
	return p.reign.number
}

// checkReleased is called when an answer goes out.
func (s *Sim) checkReleased(p *process, h *heldAnswer) {
	if p.log == nil {
		if h.a.reign > 0 {
			return // made before the node gave the role away
		}
		switch h.a.kind {
		case protocol.OpRelease, protocol.OpKeep, protocol.OpCancel:
			s.fail("n%d answers #%d, and is not active", p.n.id, h.r.id)
		case protocol.OpAcquire:
			// A grant of its reign whose answer had to wait for its turn.
			if p.forked && s.plan.sync {
				s.fail("n%d tells of a grant, #%d, of a table that it has given up", p.n.id, h.r.id)
			}
			s.count("grants answered after the reign")
		}
		return
	}
	if h.a.kind == protocol.OpAcquire || h.a.kind == protocol.OpKeep {
		s.longest = max(s.longest, h.a.lease)
	}
	if !s.plan.sync || h.a.kind == protocol.OpError || h.a.kind == protocol.OpMoved {
		return
	}
	members := uint(0)
	for _, id := range p.member.Status().InSync {
		members |= 1 << id
	}
	if members == 0 {
		return
	}
	r := p.reign
	s.checkApplied(p, r, h, members)
	if n := len(r.answered); n > 0 && r.answered[n-1].pos == h.pos {
		r.answered[n-1] = answeredAt{h.pos, s.now, members, r.answered[n-1].what}
		return
	}
	r.answered = append(r.answered, answeredAt{h.pos, s.now, members, string(h.r.op) + " " + h.r.key})
}

// checkApplied looks whether all that are in sync have what an answer tells.
func (s *Sim) checkApplied(p *process, r *reign, h *heldAnswer, members uint) {
	for ; members != 0; members &= members - 1 {
		q := s.nodes[bits.TrailingZeros(members)].proc
		if q == nil || q.begun >= r.began || q.member.Active() || q.forked {
			continue
		}
		at := q.member.Place()
		if at.Reign != r.epoch && !s.steady(p.n, q.n) {
			continue // it had applied this, and follows another active by now
		}
		if at.Compare(replica.Place{Reign: r.epoch, Pos: h.pos}) < 0 {
			s.fail("n%d answers #%d, made at %d, and n%d, which is in sync, is at %v", p.n.id, h.r.id, h.pos, q.n.id, at)
		}
	}
}

// checkChanges looks at what has changed in a table that serves.
func (s *Sim) checkChanges(p *process, sh *shard, changes []lockspace.Change) {
	if p.log == nil {
		return
	}
	r := p.reign
	for i := range changes {
		c := &changes[i]
		p.view.change(p, c)
		switch c.Kind {
		case lockspace.GrantMade:
			if !slices.Contains(p.fresh, c.Token) {
				if c.Token <= r.floor || fencing.Node(c.Token) == uint8(p.n.id) && fencing.Epoch(c.Token) >= r.epoch.N {
					s.fail("n%d takes over %s with token %d from another active, and had known it", p.n.id, c.Key, c.Token)
				}
				// Adopted from another active. A holder with another token has lost
				// the key by that, whatever it thinks.
				s.adopted[string(c.Key)] = s.now
				for _, h := range s.holds[string(c.Key)] {
					h.over = h.over || h.token != c.Token
				}
				break
			}
			s.count("grants made")
			s.checkGrant(p, r, string(c.Key), c.Token, string(c.Nonce.Bytes()))
		case lockspace.NonceSpent:
			r.spent[string(c.Nonce.Bytes())] = s.now
		}
	}
}

func (s *Sim) checkGrant(p *process, r *reign, key string, token uint64, nonce string) {
	if at, ok := r.spent[nonce]; ok && nonce != "" && s.now-at < spentFor {
		s.fail("n%d grants %s to the nonce %s, spent at %v", p.n.id, key, nonce, at)
	}
	holds := s.holds[key]
	left := holds[:0]
	for _, h := range holds {
		if h.over || h.until <= s.now || s.broken[h.token] {
			continue
		}
		left = append(left, h)
		if h.token == token {
			continue
		}
		s.overlap(p, r, h, token)
	}
	s.holds[key] = left
}

// overlap is called with a grant that was made while somebody may think that
// he holds the key.
func (s *Sim) overlap(p *process, r *reign, h *hold, token uint64) {
	s.count("overlapping holders")
	since := h.since
	which, cut, calm := s.single(since)
	bad := h.reign == r.number || calm
	if !bad && s.plan.sync {
		bad = which != 0 && !cut && s.answeredSafely(h, which)
	}
	if bad {
		s.fail("n%d grants %s as %d in reign %d, and c%d holds it as %d until %v, granted or kept in reign %d",
			p.n.id, h.key, token, r.number, h.c.id, h.token, h.until, h.reign)
	}
}

// answeredSafely reports whether some standby that has not failed was in sync
// all the while since the hold was granted.
func (s *Sim) answeredSafely(h *hold, which uint) bool {
	if h.reign == 0 {
		return false
	}
	r := s.reigns[h.reign-1]
	seen := false
	for i := range r.answered {
		if a := &r.answered[i]; a.at >= h.since {
			seen = true
			for w := which; w != 0; w &= w - 1 {
				if a.members&^(uint(1)<<bits.TrailingZeros(w)) == 0 {
					return false
				}
			}
		}
	}
	return seen
}

// holdBegins is called when a client is told that it has a lock.
func (s *Sim) holdBegins(h *hold) {
	if at, ok := s.adopted[h.key]; ok && at >= h.since {
		h.over = true // it may have lost the key while the answer was on its way
	}
	s.holds[h.key] = append(s.holds[h.key], h)
}

// write is what the holder of a lock does with it: the resource refuses the
// tokens that are lower than one it has seen.
func (s *Sim) write(k *call) {
	if k.token < s.resources[k.key] {
		s.count("stale writes refused")
		return
	}
	s.resources[k.key] = k.token
	s.count("writes")
}

// digestOf is a hash of the whole table of a node.
func (s *Sim) digestOf(p *process) uint64 {
	sum := uint64(14695981039346656037)
	for _, b := range p.digest() {
		sum = (sum ^ uint64(b)) * 1099511628211
	}
	return sum
}

func (p *process) digest() []byte {
	s := p.s
	s.digest = s.digest[:0]
	for _, sh := range p.shards {
		s.digest = sh.gate.Space.Digest(s.digest)
	}
	return s.digest
}

// checkTable notes what the table of an active is at its position.
func (s *Sim) checkTable(p *process) {
	if pos := p.log.Pos(); pos%2 == 0 {
		p.reign.digests[pos] = s.digestOf(p)
		if s.log.on {
			s.logf("n%d: table at %v: %q", p.n.id, p.log.Place(), p.digest())
		}
	}
}

// checkCopy compares a standby with its active, after a frame.
func (s *Sim) checkCopy(p *process, before replica.Place, fork bool) {
	if p.dead || p.member.Active() {
		return
	}
	at := p.member.Place()
	if fork && at != before {
		p.forked = false // a stream has begun to which it belongs
	}
	if r := s.reignAt(at); r != nil && !p.forked {
		s.compare(p, r, at.Pos, "")
	}
}

func (s *Sim) compare(p *process, r *reign, pos uint64, when string) {
	want, ok := r.digests[pos]
	if !ok {
		return
	}
	s.count("tables compared")
	if s.digestOf(p) != want {
		text := bytes.Clone(p.digest())
		theirs := []byte("its active is gone")
		if q := r.by; !q.dead {
			theirs = bytes.Clone(q.digest())
		}
		s.fail("the table of n%d at %v/%d is not that of its active %s:\n%s\nthe active's now:\n%s", p.n.id, r.epoch, pos, when, text, theirs)
	}
}

// checkMode is called before a mode takes effect.
func (s *Sim) checkMode(p *process) {
	if p.member == nil {
		return
	}
	switch p.mode {
	case cluster.Serve, cluster.Freeze:
		if !p.member.Active() {
			s.fail("n%d has mode %v and is not active", p.n.id, p.mode)
		}
	case cluster.Redirect:
		if p.redirect == address(p.n.id) {
			s.fail("n%d redirects to itself", p.n.id)
		}
	}
}

// checkEnd is called with a process that is about to end.
func (s *Sim) checkEnd(p *process) {
	for i := range s.together {
		s.together[p.n.id][i], s.together[i][p.n.id] = 0, 0
	}
}

const monitorEvery = 100 * time.Millisecond

// monitor looks at the cluster as a whole now and then.
func (s *Sim) monitor() {
	s.after(monitorEvery, s.monitor)
	for i, n := range s.nodes {
		for _, o := range s.nodes[i+1:] {
			s.checkPair(n, o)
		}
	}
	if len(s.disturbed) > 4000 {
		s.disturbed = slices.DeleteFunc(s.disturbed, func(d disturbance) bool { return d.to < s.now-time.Minute })
	}
}

// checkPair fails if two nodes that reach each other stay active both.
func (s *Sim) checkPair(n, o *node) {
	p, q := n.proc, o.proc
	since := &s.together[n.id][o.id]
	if p == nil || q == nil || p.paused || q.paused || !p.member.Active() || !q.member.Active() {
		*since = 0
		return
	}
	if p.misfit != q.misfit {
		*since = 0 // they never meet
		return
	}
	if *since == 0 {
		*since = s.now
		s.count("two actives")
	}
	from := *since
	for _, d := range s.disturbed {
		if d.nodes&(1<<n.id|1<<o.id) != 0 {
			from = max(from, d.to)
		}
	}
	i, j := n.id*s.plan.nodes+o.id, o.id*s.plan.nodes+n.id
	if s.cuts[i] > 0 || s.cuts[j] > 0 || s.plan.slowWrites > 0.1 || s.plan.failedWrites > 0.1 {
		return
	}
	if s.now-from > 3*failureTimeout+500*time.Millisecond {
		s.fail("n%d and n%d reach each other, and both have been active since %v", n.id, o.id, *since)
	}
}
