package node

import (
	"crypto/sha256"
	"crypto/subtle"

	"github.com/stile-lock/stile/protocol"
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
	if !c.authorized {
		c.refuse(r.Op, r.Key, protocol.CodeUnauthorized, "say hello with the secret first: H 1 name secret")
		return true
	}
	switch r.Op {
	case protocol.OpAcquire:
		return c.acquire(now, 0)
	case protocol.OpRelease:
		c.release(now)
	case protocol.OpKeep:
		c.keep(now)
	case protocol.OpCancel:
		c.cancel(now)
	}
	return true
}

// acquire passes an acquire to the lock table, a malformed one too (refusal):
// its answer has to wait for its turn.
func (c *conn) acquire(now lockspace.Time, refusal protocol.Code) bool {
	if int(c.unanswered.Load()) >= c.n.cfg.MaxUnanswered {
		c.refuse(0, nil, protocol.CodeLimit, "too many unanswered requests on this connection")
		return false
	}
	c.unanswered.Add(1)
	r, sh := &c.req, c.n.shardOf(c.req.Key)
	sh.mu.Lock()
	if sh.stopping && refusal == 0 {
		refusal = protocol.CodeStopping
	}
	if refusal != 0 {
		sh.space.Refuse(now, c.session, 0, r.Key, refusal)
	} else {
		sh.space.Acquire(now, lockspace.Acquire{
			Session:  c.session,
			Key:      r.Key,
			Wait:     r.Wait,
			Lease:    r.Lease,
			Nonce:    lockspace.MakeNonce(r.Nonce),
			MayQueue: c.n.waiting.Load() < int64(c.n.cfg.MaxWaiters),
		})
	}
	sh.finish(&c.touched)
	sh.mu.Unlock()
	return true
}

func (c *conn) release(now lockspace.Time) {
	r, sh := &c.req, c.n.shardOf(c.req.Key)
	sh.mu.Lock()
	held := sh.space.Release(now, r.Key, r.Token)
	sh.finish(&c.touched)
	sh.mu.Unlock()
	if !held {
		c.refuse(r.Op, r.Key, protocol.CodeNotHeld, "")
		return
	}
	c.out.close(protocol.AppendRelease(c.out.open(), r.Key, r.Token), &c.touched)
}

func (c *conn) keep(now lockspace.Time) {
	r, sh := &c.req, c.n.shardOf(c.req.Key)
	sh.mu.Lock()
	lease, held := sh.space.Keep(now, r.Key, r.Token, r.Lease)
	sh.finish(&c.touched)
	sh.mu.Unlock()
	if !held {
		c.refuse(r.Op, r.Key, protocol.CodeNotHeld, "")
		return
	}
	c.out.close(protocol.AppendKeep(c.out.open(), r.Key, r.Token, lease), &c.touched)
}

func (c *conn) cancel(now lockspace.Time) {
	r, sh := &c.req, c.n.shardOf(c.req.Key)
	sh.mu.Lock()
	sh.space.Cancel(now, r.Key, lockspace.MakeNonce(r.Nonce))
	sh.finish(&c.touched)
	sh.mu.Unlock()
	c.out.close(protocol.AppendCancel(c.out.open(), r.Key, r.Nonce), &c.touched)
}

// hello checks the secret, where one is asked, and says who answers.
func (c *conn) hello() bool {
	r := &c.req
	if secret := c.n.cfg.Secret; len(secret) > 0 && !sameSecret(secret, r.Secret) {
		text := "this node asks for a secret: H 1 name secret"
		if len(r.Secret) > 0 {
			c.wrong++
			text = "wrong secret"
		}
		c.refuse(r.Op, r.Key, protocol.CodeUnauthorized, text)
		return c.wrong < maxWrongSecrets
	}
	c.authorized = true
	node := c.n.cfg.Advertise
	if node == "" {
		node = c.nc.LocalAddr().String()
	}
	c.out.close(protocol.AppendWelcome(c.out.open(), []byte(node), []byte(Profiles)), &c.touched)
	return true
}

// sameSecret takes the same time whatever the difference, in length too.
func sameSecret(want, got []byte) bool {
	a, b := sha256.Sum256(want), sha256.Sum256(got)
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
