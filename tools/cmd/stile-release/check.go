package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/stile-lock/stile/conformance/ports"
)

// check does what a stranger does with a release: in an empty directory, with an
// empty module cache, it installs every program and builds and runs the README's
// example against the installed node. Nothing in the repository changes.
func check(ctx context.Context, version string, released []string) (err error) {
	root, changed, err := repository(ctx)
	if err != nil {
		return err
	}
	if changed != "" {
		fmt.Printf("not committed, and so not checked:\n%s\n", changed)
	}
	dir, err := os.MkdirTemp("", "stile-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r, err := prepare(ctx, root, dir, version, released)
	if err != nil {
		return err
	}
	bin := filepath.Join(dir, "bin")
	r.env = append(r.env, "GOBIN="+bin)
	programs, err := r.programs()
	if err != nil {
		return err
	}
	home := filepath.Join(dir, "stranger")
	if err := os.Mkdir(home, 0o755); err != nil {
		return err
	}
	for _, p := range programs {
		fmt.Printf("go install %s@%s\n", p, version)
		if _, err := output(ctx, home, r.env, "go", "install", p+"@"+version); err != nil {
			return err
		}
	}
	if err := r.versions(ctx, bin); err != nil {
		return err
	}
	return r.example(ctx, home, bin)
}

func exe() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// programs are the import paths of the commands in cmd/ of the released modules.
func (r *release) programs() (list []string, err error) {
	for _, m := range r.modules {
		entries, err := os.ReadDir(filepath.Join(r.clone, m, "cmd"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			list = append(list, prefix+m+"/cmd/"+e.Name())
		}
	}
	return list, nil
}

// versions checks that the programs users install know which version they are of.
func (r *release) versions(ctx context.Context, bin string) error {
	for _, name := range []string{"stiled", "stile", "stile-conformance", "stilevet"} {
		program := filepath.Join(bin, name+exe())
		if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
			continue // of a module that was not asked for
		}
		said, err := output(ctx, bin, r.env, program, "--version")
		if err != nil {
			return err
		}
		fmt.Println(said)
		if !strings.HasPrefix(said+" ", name+" "+r.version+" ") {
			return fmt.Errorf("the installed %s says %q, which does not name %s", name, said, r.version)
		}
	}
	return nil
}

// around is what the README's example needs to be a program: it is the body of a
// function that returns an error, and writes to a store that is the reader's.
const around = `package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stile-lock/stile/client"
)

type guarded struct{}

func (guarded) Write(ctx context.Context, order string, token uint64) error {
	fmt.Println("wrote", order, "with token", token)
	return ctx.Err()
}

func run(ctx context.Context, store guarded, order string) error {
%s
	return nil
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := run(ctx, guarded{}, "order-42"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
`

// inReadme is the address in the README's example.
const inReadme = `"127.0.0.1:5625"`

// readmeExample is the example in the README's section on the Go client.
func readmeExample(readme string) (string, error) {
	_, section, ok := strings.Cut(readme, "\n## The Go client\n")
	if !ok {
		return "", errors.New("README.md has no section \"The Go client\"")
	}
	_, code, ok := strings.Cut(section, "\n```go\n")
	if !ok {
		return "", errors.New("README.md: the section \"The Go client\" has no Go code")
	}
	code, _, _ = strings.Cut(code, "\n```")
	if strings.Count(code, inReadme) != 1 {
		return "", fmt.Errorf("README.md: the example does not have the address %s once", inReadme)
	}
	return code, nil
}

// example makes a module of the README's example, gets the released client for
// it, and runs it against a node. Neither go vet nor stilevet finds anything in
// it.
func (r *release) example(ctx context.Context, home, bin string) error {
	readme, err := os.ReadFile(filepath.Join(r.clone, "README.md"))
	if err != nil {
		return err
	}
	code, err := readmeExample(string(readme))
	if err != nil {
		return err
	}
	addr, stop, err := startNode(ctx, filepath.Join(bin, "stiled"+exe()), filepath.Join(filepath.Dir(home), "state"))
	if err != nil {
		return err
	}
	defer stop()
	code = strings.Replace(code, inReadme, fmt.Sprintf("%q", addr), 1)
	program, err := format.Source(fmt.Appendf(nil, around, code))
	if err != nil {
		return fmt.Errorf("README.md: the example is no Go: %w", err)
	}
	if err := os.WriteFile(filepath.Join(home, "main.go"), program, 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mod", "init", "example.com/mine"},
		{"get", prefix + "client@" + r.version},
		{"vet", "."},
		{"vet", "-vettool=" + filepath.Join(bin, "stilevet"+exe()), "."},
		{"build", "-o", "mine" + exe(), "."},
	} {
		fmt.Println("go", strings.Join(args, " "))
		if _, err := output(ctx, home, r.env, "go", args...); err != nil {
			return err
		}
	}
	said, err := output(ctx, home, r.env, filepath.Join(home, "mine"+exe()))
	if err != nil {
		return fmt.Errorf("the README's example: %w", err)
	}
	fmt.Println(said)
	if !regexp.MustCompile(`^wrote order-42 with token [1-9]\d*$`).MatchString(said) {
		return fmt.Errorf("the README's example printed %q", said)
	}
	return nil
}

// startNode starts a node on a free port of this machine, until stop.
func startNode(ctx context.Context, stiled, state string) (addr string, stop func(), err error) {
	if addr, err = ports.Addr("127.0.0.1"); err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, stiled, "--listen", addr, "--admin=", "--state-dir", state)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop = func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(15 * time.Second):
			cmd.Process.Kill()
		}
	}
	deadline := time.After(10 * time.Second)
	for {
		select {
		case err := <-ended:
			return "", nil, fmt.Errorf("the node ended: %v\n%s", err, log.Bytes())
		case <-deadline:
			stop()
			return "", nil, fmt.Errorf("the node does not listen on %s", addr)
		case <-time.After(50 * time.Millisecond):
		}
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return addr, stop, nil
		}
	}
}
