package snapshot

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sassoftware/go-rpmutils"
)

// programs are those that every archive and package has.
var programs = []string{"stiled", "stile", "stile-conformance"}

var (
	systems       = []string{"linux", "darwin", "windows"}
	architectures = []string{"amd64", "arm64"}
)

// The names by which deb and rpm know architectures.
var (
	debArch = map[string]string{"amd64": "amd64", "arm64": "arm64"}
	rpmArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
)

// checkProgram checks that the text is the program, for that machine, and that
// nothing in it tells where it was built.
func checkProgram(t *testing.T, name string, text []byte, goos, goarch string) {
	t.Helper()
	info, err := buildinfo.Read(bytes.NewReader(text))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	if !strings.HasSuffix(info.Path, "/cmd/"+name) || set["GOOS"] != goos || set["GOARCH"] != goarch || set["CGO_ENABLED"] != "0" || set["-trimpath"] != "true" {
		t.Errorf("%s is %s for %s/%s, with %v", name, info.Path, set["GOOS"], set["GOARCH"], set)
	}
	here, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{here + "/", runtime.GOROOT() + "/src"}
	if home, err := os.UserHomeDir(); err == nil {
		paths = append(paths, filepath.Join(home, "go")+"/")
	}
	for _, p := range paths {
		if bytes.Contains(text, []byte(p)) {
			t.Errorf("%s for %s/%s has the path %s of this machine", name, goos, goarch, p)
		}
	}
}

// version is that of the snapshot.
func version(t *testing.T) string {
	t.Helper()
	v, ok := strings.CutPrefix(filepath.Base(one(t, "stile_*_linux_amd64.tar.gz")), "stile_")
	v, ok2 := strings.CutSuffix(v, "_linux_amd64.tar.gz")
	if !ok || !ok2 {
		t.Fatal(v)
	}
	return v
}

// manual are the man pages of a package, unpacked.
func manual(t *testing.T, files contents, dir, suffix string) {
	t.Helper()
	for _, p := range programs {
		name := path.Join(dir, p+".1"+suffix)
		text := files[name].text
		if suffix == ".gz" {
			z, err := gzip.NewReader(bytes.NewReader(text))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if text, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		first, _, _ := strings.Cut(string(text), "\n")
		if !strings.HasPrefix(first, ".TH "+strings.ToUpper(p)+" 1 ") || !strings.Contains(first, `"stile v`+version(t)+`"`) {
			t.Errorf("%s begins with %q", name, first)
		}
	}
}

var links = regexp.MustCompile(`\]\(([^)]+)\)`)

// documents checks that what a package's documents link to is there, or is the
// repository at the commit that it was built of.
func documents(t *testing.T, files contents, dir string) {
	t.Helper()
	at := "https://github.com/stile-lock/stile/blob/" + strings.TrimSpace(output(t, ".", "git", "rev-parse", "--short=12", "HEAD")) + "/"
	for _, name := range []string{"README.md", "CHANGELOG.md", "CLUSTER.md", "METRICS.md", "SECURITY.md", "SPEC.md"} {
		text := string(files[path.Join(dir, name)].text)
		if text == "" {
			t.Errorf("there is no %s", path.Join(dir, name))
		}
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			switch {
			case target == "", strings.HasPrefix(target, at):
			case strings.HasPrefix(target, "https://") && !strings.Contains(target, "stile-lock/stile/blob/"):
			default:
				if e, ok := files[path.Join(dir, target)]; !ok || len(e.text) == 0 {
					t.Errorf("%s links to %s", name, m[1])
				}
			}
		}
	}
	if readme := string(files[path.Join(dir, "README.md")].text); !strings.HasPrefix(readme, "# Stile "+version(t)+"\n") {
		t.Errorf("the README is %.80q", readme)
	}
}

// extras checks the completions, by where each is.
func extras(t *testing.T, files contents, bash, zsh, fish string) {
	t.Helper()
	for _, p := range programs {
		for name, begin := range map[string]string{
			path.Join(bash, p):         "",
			path.Join(zsh, "_"+p):      "#compdef " + p,
			path.Join(fish, p+".fish"): "",
		} {
			e, ok := files[name]
			if !ok || !bytes.HasPrefix(e.text, []byte(begin)) || !bytes.Contains(e.text, []byte("version")) {
				t.Errorf("%s is not there, or is not what it should be: %.80q", name, e.text)
			}
		}
	}
}

// installs are the commands of the README that take files: all words after the
// mode that are no path of the system.
var installs = regexp.MustCompile(`(?m)^    install (?:-D )?-m [0-9]+ (?:-t \S+ )?((?:[a-z][a-z0-9./-]* ?)+)(?:/\S*)?$`)

func TestArchives(t *testing.T) {
	for _, goos := range systems {
		for _, goarch := range architectures {
			t.Run(goos+"_"+goarch, func(t *testing.T) {
				suffix, exe := ".tar.gz", ""
				if goos == "windows" {
					suffix, exe = ".zip", ".exe"
				}
				files := archive(t, one(t, "stile_*_"+goos+"_"+goarch+suffix))
				for _, p := range programs {
					e, ok := files[p+exe]
					if !ok || e.mode.Perm() != 0o755 {
						t.Errorf("%s is not there, or has the mode %v", p+exe, e.mode)
						continue
					}
					checkProgram(t, p, e.text, goos, goarch)
				}
				manual(t, files, "man", "")
				extras(t, files, "completions/bash", "completions/zsh", "completions/fish")
				documents(t, files, ".")
				// The README's install takes these from the archive.
				taken := installs.FindAllStringSubmatch(string(files["README.md"].text), -1)
				if len(taken) < 5 {
					t.Errorf("the README installs %q", taken)
				}
				for _, m := range taken {
					for _, name := range strings.Fields(m[1]) {
						if len(files[name].text) == 0 && len(files[name+exe].text) == 0 {
							t.Errorf("the README installs %s, which is not there", name)
						}
					}
				}
				if len(files["LICENSE"].text) == 0 {
					t.Error("there is no licence")
				}
				for name, e := range files {
					if e.owner != "root" {
						t.Errorf("%s belongs to %s", name, e.owner)
					}
				}
			})
		}
	}
}

// installed checks what a package puts into a system.
func installed(t *testing.T, files contents, goarch, zsh string) {
	t.Helper()
	for _, p := range programs {
		checkProgram(t, p, files["usr/bin/"+p].text, "linux", goarch)
	}
	manual(t, files, "usr/share/man/man1", ".gz")
	extras(t, files, "usr/share/bash-completion/completions", zsh, "usr/share/fish/vendor_completions.d")
	documents(t, files, "usr/share/doc/stile")
	for name, mode := range map[string]fs.FileMode{
		"usr/bin/stiled": 0o755, "etc/stile/stiled.yaml": 0o644, "etc/stile/secrets": 0o750 | fs.ModeDir, "etc/stile": 0o755 | fs.ModeDir,
		"usr/lib/sysusers.d/stile.conf":         0o644,
		"usr/lib/systemd/system/stiled.service": 0o644, "usr/share/doc/stile/deploy/prometheus/alerts.yaml": 0o644,
		"usr/share/doc/stile/deploy/grafana/stile.json": 0o644,
	} {
		if e, ok := files[name]; !ok || e.mode != mode || e.owner != "root" {
			t.Errorf("%s is %v of %q, want %v", name, e.mode, e.owner, mode)
		}
	}
	for file, source := range map[string]string{
		"usr/lib/systemd/system/stiled.service": "../systemd/stiled.service", "etc/stile/stiled.yaml": "../systemd/stiled.yaml",
		"usr/lib/sysusers.d/stile.conf": "../systemd/sysusers.conf",
	} {
		want, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(files[file].text, want) {
			t.Errorf("%s is not %s", file, source)
		}
	}
}

func TestDeb(t *testing.T) {
	for _, goarch := range architectures {
		t.Run(goarch, func(t *testing.T) {
			files, control := deb(t, one(t, "stile_*_"+debArch[goarch]+".deb"))
			installed(t, files, goarch, "usr/share/zsh/vendor-completions")
			if len(files["usr/share/doc/stile/copyright"].text) == 0 {
				t.Error("there is no licence")
			}
			if want := "/etc/stile/stiled.yaml"; strings.TrimSpace(string(control["conffiles"].text)) != want {
				t.Errorf("the settings are %q, want %s", control["conffiles"].text, want)
			}
			if about := string(control["control"].text); !strings.Contains(about, "\nArchitecture: "+debArch[goarch]+"\n") || !strings.HasPrefix(about, "Package: stile\n") {
				t.Errorf("control is\n%s", about)
			}
			for _, script := range []string{"postinst", "prerm", "postrm"} {
				if e := control[script]; len(e.text) == 0 || e.mode.Perm()&0o111 == 0 {
					t.Errorf("%s is not there, or can't run: %v", script, e.mode)
				}
			}
		})
	}
}

func TestRPM(t *testing.T) {
	for _, goarch := range architectures {
		t.Run(goarch, func(t *testing.T) {
			files, p := rpm(t, one(t, "stile-[0-9]*."+rpmArch[goarch]+".rpm"))
			installed(t, files, goarch, "usr/share/zsh/site-functions")
			for tag, want := range map[int]string{
				rpmutils.SUMMARY: "Lock server with fair queues, leases and fencing tokens",
				rpmutils.NAME:    "stile", rpmutils.ARCH: rpmArch[goarch], rpmutils.LICENSE: "MIT", rpmutils.BUILDHOST: "stile",
			} {
				if got, err := p.Header.GetString(tag); err != nil || got != want {
					t.Errorf("tag %d is %q (%v), want %q", tag, got, err, want)
				}
			}
			if about, err := p.Header.GetString(rpmutils.DESCRIPTION); err != nil || !strings.HasPrefix(about, "Stile grants locks") {
				t.Errorf("the description is %q (%v)", about, err)
			}
			all, err := p.Header.GetFiles()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range all {
				for flag, dir := range map[int]string{rpmutils.RPMFILE_DOC: "/usr/share/doc/", rpmutils.RPMFILE_LICENSE: "/usr/share/licenses/"} {
					if is, want := f.Flags()&flag != 0, strings.HasPrefix(f.Name(), dir); is != want {
						t.Errorf("%s is of what is in %s: %v, want %v", f.Name(), dir, is, want)
					}
				}
				config := f.Flags()&rpmutils.RPMFILE_CONFIG != 0 && f.Flags()&rpmutils.RPMFILE_NOREPLACE != 0
				if want := f.Name() == "/etc/stile/stiled.yaml"; config != want {
					t.Errorf("%s: kept over an upgrade: %v, want %v", f.Name(), config, want)
				}
			}
			for _, script := range []int{rpmutils.POSTIN, rpmutils.PREUN, rpmutils.POSTUN} {
				if text, err := p.Header.GetString(script); err != nil || text == "" {
					t.Errorf("script %d is not there: %v", script, err)
				}
			}
		})
	}
}

// Every artifact has its sum in checksums.txt, and every program its bill of
// materials, with the modules that the program itself names.
func TestSums(t *testing.T) {
	dir := dist(t)
	sums := map[string]string{}
	text, err := os.ReadFile(filepath.Join(dir, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		fields := strings.Fields(s.Text())
		sums[fields[1]] = fields[0]
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".gz", ".zip", ".deb", ".rpm":
		case ".json":
			if !strings.HasSuffix(e.Name(), ".cdx.json") {
				continue
			}
		default:
			continue
		}
		if got := digest(t, filepath.Join(dir, e.Name())); sums[e.Name()] != got {
			t.Errorf("%s has the sum %s; checksums.txt says %q", e.Name(), got, sums[e.Name()])
		}
		delete(sums, e.Name())
	}
	if len(sums) > 0 {
		t.Errorf("not there: %v", slices.Collect(maps.Keys(sums)))
	}
}

// component is of a bill of materials.
type component struct {
	Name, Version string
	Licenses      []struct{ License struct{ ID string } }
}

func TestBillsOfMaterials(t *testing.T) {
	for _, p := range programs {
		for _, goos := range systems {
			for _, goarch := range architectures {
				text, err := os.ReadFile(one(t, "stile_*_"+goos+"_"+goarch+"."+p+".cdx.json"))
				if err != nil {
					t.Fatal(err)
				}
				var bom struct {
					BOMFormat, SpecVersion string
					Metadata               struct{ Timestamp time.Time }
					Components             []component
				}
				if err := json.Unmarshal(text, &bom); err != nil {
					t.Fatal(err)
				}
				got := map[string]string{}
				for _, c := range bom.Components {
					got[c.Name] = c.Version
					if len(c.Licenses) == 0 {
						t.Errorf("%s is made of %s, and its bill has no licence of that", p, c.Name)
					}
				}
				info, err := buildinfo.ReadFile(binary(t, p, goos, goarch))
				if err != nil {
					t.Fatal(err)
				}
				want := map[string]string{"std": info.GoVersion}
				for _, d := range info.Deps {
					want[d.Path] = d.Version
					if d.Replace != nil { // ours, in what is no release
						want[d.Path] = "v" + version(t)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s for %s/%s: -it is made of +its bill says:\n%s", p, goos, goarch, diff)
				}
				if bom.BOMFormat != "CycloneDX" || bom.Metadata.Timestamp.IsZero() {
					t.Errorf("%s: %.200s", p, text)
				}
			}
		}
	}
}

// binary is a program as it was built.
func binary(t *testing.T, program, goos, goarch string) string {
	exe := ""
	if goos == "windows" {
		exe = ".exe"
	}
	return one(t, program+"_"+goos+"_"+goarch+"_*/"+program+exe)
}

// unpack writes the programs of this machine's archive into a directory.
func unpack(t *testing.T) string {
	t.Helper()
	suffix := ".tar.gz"
	if runtime.GOOS == "windows" {
		suffix = ".zip"
	}
	dir := t.TempDir()
	for name, e := range archive(t, one(t, "stile_*_"+runtime.GOOS+"_"+runtime.GOARCH+suffix)) {
		if !strings.Contains(name, "/") {
			if err := os.WriteFile(filepath.Join(dir, name), e.text, e.mode.Perm()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// The programs of the archive run: a node serves, and passes scenarios of the suite beside
// it.
func TestPrograms(t *testing.T) {
	dir := unpack(t)
	commit := strings.TrimSpace(output(t, ".", "git", "rev-parse", "--short=12", "HEAD"))
	for program, want := range map[string]string{
		"stiled":            "stiled v%s (",
		"stile":             "stile v%s (",
		"stile-conformance": "stile-conformance v%s (suite ",
	} {
		said := output(t, dir, filepath.Join(dir, program), "--version")
		if want := fmt.Sprintf(want, version(t)); !strings.HasPrefix(said, want) || !strings.Contains(said, "commit "+commit) {
			t.Errorf("--version says %q, want %q, of the commit %s", said, want, commit)
		}
	}

	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	node := exec.Command(filepath.Join(dir, "stiled"), "--listen", addr, "--admin=", "--state-dir", filepath.Join(dir, "state"))
	var log bytes.Buffer
	node.Stderr = &log
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		node.Process.Signal(syscall.SIGTERM)
		defer time.AfterFunc(20*time.Second, func() { node.Process.Kill() }).Stop()
		if err := node.Wait(); err != nil {
			t.Errorf("stiled: %v\n%s", err, log.String())
		}
	})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v\n%s", err, log.String())
		}
	}
	// One profile, which takes a moment. It fails if a scenario does.
	out := output(t, dir, filepath.Join(dir, "stile-conformance"), "server", "--addr", addr, "--tags", "ping")
	if !strings.Contains(out, "passed") {
		t.Errorf("the suite says:\n%s", out)
	}
}

// checkGroup checks that the secrets are for the group that the package made, if
// this machine has what makes it.
func checkGroup(t *testing.T, root string) {
	t.Helper()
	if _, err := exec.LookPath("systemd-sysusers"); err != nil {
		t.Log("no systemd-sysusers here: nobody made the user")
		return
	}
	groups, err := os.ReadFile(filepath.Join(root, "etc/group"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(root, "etc/stile/secrets"))
	if err != nil {
		t.Fatal(err)
	}
	gid := info.Sys().(*syscall.Stat_t).Gid
	if want := fmt.Sprintf("\nstile:x:%d:", gid); gid == 0 || !strings.Contains("\n"+string(groups), want) {
		t.Errorf("the secrets are for the group %d; the groups are\n%s", gid, groups)
	}
}

// The deb can be installed and removed, in a root of its own.
func TestInstallDeb(t *testing.T) {
	name := one(t, "stile_*_"+debArch[runtime.GOARCH]+".deb")
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("no dpkg here")
	}
	if os.Getuid() != 0 {
		t.Skip("dpkg --root needs root")
	}
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// There is no shell in the root, so the scripts run here. They see by DPKG_ROOT
	// that the service manager is none of their business.
	dpkg := func(args ...string) string {
		return output(t, root, "dpkg", append([]string{"--force-script-chrootless", "--log=/dev/null", "--root=" + root}, args...)...)
	}
	dpkg("--install", name)
	checkGroup(t, root)
	if said := dpkg("--status", "stile"); !strings.Contains(said, "Status: install ok installed") {
		t.Errorf("after the install:\n%s", said)
	}
	if said := output(t, root, filepath.Join(root, "usr/bin/stiled"), "--version"); !strings.HasPrefix(said, "stiled v") {
		t.Errorf("--version says %q", said)
	}
	settings := filepath.Join(root, "etc/stile/stiled.yaml")
	if err := os.WriteFile(settings, []byte("# mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(root, "etc/stile/secrets/clients")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	dpkg("--force-confold", "--install", name)
	dpkg("--remove", "stile")
	if text, err := os.ReadFile(settings); err != nil || string(text) != "# mine\n" {
		t.Errorf("after a removal the settings are %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(root, "usr/bin/stiled")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a removal stiled is there: %v", err)
	}
	if _, err := os.Stat(secret); err != nil {
		t.Errorf("after a removal the secret is gone: %v", err)
	}
	dpkg("--purge", "stile")
	if _, err := os.Stat(filepath.Join(root, "etc/stile")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a purge the secrets are there: %v", err)
	}
	if _, err := os.Stat(settings); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a purge the settings are there: %v", err)
	}
}

// The same sources in another directory, built later with another umask and
// under another time zone, give the same files.
func TestReproducible(t *testing.T) {
	first := dist(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	again := t.TempDir()
	// The sources as they are here, with their history, which names the commit.
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte(output(t, root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")), 0o644); err != nil {
		t.Fatal(err)
	}
	output(t, root, "sh", "-c", `tar -c --null --files-from "$1" | tar -x -C "$2" && git clone -q --bare . "$2/.git" && git -C "$2" config core.bare false`, "sh", list, again)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "umask 077 && chmod -R go= . && exec make snapshot")
	cmd.Dir = again
	cmd.Env = append(os.Environ(), "TZ=Pacific/Auckland")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make snapshot: %v\n%s", err, out)
	}
	read := func(dir string) string {
		text, err := os.ReadFile(filepath.Join(dir, "checksums.txt"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if diff := cmp.Diff(read(first), read(filepath.Join(again, "dist"))); diff != "" {
		t.Errorf("-first +again:\n%s", diff)
	}
}
