package config

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stile-lock/stile/server/internal/testca"
)

func TestTLSSettings(t *testing.T) {
	clean(t)
	ca := testca.New(t, "ours")
	cert, key := ca.Issue("node", []string{"127.0.0.1"}, nil)
	files := []string{"--tls-cert", cert, "--tls-key", key}
	with := func(more ...string) []string { return append(append([]string(nil), files...), more...) }

	if c := parse(t, files...); c.TLS == nil || c.TLS.Mutual() || len(c.Warnings) > 0 {
		t.Errorf("%+v", c)
	}
	if c := parse(t, with("--tls-client-ca", ca.File)...); c.TLS == nil || !c.TLS.Mutual() {
		t.Errorf("%+v", c)
	}
	// Who must show a certificate is no stranger.
	peers := "--peers=127.0.0.1:5625,10.0.0.2:5625"
	for _, args := range [][]string{
		with("--tls-client-ca", ca.File, "--listen=:5625"),
		with("--tls-client-ca", ca.File, "--listen=:5625", "--advertise=127.0.0.1:5625", peers),
	} {
		if c := parse(t, args...); len(c.Warnings) > 0 {
			t.Errorf("%q: %q", args, c.Warnings)
		}
	}
	refused(t, with("--tls-ca", ca.File), "--tls-ca "+ca.File, "no --peers", "remove --tls-ca")
	for _, tt := range []struct {
		args  []string
		parts []string
	}{
		{[]string{"--tls-cert", cert}, []string{"--tls-cert needs --tls-key"}},
		{[]string{"--tls-key", key}, []string{"--tls-key needs --tls-cert"}},
		{[]string{"--tls-client-ca", ca.File}, []string{"--tls-client-ca needs --tls-cert"}},
		{[]string{"--tls-ca", ca.File}, []string{"--tls-ca needs --tls-cert"}},
		{[]string{"--tls-cert=/nowhere", "--tls-key", key}, []string{"--tls-cert /nowhere"}},
		{with("--tls-client-ca=/nowhere"), []string{"--tls-client-ca", "/nowhere"}},
		{with("--listen=:5625"), []string{"--secret-file or --tls-client-ca", "--insecure"}},
		{with("--listen=:5625", "--advertise=127.0.0.1:5625", "--secret-file", file(t, "open-sesame"), peers), []string{"--cluster-secret-file or --tls-client-ca"}},
		{with("--tls-client-ca", ca.File, "--listen=127.0.0.2:5625", "--peers=127.0.0.1:5625,127.0.0.2:5625"), []string{"the peers dial this node as 127.0.0.2", cert}},
		{with("--handshake-timeout=999ms"), []string{"--handshake-timeout", "1s to 1m0s"}},
		{with("--handshake-timeout=61s"), []string{"--handshake-timeout"}},
		{with("--hello-timeout=59s"), []string{"--hello-timeout", "1m0s to"}},
		{with("--max-wrong-secrets=-1"), []string{"--max-wrong-secrets"}},
		{with("--max-connections-per-address=-1"), []string{"--max-connections-per-address"}},
	} {
		refused(t, tt.args, tt.parts...)
	}
}

// Of a node alone it is warned of a certificate for another host than clients
// dial, as far as that is known.
func TestCertificateOfALoneNode(t *testing.T) {
	clean(t)
	ca := testca.New(t, "ours")
	cert, key := ca.Issue("node", []string{"lock1.example", "127.0.0.1"}, nil)
	for _, tt := range []struct {
		args []string
		host string // that it is warned of
	}{
		{nil, ""},
		{[]string{"--listen=127.0.0.2:0"}, "127.0.0.2"},
		{[]string{"--listen=localhost:0"}, "localhost"},
		{[]string{"--listen=127.0.0.2:0", "--advertise=lock1.example:5625"}, ""},
		{[]string{"--advertise=lock2.example:5625"}, "lock2.example"},
		{[]string{"--listen=:0", "--insecure"}, ""},
		{[]string{"--listen=[::]:0", "--insecure"}, ""},
		{[]string{"--listen=127.0.0.2:5625", "--peers=127.0.0.2:5625"}, "127.0.0.2"},
	} {
		c := parse(t, append([]string{"--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.File}, tt.args...)...)
		if tt.host == "" && len(c.Warnings) > 0 || tt.host != "" && (len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "is not for "+tt.host+",")) {
			t.Errorf("%q: %q", tt.args, c.Warnings)
		}
	}
}

func lines(set [][]byte) string { return string(bytes.Join(set, []byte(","))) }

func TestReload(t *testing.T) {
	clean(t)
	ca := testca.New(t, "ours")
	cert, key := ca.Issue("node", []string{"127.0.0.1"}, nil)
	secret, cluster := file(t, "one\n"), file(t, "two\n")
	c := parse(t, "--tls-cert", cert, "--tls-key", key, "--secret-file", secret, "--cluster-secret-file", cluster, "--peers=127.0.0.1:5625")
	write := func(name, content string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(secret, "three\nfour\n", 0o600)
	write(cluster, "not one word\n", 0o600)
	before := c.TLS.Leaf().SerialNumber
	ca.Issue("node", []string{"127.0.0.1"}, nil)
	if err := os.Chmod(secret, 0o644); err != nil {
		t.Fatal(err)
	}
	all := c.Reload()
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	if r := all[0]; r.Err != nil || lines(r.Secrets) != "three,four" || lines(r.AdminSecrets) != "three,four" || r.ClusterSecret != nil || len(r.Warnings) != 1 {
		t.Errorf("the secret: %+v", r)
	}
	if r := all[1]; r.Err == nil || !strings.Contains(r.Err.Error(), cluster) || strings.Contains(r.Err.Error(), "word") || r.ClusterSecret != nil {
		t.Errorf("the cluster's: %+v", r)
	}
	if r := all[2]; r.Err != nil || !r.Certificate || c.TLS.Leaf().SerialNumber.Cmp(before) == 0 {
		t.Errorf("the certificate: %+v", r)
	}
	write(cert, "", 0o600)
	before = c.TLS.Leaf().SerialNumber
	if r := c.Reload()[2]; r.Err == nil || r.Certificate || c.TLS.Leaf().SerialNumber.Cmp(before) != 0 {
		t.Errorf("a broken certificate: %+v", r)
	}
	c = parse(t, "--secret-file", secret, "--admin-secret-file", file(t, "four\n"))
	if all := c.Reload(); len(all) != 2 || all[0].AdminSecrets != nil || lines(all[0].Secrets) != "three,four" || lines(all[1].AdminSecrets) != "four" || all[1].Secrets != nil {
		t.Errorf("the admin's: %+v", all)
	}
	if all := parse(t).Reload(); len(all) > 0 {
		t.Errorf("nothing to read: %+v", all)
	}
}
