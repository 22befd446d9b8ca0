package admin

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/stile-lock/stile/server/internal/secrets"
)

// maxWrong is how many wrong secrets an address may give in a minute. This
// machine's own counts too: a browser may try on behalf of a page.
const maxWrong = 10

// Why a request was refused for want of the secret.
const (
	missing = iota
	wrong
	tooMany
	refusalKinds
)

var refusalNames = [refusalKinds]string{"missing", "wrong", "too-many"}

// reader is for what only reads. On loopback it needs no secret, unless the
// request names another host than this machine: then it may come from a page
// in somebody's browser whose name has been made to resolve to it.
func (s *Server) reader(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.loopback && namesLoopback(r.Host), !s.loopback && len(*s.secrets.Load()) == 0:
			h(w, r)
		case len(*s.secrets.Load()) == 0:
			fail(w, http.StatusForbidden, "forbidden", "the request is for the host "+strconv.Quote(r.Host)+", and this server listens on loopback only: ask for 127.0.0.1 or localhost, or start the node with --admin-secret-file and give the secret")
		case s.authorized(w, r):
			h(w, r)
		}
	})
}

// changer is for what changes something: it needs the secret in any case.
func (s *Server) changer(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case len(*s.secrets.Load()) == 0:
			fail(w, http.StatusForbidden, "forbidden", "this node has no secret by which it could know who may break locks: start the node with --admin-secret-file (or --secret-file)")
		case s.authorized(w, r):
			h(w, r)
		}
	})
}

// authorized checks the secret, and answers if it is not right.
func (s *Server) authorized(w http.ResponseWriter, r *http.Request) bool {
	scheme, given, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		s.refused[missing].Add(1)
		w.Header().Set("WWW-Authenticate", `Bearer realm="stile"`)
		fail(w, http.StatusUnauthorized, "unauthorized", "this needs the admin secret: Authorization: Bearer SECRET")
		return false
	}
	from := source(r)
	now := time.Now()
	if wait := s.wrong.Wait(from, now); wait > 0 {
		s.refused[tooMany].Add(1)
		w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
		fail(w, http.StatusTooManyRequests, "too-many-failures", "too many wrong secrets came from this address: wait "+wait.Round(time.Second).String())
		return false
	}
	if !secrets.Any(*s.secrets.Load(), []byte(given)) {
		s.refused[wrong].Add(1)
		s.wrong.Add(from, now)
		s.sayWrong.Log(s.cfg.Log, slog.LevelWarn, "a request to the admin port has another secret",
			slog.String("remote", r.RemoteAddr), slog.String("path", r.URL.Path))
		w.Header().Set("WWW-Authenticate", `Bearer realm="stile", error="invalid_token"`)
		fail(w, http.StatusUnauthorized, "unauthorized", "the admin secret is another one")
		return false
	}
	return true
}

// namesLoopback reports whether the Host of a request is this machine.
func namesLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// source is where the request came from; not valid if that is no network.
func source(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return secrets.Source(at.Addr())
}
