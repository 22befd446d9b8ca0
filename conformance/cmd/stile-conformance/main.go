// Command stile-conformance certifies servers, clients and clusters that speak
// Stile's protocol: it runs the feature files of the conformance suite against
// them.
//
// It exits with 0 if the target is conformant, with 1 if it is not, and with 2
// if that could not be judged.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/stile-lock/stile/conformance/report"
	"github.com/stile-lock/stile/conformance/steps/cluster"
)

// cli has a command for each half, and those about the suite itself. A half's
// command is in a file of its own and ends with common.run.
type cli struct {
	Server serverCommand `cmd:"" help:"Certify a server, or a cluster of them."`
	Client clientCommand `cmd:"" help:"Certify a client."`

	Verify verifyCommand `cmd:"" help:"Check that a certificate fits this suite and itself."`
	List   listCommand   `cmd:"" help:"List the scenarios, with their ids and tags."`

	Version kong.VersionFlag `help:"Print the version of the program, and of the suite in it, and exit."`
}

// verdict carries a command's exit code through kong.
type verdict report.Verdict

func (v verdict) Error() string { return report.Verdict(v).String() }

func main() { os.Exit(run()) }

func run() int {
	var c cli
	parser, err := kong.New(&c,
		kong.Name("stile-conformance"),
		kong.Description("Certifies servers and clients of Stile's protocol.\n\n"+
			"Exit code 0: conformant. 1: not conformant. 2: could not judge."),
		kong.ShortUsageOnError(),
		kong.Vars{
			"version": version(), "limits": limitsHelp(),
			"failover": cluster.FailoverWithin.String(), "start": cluster.StartWithin.String(),
		},
		kong.Exit(func(code int) {
			if code != 0 {
				code = int(report.CouldNotJudge)
			}
			os.Exit(code)
		}))
	if err != nil {
		panic(err) // the tags above are wrong
	}
	command, err := parser.Parse(os.Args[1:])
	parser.FatalIfErrorf(err)

	// The first interrupt ends the scenarios, which give back what they hold;
	// the second one ends the program.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	command.BindTo(ctx, (*context.Context)(nil))

	var v verdict
	switch err := command.Run(); {
	case err == nil:
		return int(report.Conformant)
	case errors.As(err, &v):
		return int(v)
	default:
		fmt.Fprintln(os.Stderr, "stile-conformance:", err)
		return int(report.CouldNotJudge)
	}
}
