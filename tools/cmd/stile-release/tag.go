package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

// tag prepares a release in a clone and brings its commit and tags here. Nothing
// else here changes, and nothing is pushed.
func tag(ctx context.Context, version string, released []string) error {
	// From v2 on the paths of modules end in the major version.
	if semver.Canonical(version) != version || semver.Major(version) > "v1" || semver.Build(version) != "" {
		return fmt.Errorf("-version %q: want vX.Y.Z or vX.Y.Z-pre, with X 0 or 1", version)
	}
	root, changed, err := repository(ctx)
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("commit or remove these first, they would not be in the release:\n%s", changed)
	}
	log, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if !strings.Contains(string(log), "\n## ["+strings.TrimPrefix(version, "v")+"]") {
		return fmt.Errorf("CHANGELOG.md has no section `## [%s] - DATE`: make one of what is under Unreleased", strings.TrimPrefix(version, "v"))
	}
	if there, err := output(ctx, root, nil, "git", "tag", "--list", version, "*/"+version); err != nil {
		return err
	} else if there != "" {
		return fmt.Errorf("there are tags of %s; one that was pushed is never moved, and others go with `git tag --delete`:\n%s", version, there)
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
	var refs []string
	for _, m := range r.modules {
		refs = append(refs, "refs/tags/"+m+"/"+version)
	}
	refs = append(refs, "refs/tags/"+version)
	fetch := []string{"fetch", "-q", "--no-tags", "--atomic", r.clone}
	for _, ref := range refs {
		fetch = append(fetch, ref+":"+ref)
	}
	if _, err := output(ctx, root, nil, "git", fetch...); err != nil {
		return err
	}
	fmt.Printf("\nThe release commit is %s. To publish it, the modules first:\n\n", r.commit[:12])
	for _, ref := range refs {
		fmt.Printf("    git push origin %s\n", strings.TrimPrefix(ref, "refs/tags/"))
	}
	return nil
}
