package packaging

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stile-lock/stile/server/config"
)

// settings is what stiled makes of these flags and this environment, with the
// files that the replacer says in place of those named.
func settings(t *testing.T, args []string, env map[string]string, files *strings.Replacer) *config.Config {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "STILE_") {
			t.Setenv(name, value) // puts it back afterwards
			os.Unsetenv(name)
		}
	}
	for name, value := range env {
		t.Setenv(name, files.Replace(value))
	}
	replaced := make([]string, len(args))
	for i, a := range args {
		replaced[i] = files.Replace(a)
	}
	c, err := config.Parse(replaced, io.Discard)
	if err != nil {
		t.Fatalf("stiled %q, %v: %v", args, env, err)
	}
	return c
}

// secrets is a directory with the three secrets, in files that a group may read.
func secrets(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"clients", "admin", "cluster"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("secret-of-"+name+"\n"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// member checks that a node knows its place in a cluster of three, whose nodes,
// clients and operators have a secret each, and that it has nothing to warn of.
func member(t *testing.T, c *config.Config, self int) {
	t.Helper()
	if len(c.PeerList) != 3 || c.Self != self {
		t.Errorf("node %d of %v, want %d of three", c.Self, c.PeerList, self)
	}
	if len(c.Secrets) != 1 || string(c.Secrets[0]) != "secret-of-clients" || string(c.ClusterSecret) != "secret-of-cluster" {
		t.Errorf("the secrets are %q and %q", c.Secrets, c.ClusterSecret)
	}
	if len(c.AdminSecrets) != 1 || string(c.AdminSecrets[0]) != "secret-of-admin" {
		t.Errorf("whoever has one of %q can break locks", c.AdminSecrets)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("it warns of %q", c.Warnings)
	}
}
