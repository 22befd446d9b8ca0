package node

import (
	"log/slog"
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/gate"
	"github.com/stile-lock/stile/server/internal/secrets"
	"github.com/stile-lock/stile/server/lockspace"
)

// maxWrongSecrets is how many wrong secrets end a connection.
const maxWrongSecrets = 3

// handle does what one line says. It reports false if the connection must be
// closed.
func (c *conn) handle(now lockspace.Time, line []byte) bool {
	r := &c.req
	code := protocol.ParseRequest(line, r)
	switch {
	case code == protocol.CodeVersion:
		c.refuse(r.Op, r.Key, code, protocol.Version)
		return true
	case code != 0 && r.Op == protocol.OpAcquire && r.Key != nil:
		return c.acquire(now, code)
	case code != 0:
		c.refuse(r.Op, r.Key, code, "")
		return r.Op != 0
	}
	switch r.Op {
	case protocol.OpPing:
		c.out.close(protocol.AppendPing(c.out.open(), r.Key), &c.touched)
		return true
	case protocol.OpHello:
		return c.hello()
	}
	if !c.authorized.Load() {
		c.sayUnauthorized("it gives no secret")
		c.refuse(r.Op, r.Key, protocol.CodeUnauthorized, "say hello with the secret first: H 1 name secret")
		return true
	}
	if r.Op == protocol.OpAcquire {
		return c.acquire(now, 0)
	}
	return c.change(now)
}

// acquire passes an acquire to the lock table, a malformed one too (refusal):
// its answer has to wait for its turn.
func (c *conn) acquire(now lockspace.Time, refusal protocol.Code) bool {
	if int(c.unanswered.Load()) >= c.n.cfg.MaxUnanswered {
		c.refuseOverLimit()
		return false
	}
	c.unanswered.Add(1)
	r, sh := &c.req, c.n.shardOfKey(c.req.Key)
	sh.lock(&c.touched)
	if refusal != 0 {
		sh.space.Refuse(now, c.session, 0, r.Key, refusal)
	} else if !sh.gate.Acquire(now, &lockspace.Acquire{
		Session:  c.session,
		Key:      r.Key,
		Wait:     r.Wait,
		Lease:    r.Lease,
		Nonce:    lockspace.MakeNonce(r.Nonce),
		MayQueue: c.n.mayQueue(),
	}, c.n.mayHold()) {
		c.unanswered.Add(-1)
		sh.counts.moved++
		c.out.close(protocol.AppendMoved(c.out.open(), r.Op, r.Key, sh.active), &c.touched)
	}
	sh.finish()
	return true
}

func (c *conn) refuseOverLimit() {
	c.refuse(0, nil, protocol.CodeLimit, "too many unanswered requests on this connection")
}

// change carries out a release, keep or cancel.
func (c *conn) change(now lockspace.Time) bool {
	r, sh := &c.req, c.n.shardOfKey(c.req.Key)
	g := gate.Request{Session: c.session, Op: r.Op, Key: r.Key, Token: r.Token, Lease: r.Lease, Nonce: lockspace.MakeNonce(r.Nonce)}
	sh.lock(&c.touched)
	verdict, code, lease := sh.gate.Do(now, &g, c.n.mayHold())
	sh.settle()
	fits := true
	if verdict == gate.Kept {
		fits = int(c.unanswered.Add(1)) <= c.n.cfg.MaxUnanswered
	} else {
		c.answer(sh, &g, verdict, code, lease)
	}
	sh.finish()
	if !fits {
		c.refuseOverLimit()
	}
	return fits
}

// answer answers a release, keep or cancel. Called with the shard's lock held.
func (c *conn) answer(sh *shard, r *gate.Request, v gate.Verdict, code protocol.Code, lease time.Duration) {
	sh.counts.answer(r.Op, v, code)
	pos := sh.pos
	if v == gate.Moved || v == gate.Refused && tellsNothing(code) {
		pos = 0
	}
	buf := c.out.openAt(pos)
	switch {
	case v == gate.Refused:
		buf = protocol.AppendError(buf, r.Op, r.Key, code, "")
	case v == gate.Moved:
		buf = protocol.AppendMoved(buf, r.Op, r.Key, sh.active)
	case r.Op == protocol.OpRelease:
		buf = protocol.AppendRelease(buf, r.Key, r.Token)
	case r.Op == protocol.OpKeep:
		c.out.told = true
		buf = protocol.AppendKeep(buf, r.Key, r.Token, lease)
	case r.Op == protocol.OpCancel:
		buf = protocol.AppendCancel(buf, r.Key, r.Nonce.Bytes())
	}
	c.out.close(buf, sh.t)
}

// hello checks the secret, where one is asked, and says who answers.
func (c *conn) hello() bool {
	if set := *c.n.secrets.Load(); len(set) > 0 {
		if ok, goOn := c.checkSecret(set); !ok {
			return goOn
		}
	}
	c.authorized.Store(true)
	name := string(c.req.Name)
	c.name.Store(&name)
	node := c.n.cfg.Advertise
	if node == "" {
		node = c.nc.LocalAddr().String()
	}
	profiles := Profiles
	if c.n.cfg.Cluster != nil {
		profiles = ClusterProfiles
	}
	c.out.close(protocol.AppendWelcome(c.out.open(), []byte(node), []byte(profiles)), &c.touched)
	return true
}

// checkSecret refuses a hello without the secret. goOn is false if the
// connection must be closed.
func (c *conn) checkSecret(set [][]byte) (ok, goOn bool) {
	r, n := &c.req, c.n
	refuse := func(text string) { c.refuse(r.Op, r.Key, protocol.CodeUnauthorized, text) }
	if len(r.Secret) == 0 {
		c.sayUnauthorized("it gives no secret")
		refuse("this node asks for a secret: H 1 name secret")
		return false, c.wrong < maxWrongSecrets
	}
	if n.addrs.barred(c.addr, time.Now()) {
		refuse("too many wrong secrets came from this address, try again in a minute")
		return false, false
	}
	if secrets.Any(set, r.Secret) {
		return true, true
	}
	if n.addrs.failed(c.addr, time.Now()) {
		n.barred.Log(n.cfg.Log, slog.LevelWarn, "too many wrong secrets came from an address: it is asked in vain for a while",
			slog.String("address", c.addr.String()), slog.Duration("for", secrets.CountedFor))
	}
	c.wrong++
	c.sayUnauthorized("it gives another secret")
	refuse("wrong secret")
	return false, c.wrong < maxWrongSecrets
}

// sayUnauthorized logs that a client was refused. What it said is not in it: its
// name, too, may be a secret in the wrong place.
func (c *conn) sayUnauthorized(why string) {
	c.n.unauthorized.Log(c.n.cfg.Log, slog.LevelWarn, "a client is refused", slog.String("reason", why), slog.String("remote", remote(c.nc)))
}
