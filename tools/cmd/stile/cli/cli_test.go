package cli

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/tools/cmd/stile/adminapi"
)

func TestExplain(t *testing.T) {
	unauthorized := &client.ServerError{Code: protocol.CodeUnauthorized, Name: "unauthorized"}
	addrs := []client.AddrError{{Addr: "a:1", Reason: "refused"}}
	unknown := []client.AddrError{{Addr: "a:1", Reason: "TLS", Err: fmt.Errorf("TLS: %w", &tls.CertificateVerificationError{Err: errors.New("unknown authority")})}}
	overTLS := []client.AddrError{{Addr: "a:1", Reason: "reset", Err: fmt.Errorf("reset: %w", &client.ServerError{Code: protocol.CodeBadRequest, Text: "this node speaks TLS"})}}
	refused := []client.AddrError{{Addr: "a:1", Reason: "hello refused", Err: fmt.Errorf("hello refused: %w", unauthorized)}}
	for _, test := range []struct {
		err    error
		status int
		say    string
	}{
		{&client.Error{Op: "acquire", Key: "k", Err: client.ErrTimeout}, 121, "not granted"},
		{&client.Error{Op: "acquire", Key: "k", Err: client.ErrTimeout, Unserved: true, Addrs: addrs}, 122, `acquire "k": no server served in time (a:1: refused)`},
		{&client.Error{Op: "acquire", Key: "k", Err: client.ErrTimeout, Unserved: true, Addrs: unknown}, 125, "--tls-ca"},
		{&client.Error{Op: "acquire", Key: "k", Err: client.ErrNoConnection, Addrs: overTLS}, 125, "--tls-ca"},
		{&client.Error{Op: "acquire", Key: "k", Err: client.ErrNoConnection, Addrs: addrs}, 122, "--addrs"},
		{&client.Error{Op: "acquire", Key: "k", Err: client.ErrNoConnection, Addrs: refused}, 125, "--secret-file"},
		{&client.Error{Op: "acquire", Key: "k", Err: client.ErrNoActive, Addrs: addrs}, 122, "stile status"},
		{&client.Error{Op: "release", Key: "k", Err: client.ErrUndelivered, Addrs: addrs}, 122, "it may have happened"},
		{&client.Error{Op: "release", Key: "k", Err: client.ErrNotHeld, Outcome: client.DidNotHappen}, 123, `release "k": not held under this token (any more): the lease has ended`},
		{&client.Error{Op: "release", Key: "k", Err: client.ErrNotHeld, Outcome: client.MayHaveHappened}, 123, "an earlier try"},
		{&client.Error{Op: "keep", Key: "k", Err: client.ErrLeaseLost}, 123, "lost"},
		{&client.Error{Op: "acquire", Key: "?", Err: client.ErrBadKey}, 125, "1 to 255 bytes"},
		{unauthorized, 125, "--secret-file"},
		{&adminapi.Error{Addr: "a:1", Status: 429, Code: "too-many", Message: "later"}, 125, "a:1: too-many: later"},
		{failed(7, "no %s", "way"), 7, "no way"},
		{&exitError{status: 130}, 130, ""},
	} {
		status, text := explain(test.err)
		if status != test.status || !strings.Contains(text, test.say) || strings.HasPrefix(text, "stile:") {
			t.Errorf("%v: %d %q, want %d and %q", test.err, status, text, test.status, test.say)
		}
	}
}

func TestProblems(t *testing.T) {
	alone := func(addr string) adminapi.Answer[adminapi.Status] {
		return adminapi.Answer[adminapi.Status]{Addr: "admin-" + addr, Got: &adminapi.Status{Addr: addr}}
	}
	member := func(addr, mode string, peers ...adminapi.Peer) adminapi.Answer[adminapi.Status] {
		return adminapi.Answer[adminapi.Status]{Addr: "admin-" + addr, Got: &adminapi.Status{Addr: addr, Cluster: &adminapi.Cluster{Mode: mode, Peers: peers}}}
	}
	standby := func(addr string, active int) adminapi.Answer[adminapi.Status] {
		n := member(addr, "redirect", adminapi.Peer{ID: 0, Addr: "a", Reached: true}, adminapi.Peer{ID: 1, Addr: "b", Reached: true})
		n.Got.Cluster.ID, n.Got.Cluster.Active = 2, active
		return n
	}
	dead := adminapi.Answer[adminapi.Status]{Addr: "admin-z", Err: errors.New("admin-z: refused")}
	for name, test := range map[string]struct {
		nodes []adminapi.Answer[adminapi.Status]
		want  []string // in the problems, in this order
	}{
		"one alone": {[]adminapi.Answer[adminapi.Status]{alone("a")}, nil},
		"two alone": {[]adminapi.Answer[adminapi.Status]{alone("a"), alone("b")}, []string{"know nothing of each other"}},
		"all well":  {[]adminapi.Answer[adminapi.Status]{member("a", "serve", adminapi.Peer{Addr: "b", Reached: true}), member("b", "redirect", adminapi.Peer{Addr: "a", Reached: true})}, nil},
		"two serve": {[]adminapi.Answer[adminapi.Status]{member("a", "serve"), member("b", "serve")}, []string{"at the same time"}},
		"two serve, one is a misfit": {
			[]adminapi.Answer[adminapi.Status]{member("a", "serve", adminapi.Peer{Addr: "b", There: true, Problem: "no TLS"}), member("b", "serve")},
			[]string{"a says of b: no TLS", "there can be no link between them"},
		},
		"none serves": {[]adminapi.Answer[adminapi.Status]{member("a", "refuse"), member("b", "hold")}, []string{"no node serves"}},
		"one is dead": {[]adminapi.Answer[adminapi.Status]{member("a", "serve", adminapi.Peer{Addr: "z"}), dead}, []string{"a does not reach z", "admin-z: refused"}},
		"a problem":   {[]adminapi.Answer[adminapi.Status]{member("a", "serve", adminapi.Peer{Addr: "z", Problem: "other\x1bversion"})}, []string{`a says of z: "other\x1bversion"`}},
		"problems of nodes": {
			[]adminapi.Answer[adminapi.Status]{{Addr: "admin-a", Got: &adminapi.Status{Addr: "a", Role: "active", Problems: []string{"one", "two\x1b"}}}},
			[]string{"a: one", `a: "two\x1b"`},
		},
		"active alone asked": {[]adminapi.Answer[adminapi.Status]{member("a", "serve", adminapi.Peer{Addr: "b", Reached: true})}, nil},
		"one standby asked":  {[]adminapi.Answer[adminapi.Status]{standby("c", 0)}, []string{"the active is the node at a, which was not"}},
		"active is silent":   {[]adminapi.Answer[adminapi.Status]{standby("c", 0), dead}, []string{"admin-z: refused", "no node that answered serves: the active is the node at a"}},
		"none knows one":     {[]adminapi.Answer[adminapi.Status]{standby("c", -1)}, []string{"none knows one that does; a or b was not asked"}},
	} {
		got := problems(test.nodes)
		if len(got) != len(test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
			continue
		}
		for i, w := range test.want {
			if !strings.Contains(got[i], w) {
				t.Errorf("%s: %q, want %q", name, got[i], w)
			}
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1234 * time.Millisecond: "1.2s", 61*time.Second + 400*time.Millisecond: "1m1s",
		3*time.Hour + 5*time.Minute + 6*time.Second: "3h5m", 50 * time.Hour: "2d2h",
	} {
		if got := short(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{"a/b": "a/b", "é": "é", "a\x1b[2J": `"a\x1b[2J"`, "\xff": `"\xff"`, "a\u202eb": `"a\u202eb"`} {
		if got := printable(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// Nothing that a key or a client's name contains reaches the terminal.
func TestJSONIsPlain(t *testing.T) {
	var out strings.Builder
	a := &app{Streams: Streams{Out: &out}}
	odd := "a\u009b2J\u0085é\x1b[2J\u00a0z"
	if err := a.json(odd); err != nil {
		t.Fatal(err)
	}
	for _, r := range out.String() {
		if unicode.IsControl(r) && r != '\n' {
			t.Errorf("%U in %q", r, out.String())
		}
	}
	var back string
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back != odd {
		t.Errorf("%q, %v", back, err)
	}
}
