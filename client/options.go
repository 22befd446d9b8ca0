package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"github.com/stile-lock/stile/protocol"
)

type config struct {
	tls        *tls.Config
	secret     string
	name       string
	log        *slog.Logger
	retryFor   time.Duration
	onlyListed bool
	dial       func(ctx context.Context, network, addr string) (net.Conn, error)
	jitter     func(time.Duration) time.Duration
	err        error
}

// Option changes how a client connects. The zero configuration is safe to
// use with a server on a trusted network.
type Option func(*config)

// TLS makes every connection a TLS connection. The certificate is verified
// against the host of the address, also after a redirect. A ServerName in cfg
// stands for the host of every address that was given to [Dial], never for
// one that only a redirect named. Its Certificates, or GetClientCertificate
// for ones that change, are shown to a server that asks for one.
func TLS(cfg *tls.Config) Option {
	return func(c *config) { c.tls = cfg.Clone() }
}

// Secret is sent to the server with the hello: 1 to 255 bytes, each above
// 0x20 and not 0x7F. Without TLS it goes only to addresses that were given to
// [Dial], never to one that a redirect named.
func Secret(secret string) Option {
	return func(c *config) {
		c.secret = secret
		if !protocol.ValidSecret([]byte(secret)) {
			c.err = fmt.Errorf("%w: a secret is 1 to 255 bytes, each above 0x20 and not 0x7F", ErrInvalid)
		}
	}
}

// Name is how the client appears to people who look at the server: 1 to 64
// bytes, each above 0x20 and not 0x7F. The default is "stile-go".
func Name(name string) Option {
	return func(c *config) {
		c.name = name
		if !protocol.ValidName([]byte(name)) {
			c.err = fmt.Errorf("%w: a name is 1 to 64 bytes, each above 0x20 and not 0x7F: %q", ErrInvalid, name)
		}
	}
}

// Logger receives what goes wrong in the background: lost connections, and
// answers that fit no request. The default is silence. No secret and no nonce
// is ever logged.
func Logger(log *slog.Logger) Option {
	return func(c *config) {
		if log != nil {
			c.log = log
		}
	}
}

// RetryFor makes an acquire that found no connection or no active server try
// again for d before it reports so, within its own limit on waiting. One that
// had a place in line tries for d from the loss of it on, however long it had
// waited there. The default is 0: it tries every address and then reports. A
// server that takes over needs a moment, so a few seconds ride out most
// failovers. A server that does not know yet who serves may keep a request for
// 2 seconds; a round of tries that is under way at the end of d is finished.
// Where all servers refuse the secret it reports so at once. It does not
// lengthen [Client.TryAcquire], which has 200 ms in all.
func RetryFor(d time.Duration) Option {
	return func(c *config) {
		c.retryFor = d
		if d < 0 {
			c.err = fmt.Errorf("%w: RetryFor is %v, it must be 0 or more", ErrInvalid, d)
		}
	}
}

// OnlyListed refuses redirects to addresses that were not given to [Dial].
func OnlyListed() Option {
	return func(c *config) { c.onlyListed = true }
}

// Dialer replaces the way connections are made, as for a proxy. The network
// is always "tcp"; dial must return soon after ctx has ended. TLS, if it is
// on, runs over the connection that dial returns.
func Dialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(c *config) {
		if dial != nil {
			c.dial = dial
		}
	}
}

func newConfig(opts []Option) config {
	c := config{
		name:   "stile-go",
		log:    slog.New(slog.DiscardHandler),
		dial:   (&net.Dialer{}).DialContext,
		jitter: jitter,
	}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// jitter spreads the beat by 10 % to each side, so that many clients do not
// come back to a restarted server in step.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// AcquireOption changes one acquire.
type AcquireOption struct {
	kind acquireOption
	d    time.Duration
}

type acquireOption uint8

const (
	optWait acquireOption = iota + 1
	optLease
)

// Wait limits how long the acquire waits for the key: d is rounded up to
// whole milliseconds; 0, the default, is no limit but that of the context;
// anything below 0 does not wait at all, like [Client.TryAcquire].
func Wait(d time.Duration) AcquireOption { return AcquireOption{optWait, d} }

// Lease asks for a lease of d, in whole milliseconds. When it ends without a
// [Lock.Keep], the server takes the key back and hands it to the next in
// line. 0, the default, asks for the server's own default; the server may
// grant less than was asked, never more. Choose several times the longest
// pause you expect from the holder, and short enough to wait out its death.
func Lease(d time.Duration) AcquireOption { return AcquireOption{optLease, d} }

// wholeLease cuts to milliseconds, as the wire does, but never to 0, which
// would ask for the server's default.
func wholeLease(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return max(d.Truncate(time.Millisecond), time.Millisecond)
}

// roundUp rounds up to milliseconds, so that a wait is never shorter than
// the caller's.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

func checkSeconds(what string, d time.Duration) error {
	if d > protocol.MaxSeconds {
		return fmt.Errorf("%w: %s is %v, it can be at most %v", ErrInvalid, what, d, protocol.MaxSeconds)
	}
	if d < 0 {
		return fmt.Errorf("%w: %s is %v, it must not be below 0", ErrInvalid, what, d)
	}
	return nil
}
