package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// stiledOnce runs stiled, which must end by itself, with an environment.
func stiledOnce(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(mustStiled(t), args...)
	cmd.Env = append(cleanEnv(), env...)
	cmd.Dir = t.TempDir()
	p := launch(t, cmd)
	p.status(patience)
	if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 {
		t.Errorf("%q left %v behind", args, left)
	}
	return p
}

func TestWrongSettings(t *testing.T) {
	t.Parallel()
	yaml := func(content string) string {
		name := filepath.Join(t.TempDir(), "stiled.yaml")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	typo := yaml("listen: 127.0.0.1:0\nmax-lese: 2h\n")
	for _, tt := range []struct {
		env   []string
		args  []string
		parts []string
	}{
		{nil, []string{"--max-leas=2h"}, []string{"--max-leas", "--max-lease"}},
		{nil, []string{"--max-lease=soon"}, []string{"--max-lease", "soon"}},
		{nil, []string{"--max-lease=1s"}, []string{"--max-lease", "1m0s to"}},
		{nil, []string{"--log-level=loud"}, []string{"--log-level", "debug"}},
		{nil, []string{"--listen=:5625"}, []string{"--listen", "--secret-file", "--insecure"}},
		{nil, []string{"--secret-file=/nowhere"}, []string{"--secret-file", "/nowhere"}},
		{nil, []string{"serve"}, []string{"serve"}},
		{[]string{"STILE_MAX_LESE=1h"}, nil, []string{"STILE_MAX_LESE", "STILE_MAX_LEASE"}},
		{[]string{"STILE_MAX_WAITERS=many"}, nil, []string{"STILE_MAX_WAITERS", "many"}},
		{nil, []string{"--config", typo}, []string{typo, "line 2", "max-lese", "max-lease"}},
		{[]string{"STILE_CONFIG=" + typo}, nil, []string{typo, "line 2", "max-lese"}},
		{nil, []string{"--config=/nowhere.yaml"}, []string{"/nowhere.yaml"}},
	} {
		p := stiledOnce(t, tt.env, tt.args...)
		if status := p.cmd.ProcessState.ExitCode(); status != 2 {
			t.Errorf("%q %q: exit status %d, want 2", tt.env, tt.args, status)
		}
		said := p.stderr()
		if strings.Count(said, "\n") > 0 || !strings.HasPrefix(said, "stiled: ") {
			t.Errorf("%q %q: want one line, got:\n%s", tt.env, tt.args, said)
		}
		for _, part := range tt.parts {
			if !strings.Contains(said, part) {
				t.Errorf("%q %q: want %q in: %s", tt.env, tt.args, part, said)
			}
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for flag, part := range map[string]string{"--version": "stiled ", "--help": "--state-dir", "-h": "STILE_STATE_DIR"} {
		p := stiledOnce(t, nil, flag)
		if status := p.cmd.ProcessState.ExitCode(); status != 0 || !strings.Contains(p.stdout.String(), part) || p.stderr() != "" {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q", flag, status, p.stdout.String(), p.stderr())
		}
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	n := start(t)
	dir := t.TempDir()
	refusesToStart(t, mustStiled(t), dir, 1, []string{"--listen", n.addr}, "--listen "+n.addr, "in use")
	refusesToStart(t, mustStiled(t), dir, 1, []string{"--admin", n.admin}, "--admin "+n.admin, "in use", "--admin=")
	if _, err := os.Stat(filepath.Join(dir, "epoch")); err == nil {
		t.Error("a start that failed took an epoch")
	}
}

// Settings reach the node from all three places.
func TestSettingsReachTheNode(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "stiled.yaml")
	if err := os.WriteFile(name, []byte("max-lease: 2m\ndefault-lease: 7s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := stiledCmd(mustStiled(t), dir, "--config", name, "--advertise=stile.example:5625", "--admin=")
	cmd.Env = append(cleanEnv(), "STILE_DEFAULT_LEASE=1.5s", "STILE_SERVICE_HOST=10.0.0.1")
	p := launch(t, cmd)
	said := p.waitFor("stiled serves")
	if strings.Contains(said, `"admin"`) || !strings.Contains(said, `"advertise":"stile.example:5625"`) || !strings.Contains(said, `"secret":false`) {
		t.Errorf("the start line is %s", said)
	}
	_, addr, _ := strings.Cut(said, `"listen":"`)
	addr, _, _ = strings.Cut(addr, `"`)
	c := (&node{process: p, addr: addr}).dial()
	c.send("A a -1 0")
	if line := c.line(); !strings.HasSuffix(line, " 1.5") {
		t.Errorf("default lease: %s", line)
	}
	c.send("A b -1 999999")
	if line := c.line(); !strings.HasSuffix(line, " 120") {
		t.Errorf("longest lease: %s", line)
	}
	c.send("H 1 me")
	c.want("H 1 stile.example:5625 core,keep,ping,hello,resume")
}

// Who listens beyond loopback without a secret is told so at every start.
func TestInsecureIsSaid(t *testing.T) {
	t.Parallel()
	n := start(t, "--listen=0.0.0.0:0", "--insecure")
	if !strings.Contains(n.stderr(), "INSECURE") {
		t.Errorf("the log says:\n%s", n.stderr())
	}
}
