// Package fencehttp carries the grant of a lock from a holder to an HTTP
// server, which refuses it if it is stale.
//
// The holder puts the grant into the context of the request, and [Transport]
// sends it in the header [Header]:
//
//	hc := &http.Client{Transport: &fencehttp.Transport{}}
//	req, err := http.NewRequestWithContext(fencehttp.WithGrant(ctx, lock), "PUT", url, body)
//	resp, err := hc.Do(req)
//	if err != nil {
//		return err
//	}
//	defer resp.Body.Close()
//	if err := fencehttp.ResponseError(resp); err != nil {
//		return err // fence.ErrStale: somebody else holds the key by now
//	}
//	if resp.StatusCode/100 != 2 {
//		return errors.New(resp.Status) // neither was it written
//	}
//
// The server wraps its handler in a [Middleware], which answers 409 with a
// problem+json body (RFC 9457) in the place of the handler.
//
// A server that keeps its data in a database leaves Middleware.Guard out,
// checks the grant of [FromContext] in its transaction, and lets
// [WriteProblem] answer the error. So does one of which several replicas run,
// or whose data outlives it: a [fence.Guard] is in memory, of one process.
package fencehttp

import (
	"context"
	"log"
	"net/http"
	"strconv"
	"strings"

	"github.com/stile-lock/stile/client/fence"
)

// Header is the name of the header. Its value is the text of
// [fence.FormatGrant]: the token, a space, and the key, percent-encoded.
const Header = "Fencing-Token"

type contextKey struct{}

// carried tells a grant that is nil from none.
type carried struct{ fence.Grant }

// WithGrant returns a context with the grant: for [Transport], of a request to
// send; in a server, of a request that came with it. A request with one that is
// nil is not sent: a lock that was not acquired must not become a write without
// a token.
func WithGrant(ctx context.Context, grant fence.Grant) context.Context {
	return context.WithValue(ctx, contextKey{}, carried{grant})
}

// FromContext returns the grant of [WithGrant]. There is none (false) in a
// request that [Middleware] let through unguarded.
func FromContext(ctx context.Context) (fence.Grant, bool) {
	c, _ := ctx.Value(contextKey{}).(carried)
	return c.Grant, c.Grant != nil
}

// Transport sends the grant of a request's context in [Header], also after a
// redirect within its host. Once a redirect leads to another host the header is
// left out, as credentials are. Requests without a grant go out as they are.
type Transport struct {
	// Base sends the requests; nil: [http.DefaultTransport].
	Base http.RoundTripper
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// CloseIdleConnections is that of the base, if it has such a method.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// RoundTrip sends the request.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.base()
	c, ok := req.Context().Value(contextKey{}).(carried)
	if !ok {
		return base.RoundTrip(req)
	}
	if err := fence.Validate(c.Grant); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	req = req.Clone(req.Context()) // the caller's stays as it is
	if elsewhere(req) {
		req.Header.Del(Header)
	} else {
		req.Header.Set(Header, fence.FormatGrant(c.Grant))
	}
	return base.RoundTrip(req)
}

// elsewhere reports whether a redirect has led away from the host that the
// request was made for, even if a later one has led back. Where the base does
// not say which request it has answered, no redirect is followed with a grant.
func elsewhere(req *http.Request) bool {
	for r := req; r.Response != nil; r = r.Response.Request {
		if r.Response.Request == nil || !strings.EqualFold(r.URL.Hostname(), r.Response.Request.URL.Hostname()) {
			return true
		}
	}
	return false
}

// Guard is a [fence.Guard], or something like it: it runs write if the grant
// is not stale, with nothing of the same key in between.
type Guard interface {
	Do(ctx context.Context, grant fence.Grant, write func() error) error
}

// Middleware lets only requests to a handler that come with a grant that is
// not stale.
//
// With a Guard, requests of one key are handled one at a time, each with its
// check in one step. So:
//
//   - One that hangs holds up the next holder, lease or not: as that of a
//     holder which was paused while it sends, or takes what is sent to it. Set
//     MaxBody, or a ReadTimeout of the [http.Server] that is not longer than
//     the lease; and a WriteTimeout.
//   - A handler must not go on writing after it has returned, when the next one
//     may run. [http.TimeoutHandler] returns before its handler does: it
//     belongs around what Wrap returns, never within.
//   - A handler must not call the same guard for the same key, for which it
//     would wait until its request ends. The check is done.
type Middleware struct {
	// Key tells which lock guards what the request writes. A request for which
	// it returns "" is let through without looking, as those that only read
	// may be.
	Key func(*http.Request) string

	// Guard checks the grant and runs the handler. nil: the handler checks by
	// itself.
	Guard Guard

	// MaxBody: above 0, a guarded request is read to its end before the guard
	// is asked, so that it holds up nobody while it arrives. That is the most
	// bytes its body may have. 0: the handler reads, within its turn.
	MaxBody int64
}

// Wrap returns the guarded handler. It answers in next's place:
//
//   - 409 with [ProblemStale] if the token is stale;
//   - 428 with [ProblemMissing] if a request that is guarded has no grant;
//   - 400 with [ProblemInvalid] if what it has is no grant, is more than one,
//     or is one of another key than that which guards the request;
//   - 413, 408 or 400 with [ProblemBody] if the body is longer than MaxBody,
//     late, or ends early;
//   - 503 with [ProblemUnchecked] if the guard failed in another way.
//
// A guard may also fail after the handler has answered, as one that commits
// does. Then the answer may be wrong: it is cut off ([http.ErrAbortHandler]),
// and the error is written to the server's log.
//
// Handlers get the grant from [FromContext]. Wrap panics if there is no Key.
func (m Middleware) Wrap(next http.Handler) http.Handler {
	if m.Key == nil {
		panic("fencehttp: Middleware.Key is nil: it says which lock guards a request")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := m.Key(r)
		if key == "" {
			next.ServeHTTP(w, r)
			return
		}
		grant, p := read(r, key)
		if p != nil {
			p.write(w)
			return
		}
		r = r.WithContext(WithGrant(r.Context(), grant))
		if m.MaxBody > 0 {
			if p := readBody(w, r, m.MaxBody); p != nil {
				p.write(w)
				return
			}
		}
		if m.Guard == nil {
			next.ServeHTTP(w, r)
			return
		}
		handled := false
		err := m.Guard.Do(r.Context(), grant, func() error {
			handled = true
			next.ServeHTTP(w, r)
			return nil
		})
		switch {
		case err == nil:
		case handled:
			logf(r, "fencehttp: the guard of %q failed after the handler had run: %v", key, err)
			panic(http.ErrAbortHandler)
		case !WriteProblem(w, err):
			unchecked(err).write(w)
		}
	})
}

// logf writes to the log of the server that serves the request.
func logf(r *http.Request, format string, args ...any) {
	if s, _ := r.Context().Value(http.ServerContextKey).(*http.Server); s != nil && s.ErrorLog != nil {
		s.ErrorLog.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}

// read gets the grant of the header, which has to be one of the key.
func read(r *http.Request, key string) (fence.Grant, *problem) {
	values := r.Header.Values(Header)
	switch len(values) {
	case 0:
		return nil, missing(key)
	case 1:
	default:
		return nil, invalid("the request has more than one header " + Header)
	}
	grant, err := fence.ParseGrant(values[0])
	if err != nil {
		return nil, invalid("header " + Header + ": " + err.Error())
	}
	if grant.Key() != key {
		return nil, invalid("the token is one of " + strconv.Quote(grant.Key()) + ", but what the request writes is guarded by " + strconv.Quote(key))
	}
	return grant, nil
}
