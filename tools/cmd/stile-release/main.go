// Command stile-release prepares a release of the modules in this repository.
//
//	stile-release tag   -version vX.Y.Z MODULE...   make the release commit and its tags, here
//	stile-release check [-version V]    MODULE...   make them in a clone, and use them as a stranger does
//
// MODULE is the directory of a module that is released; those that it requires
// are released with it, before it. Run it in the repository; what is not
// committed does not count.
//
// In the repository modules find each other by `replace`, and a module with one
// can't be installed by its path. So a release is a commit of its own, off the
// branch, in which go.mod and go.sum name the released versions instead, and the
// manifests name its image. All tags of a release are on it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stile-release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want a command: tag or check")
	}
	flags := flag.NewFlagSet("stile-release "+args[0], flag.ExitOnError)
	switch args[0] {
	case "tag":
		version := flags.String("version", "", "the version, such as v0.3.0")
		flags.Parse(args[1:])
		return tag(ctx, *version, flags.Args())
	case "check":
		// Nobody releases this one, so no cache has another of its name.
		version := flags.String("version", "v0.0.0-check", "the version to try")
		flags.Parse(args[1:])
		return check(ctx, *version, flags.Args())
	}
	return fmt.Errorf("there is no command %q: want tag or check", args[0])
}
