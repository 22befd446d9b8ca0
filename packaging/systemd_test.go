package packaging

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestExampleSettings(t *testing.T) {
	example := read(t, "systemd/stiled.yaml")
	write := func(text string) string {
		name := filepath.Join(t.TempDir(), "stiled.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	c := settings(t, []string{"--config", write(example)}, nil, strings.NewReplacer())
	if c.Listen != "127.0.0.1:5625" || c.StateDir != "/var/lib/stile" || len(c.Warnings) > 0 {
		t.Errorf("as it is, the example is %+v", c)
	}

	// With all that is commented out: the lines that begin with # and no space,
	// in place of those that they are for.
	all := regexp.MustCompile(`(?m)^listen: .*\n`).ReplaceAllString(example, "")
	all = regexp.MustCompile(`(?m)^#(\S|  - )`).ReplaceAllString(all, "$1")
	dir := secrets(t)
	issue(t, dir, names{"node.pem", "node.key", "ca.pem"}, "10.0.0.1")
	all = strings.ReplaceAll(all, ": /etc/stile/secrets/", ": "+dir+"/")
	c = settings(t, []string{"--config", write(all)}, nil, strings.NewReplacer())
	member(t, c, 0)
	if c.TLS == nil {
		t.Error("no TLS is spoken")
	}
	// What it says to type names files that the settings name.
	for _, m := range regexp.MustCompile(`(?:install -m 640 -g stile \S+) /etc/stile/secrets/(\S+)`).FindAllStringSubmatch(example, -1) {
		if !strings.Contains(example, ": /etc/stile/secrets/"+m[1]+"\n") {
			t.Errorf("it says how to make the secret %s, and no setting is it", m[1])
		}
	}
}

// names are those of files that issue writes.
type names struct{ cert, key, authority string }

// issue writes an authority and the certificate of a node with these hosts.
func issue(t *testing.T, dir string, files names, hosts ...string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	// One certificate is its own authority.
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	for name, block := range map[string]*pem.Block{
		files.cert: {Type: "CERTIFICATE", Bytes: der}, files.authority: {Type: "CERTIFICATE", Bytes: der},
		files.key: {Type: "PRIVATE KEY", Bytes: private},
	} {
		must(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o640))
	}
}

// unit are the settings of the service, by name.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	set := map[string][]string{}
	for line := range strings.Lines(read(t, "systemd/stiled.service")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			set[key] = append(set[key], value)
		}
	}
	return set
}

func TestUnit(t *testing.T) {
	unit := unit(t)
	for key, want := range map[string]string{
		"Type": "notify", "ExecStart": "/usr/bin/stiled --config /etc/stile/stiled.yaml",
		"ExecReload": "/bin/kill -HUP $MAINPID", "StateDirectory": "stile",
		// It is never given up, but for wrong settings.
		"StartLimitIntervalSec": "0", "Restart": "on-failure", "RestartPreventExitStatus": "2",
	} {
		if len(unit[key]) != 1 || unit[key][0] != want {
			t.Errorf("%s is %q, want %q", key, unit[key], want)
		}
	}
	// What stiled notifies of, server/e2e tests. That it is asked to: here.
	if len(unit["WatchdogSec"]) != 1 {
		t.Error("there is no watchdog")
	}
	// A reload reads the secrets as that user. Credentials would be those of the start.
	if len(unit["DynamicUser"])+len(unit["LoadCredential"]) > 0 {
		t.Error("a reload would have it read the secrets of its start")
	}
	user := regexp.MustCompile(`(?m)^u (\S+) - ".*" (\S+)$`).FindStringSubmatch(read(t, "systemd/sysusers.conf"))
	if user == nil {
		t.Fatal("sysusers.conf makes no user")
	}
	for key, want := range map[string]string{"User": user[1], "Group": user[1], "StateDirectory": filepath.Base(user[2])} {
		if len(unit[key]) != 1 || unit[key][0] != want {
			t.Errorf("%s is %q; sysusers.conf makes %q", key, unit[key], user)
		}
	}
}

func TestUserIsMade(t *testing.T) {
	sysusers, err := exec.LookPath("systemd-sysusers")
	if err != nil {
		t.Skip("systemd-sysusers is not installed")
	}
	if os.Getuid() != 0 {
		t.Skip("systemd-sysusers needs root")
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	conf, err := filepath.Abs("systemd/sysusers.conf")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(sysusers, "--root="+root, conf).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if passwd := read(t, filepath.Join(root, "etc/passwd")); !regexp.MustCompile(`(?m)^stile:x:\d+:\d+:[^:]*:/var/lib/stile:.*/nologin$`).MatchString(passwd) {
		t.Errorf("the users are\n%s", passwd)
	}
	if group := read(t, filepath.Join(root, "etc/group")); !regexp.MustCompile(`(?m)^stile:x:\d+:$`).MatchString(group) {
		t.Errorf("the groups are\n%s", group)
	}
}

// The service manager itself reads the unit, where there is one. With the program
// in another place: systemd-analyze wants that it exists.
func TestUnitIsUnderstood(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := strings.ReplaceAll(read(t, "systemd/stiled.service"), "/usr/bin/stiled", program)
	unit = regexp.MustCompile(`(?m)^Documentation=man:\S+ `).ReplaceAllString(unit, "Documentation=") // not installed
	name := filepath.Join(t.TempDir(), "stiled.service")
	if err := os.WriteFile(name, []byte(unit), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", name).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	out, err := exec.Command(analyze, "security", "--offline=yes", "--threshold=20", name).CombinedOutput()
	if err != nil {
		t.Errorf("the unit is exposed by more than 2.0:\n%s", out)
	}
}
