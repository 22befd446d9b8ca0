// Stile is the command line of Stile, the lock server: it runs commands under
// a lock, takes and gives back locks for scripts, and shows and operates a
// cluster.
package main

import (
	"fmt"
	"os"

	"github.com/stile-lock/stile/tools/cmd/stile/cli"
	"github.com/stile-lock/stile/tools/cmd/stile/job"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == job.GuardArg:
		job.Guard()
	case len(os.Args) > 1 && os.Args[1] == job.StartArg:
		fmt.Fprintln(os.Stderr, "stile:", job.Start(os.Args[2:]))
		os.Exit(cli.ExitFailure)
	}
	os.Exit(cli.Run(os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
