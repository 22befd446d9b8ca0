package cli

import (
	"crypto/tls"
	"crypto/x509"
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
	of := func(c x509.Certificate) []client.AddrError {
		err := &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Cert: &c, Reason: x509.Expired}}
		return []client.AddrError{{Addr: "a:1", Reason: "TLS", Err: fmt.Errorf("TLS: %w", err)}}
	}
	ended := of(x509.Certificate{NotAfter: time.Now().Add(-time.Hour)})
	endedCA := of(x509.Certificate{NotAfter: time.Now().Add(-time.Hour), IsCA: true})
	early := of(x509.Certificate{NotBefore: time.Now().Add(time.Hour), NotAfter: time.Now().Add(2 * time.Hour)})
	there := []client.AddrError{{Addr: "a:1", Reason: "connection refused"}, {Addr: "b:1", Reason: "connected"}}
	redirects := []client.AddrError{{Addr: "a:1", Reason: "connected; redirects"}}
	silent := []client.AddrError{{Addr: "a:1", Reason: "connected, but no answer to the hello in time"}}
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
		{&client.Error{Op: "acquire", Key: "k", Err: client.ErrTimeout, Unserved: true, Addrs: there}, 122, "stile status"},
		{&client.Error{Op: "release", Key: "k", Err: client.ErrUndelivered, Addrs: redirects}, 122, "stile status"},
		{&client.Error{Op: "keep", Key: "k", Err: client.ErrNoConnection, Addrs: there}, 122, "stile status"},
		{&client.Error{Op: "keep", Key: "k", Err: client.ErrNoConnection, Addrs: silent}, 122, "--addrs"},
		{&client.Error{Op: "acquire", Key: "k", Err: client.ErrNoConnection, Addrs: ended}, 125, "has expired: renew it on the node"},
		{&client.Error{Op: "acquire", Key: "k", Err: client.ErrNoConnection, Addrs: endedCA}, 125, "authority's certificate has expired"},
		{&client.Error{Op: "acquire", Key: "k", Err: client.ErrNoConnection, Addrs: early}, 125, "not valid yet"},
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
