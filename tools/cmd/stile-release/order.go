package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// prefix is what the paths of all our modules begin with; the rest of a path is
// the module's directory.
const prefix = "github.com/stile-lock/stile/"

// order is the directories of the modules that a release of the given ones has,
// each after those that it requires. It reads go.mod files below root.
func order(root string, released []string) ([]string, error) {
	var list, open []string
	var visit func(dir string) error
	visit = func(dir string) error {
		if slices.Contains(list, dir) {
			return nil
		}
		if slices.Contains(open, dir) {
			return fmt.Errorf("modules require each other: %s", strings.Join(append(open, dir), ", "))
		}
		open = append(open, dir)
		defer func() { open = open[:len(open)-1] }()
		mod, err := readMod(root, dir)
		if err != nil {
			return err
		}
		for _, need := range ours(mod) {
			if err := visit(need); err != nil {
				return err
			}
		}
		list = append(list, dir)
		return nil
	}
	for _, dir := range released {
		if err := visit(path.Clean(dir)); err != nil {
			return nil, err
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no module to release was named")
	}
	return list, nil
}

func readMod(root, dir string) (*modfile.File, error) {
	name := filepath.Join(root, dir, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	mod, err := modfile.Parse(name, text, nil)
	if err != nil {
		return nil, err
	}
	if mod.Module == nil || mod.Module.Mod.Path != prefix+dir {
		return nil, fmt.Errorf("%s is not of module %s", name, prefix+dir)
	}
	return mod, nil
}

// ours are the directories of our modules that mod requires, sorted.
func ours(mod *modfile.File) (dirs []string) {
	for _, r := range mod.Require {
		if dir, ok := strings.CutPrefix(r.Mod.Path, prefix); ok {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// pin makes mod require our modules at the version, from wherever modules come.
// A replace of anything else is an error: `go install` would refuse the module.
func pin(mod *modfile.File, version string) ([]byte, error) {
	for _, dir := range ours(mod) {
		if err := mod.AddRequire(prefix+dir, version); err != nil {
			return nil, err
		}
	}
	for _, r := range slices.Clone(mod.Replace) {
		if !strings.HasPrefix(r.Old.Path, prefix) {
			return nil, fmt.Errorf("%s replaces %s: no release can have that", mod.Module.Mod.Path, r.Old.Path)
		}
		if err := mod.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return nil, err
		}
	}
	mod.Cleanup()
	return mod.Format()
}
