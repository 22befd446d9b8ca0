// Package fencehttp carries the grant of a lock from a holder to an HTTP
// server, which refuses it if it is stale.
//
// The holder puts the grant into the context of the request, and [Transport]
// sends it in the header [Header]:
//
//	hc := &http.Client{Transport: &fencehttp.Transport{}}
//	req, err := http.NewRequestWithContext(fencehttp.WithGrant(ctx, lock), "PUT", url, body)
//	resp, err := hc.Do(req)
//	if err == nil {
//		err = fencehttp.ResponseError(resp) // matches fence.ErrStale
//	}
//
// The server wraps its handler in a [Middleware], which answers 409 with a
// problem+json body (RFC 9457) in the place of the handler.
//
// A server that keeps its data in a database leaves Middleware.Guard out,
// checks the grant of [FromContext] in its transaction, and lets
// [WriteProblem] answer the error.
package fencehttp

import (
	"context"
	"net/http"
	"strconv"

	"github.com/stile-lock/stile/client/fence"
)

// Header is the name of the header. Its value is the text of
// [fence.FormatGrant]: the token, a space, and the key, percent-encoded.
const Header = "Fencing-Token"

type contextKey struct{}

// WithGrant returns a context with the grant: for [Transport], of a request to
// send; in a server, of a request that came with it.
func WithGrant(ctx context.Context, grant fence.Grant) context.Context {
	return context.WithValue(ctx, contextKey{}, grant)
}

// FromContext returns the grant of [WithGrant]. There is none (false) in a
// request that [Middleware] let through unguarded.
func FromContext(ctx context.Context) (fence.Grant, bool) {
	grant, ok := ctx.Value(contextKey{}).(fence.Grant)
	return grant, ok
}

// Transport sends the grant of a request's context in [Header], also after a
// redirect. Requests without one go out as they are.
type Transport struct {
	// Base sends the requests; nil: [http.DefaultTransport].
	Base http.RoundTripper
}

// RoundTrip sends the request.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	grant, ok := FromContext(req.Context())
	if !ok {
		return base.RoundTrip(req)
	}
	if err := fence.Validate(grant); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	req = req.Clone(req.Context()) // the caller's stays as it is
	req.Header.Set(Header, fence.FormatGrant(grant))
	return base.RoundTrip(req)
}

// Guard is a [fence.Guard], or something like it: it runs write if the grant
// is not stale, with nothing of the same key in between.
type Guard interface {
	Do(ctx context.Context, grant fence.Grant, write func() error) error
}

// Middleware lets only requests to a handler that come with a grant that is
// not stale.
type Middleware struct {
	// Key tells which lock guards what the request writes. A request for which
	// it returns "" is let through without looking, as those that only read
	// may be.
	Key func(*http.Request) string

	// Guard checks the grant and runs the handler. Then requests of one key are
	// handled one at a time, each with its check in one step; one that hangs
	// holds up the others. nil: the handler checks by itself.
	Guard Guard
}

// Wrap returns the guarded handler. It answers in next's place:
//
//   - 409 with [ProblemStale] if the token is stale;
//   - 428 with [ProblemMissing] if a request that is guarded has no grant;
//   - 400 with [ProblemInvalid] if what it has is no grant, is more than one,
//     or is one of another key than that which guards the request;
//   - 503 with [ProblemUnchecked] if the guard failed in another way.
//
// Handlers get the grant from [FromContext].
func (m Middleware) Wrap(next http.Handler) http.Handler {
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
		if err != nil && !handled && !WriteProblem(w, err) {
			unchecked(err).write(w)
		}
	})
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
