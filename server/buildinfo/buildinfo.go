// Package buildinfo says which build of Stile this is.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// The linker sets these (-X) in `make build` and in releases.
var (
	version = ""
	commit  = ""
	built   = "" // RFC 3339
)

// released is a lower bound for the date of any build of this source.
var released = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

// Version is the module version, "devel" for a build from a checkout.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// Commit is the commit the build was made of, "unknown" if nobody said.
func Commit() string {
	if commit != "" {
		return commit
	}
	return setting("vcs.revision", "unknown")
}

// Built is when the program, or the source it was made of, was finished.
func Built() time.Time {
	for _, s := range []string{built, setting("vcs.time", "")} {
		if t, err := time.Parse(time.RFC3339, s); err == nil {
			return t
		}
	}
	return released
}

// Line is what --version prints.
func Line(program string) string {
	return fmt.Sprintf("%s %s (commit %s, %s, %s/%s)", program, Version(), Commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func setting(key, none string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return none
}
