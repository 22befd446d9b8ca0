package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-enry/go-license-detector/v4/licensedb"
	"github.com/go-enry/go-license-detector/v4/licensedb/filer"
	"golang.org/x/mod/module"
)

// sure is how alike a text and a licence have to be.
const sure = 0.85

// detect is the licence of what is in a directory, by its SPDX name, or the
// licences, if it cannot be told which of several that are equally alike it is.
func detect(dir string) ([]string, error) {
	files, err := filer.FromDirectory(dir)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	found, err := licensedb.Detect(files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	best := float32(sure)
	for _, m := range found {
		best = max(best, m.Confidence)
	}
	var ids []string
	for id, m := range found {
		// Names that SPDX has given up stand beside those in their place.
		if m.Confidence == best && !strings.HasPrefix(id, "deprecated_") {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s: no licence is known to be that of this text", dir)
	}
	slices.Sort(ids)
	// A variant that has the same text, such as MPL-2.0-no-copyleft-exception, takes
	// a notice that nobody gave.
	return slices.CompactFunc(ids, func(a, b string) bool { return strings.HasPrefix(b, a+"-") }), nil
}

// directories tells where the source of a module is, with its licence. A program
// that was built has all its modules in the cache.
func directories(root string) (func(path, version string) (string, error), error) {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	dirs := strings.Split(strings.TrimRight(string(out), "\r\n"), "\n")
	if len(dirs) != 2 {
		return nil, errors.New("`go env` does not tell where modules are")
	}
	return func(path, version string) (string, error) {
		switch {
		case path == "std":
			return dirs[1], nil
		case strings.HasPrefix(path, prefix):
			return root, nil
		}
		p, err := module.EscapePath(path)
		if err != nil {
			return "", err
		}
		v, err := module.EscapeVersion(version)
		if err != nil {
			return "", err
		}
		return filepath.Join(dirs[0], filepath.FromSlash(p)+"@"+v), nil
	}, nil
}
