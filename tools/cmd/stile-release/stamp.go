package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// image is what files name the image by until a release names itself.
const image = "ghcr.io/stile-lock/stile:"

// stamped are the files that name the image.
var stamped = []string{"packaging/docker/compose.yaml", "packaging/kubernetes/stile.yaml"}

// stamp has a file name the image of the version in place of the latest one, so
// that who takes the file of a release runs that release, also years later.
func stamp(text []byte, version string) ([]byte, error) {
	if n := bytes.Count(text, []byte(image+"latest")); n != 1 {
		return nil, fmt.Errorf("it names %slatest %d times, want once", image, n)
	}
	return bytes.Replace(text, []byte(image+"latest"), []byte(image+version), 1), nil
}

// stamp stamps the files of the release commit.
func (r *release) stamp(ctx context.Context) error {
	for _, name := range stamped {
		at := filepath.Join(r.clone, filepath.FromSlash(name))
		text, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		if text, err = stamp(text, r.version); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(at, text, 0o644); err != nil {
			return err
		}
		if _, err := r.git(ctx, "add", "--", name); err != nil {
			return err
		}
	}
	_, err := r.git(ctx, "commit", "-q", "--allow-empty", "--amend", "--no-edit")
	return err
}
