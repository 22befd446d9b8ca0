package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script runs a script of the packages as dpkg or rpm does. A service manager
// runs, and answers as the stub says.
func script(t *testing.T, name, root, systemctl string, args ...string) string {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte("#!/bin/sh\n"+systemctl+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(read(t, "scripts/"+name), "/run/systemd/system", bin)
	cmd := exec.Command("sh", append([]string{"-s"}, args...)...)
	cmd.Stdin = strings.NewReader(text)
	cmd.Env = append(os.Environ(), "DPKG_ROOT="+root, "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// A service that can't be stopped, for whatever reason, says so, and keeps no
// package installed.
func TestRemovalIsNotHeldUp(t *testing.T) {
	for _, arg := range []string{"remove", "0"} {
		said := script(t, "preremove.sh", "", `echo "asked: $*"; exit 1`, arg)
		if !strings.Contains(said, "asked: disable --now stiled.service\n") || !strings.Contains(said, "could not be stopped") {
			t.Errorf("%s: %q", arg, said)
		}
		script(t, "postremove.sh", "", "exit 1", arg)
	}
	for _, arg := range []string{"upgrade", "1"} {
		if said := script(t, "preremove.sh", "", `echo "asked: $*"`, arg); said != "" {
			t.Errorf("an upgrade touches the service: %s: %q", arg, said)
		}
	}
}

// tree makes files in a root of its own.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func exists(root, name string) bool {
	_, err := os.Lstat(filepath.Join(root, name))
	return err == nil
}

// A purge removes the secrets, which are settings, and keeps the epoch.
func TestPurge(t *testing.T) {
	files := map[string]string{"etc/stile/secrets/clients": "secret", "var/lib/stile/epoch": "1"}
	for args, kept := range map[string]bool{"remove": true, "0": true, "1": true, "upgrade": true, "purge": false} {
		root := tree(t, files)
		script(t, "postremove.sh", root, "exit 0", args)
		if exists(root, "etc/stile/secrets/clients") != kept || exists(root, "etc/stile") != kept || !exists(root, "var/lib/stile/epoch") {
			t.Errorf("after %s: secrets %v, /etc/stile %v, epoch %v", args, exists(root, "etc/stile/secrets/clients"), exists(root, "etc/stile"), exists(root, "var/lib/stile/epoch"))
		}
	}
	// What somebody else put there stays.
	root := tree(t, map[string]string{"etc/stile/secrets/clients": "secret", "etc/stile/mine": "x"})
	script(t, "postremove.sh", root, "exit 0", "purge")
	if !exists(root, "etc/stile/mine") || exists(root, "etc/stile/secrets") {
		t.Error("a purge removes what is not the package's, or leaves the secrets")
	}
	// Nothing there any more, as dpkg may have it.
	script(t, "postremove.sh", t.TempDir(), "exit 0", "purge")
}

// The directory of secrets is the group's; what to do next is said.
func TestInstall(t *testing.T) {
	group := fmt.Sprintf("root:x:0:\nstile:x:%d:\n", os.Getgid())
	root := tree(t, map[string]string{"etc/group": group, "etc/stile/secrets/x": "", "usr/lib/sysusers.d/stile.conf": read(t, "systemd/sysusers.conf")})
	if said := script(t, "postinstall.sh", root, "exit 1", "configure"); strings.Contains(said, "there is no group") || strings.Contains(said, "systemctl") {
		t.Errorf("in another root it says %q", said)
	}
	root = tree(t, map[string]string{"etc/group": "root:x:0:\n", "etc/stile/secrets/x": ""})
	if said := script(t, "postinstall.sh", root, "exit 1", "configure"); !strings.Contains(said, "chgrp stile /etc/stile/secrets") {
		t.Errorf("without the group it says %q", said)
	}
}
