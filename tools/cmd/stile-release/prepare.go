package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// release is one that was prepared in a clone of its own.
type release struct {
	version string
	modules []string // directories, in the order of their tags
	clone   string
	commit  string
	proxy   string // a GOPROXY directory with the modules
	cache   string // a GOMODCACHE that nobody else uses
	env     []string
	as      []string // whose the release commit is: who made the one it is of
}

// repository is the root of the one that this runs in, and what in it is not
// committed, empty if all is.
func repository(ctx context.Context) (root, changed string, err error) {
	if root, err = output(ctx, ".", nil, "git", "rev-parse", "--show-toplevel"); err != nil {
		return "", "", err
	}
	changed, err = output(ctx, root, nil, "git", "status", "--porcelain")
	return root, changed, err
}

// prepare makes the release commit of HEAD of the repository, in a clone below
// dir, and a module proxy with what a stranger would get of it.
func prepare(ctx context.Context, repository, dir, version string, released []string) (*release, error) {
	if err := module.Check(prefix+"protocol", version); err != nil {
		return nil, fmt.Errorf("-version: %w", err)
	}
	r := &release{
		version: version,
		clone:   filepath.Join(dir, "clone"), proxy: filepath.Join(dir, "proxy"), cache: filepath.Join(dir, "modules"),
	}
	if _, err := output(ctx, dir, nil, "git", "clone", "-q", "--no-tags", repository, r.clone); err != nil {
		return nil, err
	}
	var err error
	if r.modules, err = order(r.clone, released); err != nil {
		return nil, err
	}
	if r.env, err = environment(ctx, r); err != nil {
		return nil, err
	}
	who, err := r.git(ctx, "log", "-1", "--format=%an%n%ae")
	if err != nil {
		return nil, err
	}
	name, mail, _ := strings.Cut(who, "\n")
	for _, role := range []string{"AUTHOR", "COMMITTER"} {
		r.as = append(r.as, "GIT_"+role+"_NAME="+name, "GIT_"+role+"_EMAIL="+mail)
	}
	if _, err := r.git(ctx, "commit", "-q", "--allow-empty", "-m", "Release "+version); err != nil {
		return nil, err
	}
	if err := r.stamp(ctx); err != nil {
		return nil, err
	}
	for _, dir := range r.modules {
		fmt.Printf("preparing %s%s@%s\n", prefix, dir, version)
		if err := r.module(ctx, dir); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
	}
	for _, dir := range r.modules {
		if _, err := r.git(ctx, "tag", dir+"/"+version); err != nil {
			return nil, err
		}
	}
	// Of the repository itself: what archives and packages are made of.
	if _, err := r.git(ctx, "tag", version); err != nil {
		return nil, err
	}
	r.commit, err = r.git(ctx, "rev-parse", "HEAD")
	return r, err
}

// module pins one module, adds that to the release commit, and puts the module
// into the proxy, where those that require it find it.
func (r *release) module(ctx context.Context, dir string) error {
	mod, err := readMod(r.clone, dir)
	if err != nil {
		return err
	}
	text, err := pin(mod, r.version)
	if err != nil {
		return err
	}
	where := filepath.Join(r.clone, dir)
	if err := os.WriteFile(filepath.Join(where, "go.mod"), text, 0o644); err != nil {
		return err
	}
	// Takes the sums of our own modules from the proxy.
	if _, err := output(ctx, where, r.env, "go", "mod", "tidy"); err != nil {
		return err
	}
	if _, err := r.git(ctx, "add", "--", dir); err != nil {
		return err
	}
	if _, err := r.git(ctx, "commit", "-q", "--allow-empty", "--amend", "--no-edit"); err != nil {
		return err
	}
	return r.publish(ctx, dir)
}

// publish writes the files of the module proxy protocol (go.dev/ref/mod).
func (r *release) publish(ctx context.Context, dir string) error {
	path, err := module.EscapePath(prefix + dir)
	if err != nil {
		return err
	}
	at := filepath.Join(r.proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(r.clone, dir, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": r.version, "Time": time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	// As the go command makes it of a tag: with the licence of the repository.
	var z bytes.Buffer
	if err := modzip.CreateFromVCS(&z, module.Version{Path: prefix + dir, Version: r.version}, r.clone, "HEAD", dir); err != nil {
		return err
	}
	if err := licensed(z.Bytes()); err != nil {
		return err
	}
	for suffix, text := range map[string][]byte{".mod": mod, ".info": info, ".zip": z.Bytes()} {
		if err := os.WriteFile(filepath.Join(at, r.version+suffix), text, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(at, "list"), []byte(r.version+"\n"), 0o644)
}

// licensed refuses a module that pkg.go.dev would not show for want of a licence.
func licensed(text []byte) error {
	z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return err
	}
	for _, f := range z.File {
		if filepath.Base(f.Name) == "LICENSE" && strings.Count(f.Name, "/") == strings.Count(prefix, "/")+1 {
			return nil
		}
	}
	return fmt.Errorf("the zip of the module has no LICENSE")
}

// environment is that of somebody who has none of our settings, no workspace and
// an empty module cache. Our modules come from the proxy of the release, all
// others from this machine's cache or its ordinary proxy, with their sums checked.
func environment(ctx context.Context, r *release) ([]string, error) {
	ask := func(name string) (string, error) { return output(ctx, filepath.Dir(r.clone), nil, "go", "env", name) }
	upstream, err := ask("GOPROXY")
	if err != nil {
		return nil, err
	}
	cached, err := ask("GOMODCACHE")
	if err != nil {
		return nil, err
	}
	file := func(dir string) string { return "file://" + filepath.ToSlash(dir) }
	return append(os.Environ(),
		"GOPROXY="+file(r.proxy)+","+file(filepath.Join(cached, "cache", "download"))+","+upstream,
		"GOMODCACHE="+r.cache,
		"GOWORK=off",
		"GOPRIVATE=",
		"GONOPROXY=none",
		"GONOSUMDB="+strings.TrimSuffix(prefix, "/")+"/*",
		"GOFLAGS=-mod=mod -modcacherw -trimpath -buildvcs=false",
		"GOENV=off",
	), nil
}

// git runs in the clone.
func (r *release) git(ctx context.Context, args ...string) (string, error) {
	return output(ctx, r.clone, append(os.Environ(), r.as...), "git", args...)
}

// output is what a command prints, without the last newline; its stderr is part
// of the error.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.Bytes())
	}
	return strings.TrimRight(out.String(), "\n"), nil
}
