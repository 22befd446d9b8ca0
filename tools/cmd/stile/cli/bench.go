package cli

import (
	"context"
	"errors"
	"os/signal"
	"strings"
	"syscall"

	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/loadflags"
	"github.com/stile-lock/stile/bench/stile"
)

type benchCommand struct {
	Driver string `enum:"client,raw,nonce" default:"client" help:"client: through the Go client, which finds the active node. raw: one connection as a core client speaks, to one address. nonce: that, with nonces."`
	loadflags.Flags
}

// Help is shown by --help, and in the man page.
func (*benchCommand) Help() string {
	return `It takes and releases keys of its own names as fast as it can, or at --rate, and prints throughput and latency. A wrong answer, or a missing one, ends it. So does a server that is lost; --driver client looks for another one for --retry-for, and goes on. What was measured until then is printed, also after Ctrl+C, which gives back what is held, within 2s. Keys that others use are safe, but the servers are busy: do not run it beside work that matters.

stile-bench measures other servers, too, and stile-bench-compare runs them all.`
}

func (k *benchCommand) Run(a *app) error {
	secret, err := a.secret("--secret-file", a.SecretFile)
	if err != nil {
		return err
	}
	cfg, err := a.tls()
	if err != nil {
		return err
	}
	var d load.Driver = stile.Client{Addr: a.Addrs, Secret: secret, TLS: cfg, RetryFor: a.RetryFor}
	if k.Driver != "client" {
		switch {
		case strings.Contains(a.Addrs, ","):
			return failed(ExitFailure, "--driver %s loads one server: give the address of the active node with --addrs; `stile status` tells which it is", k.Driver)
		case cfg != nil:
			return failed(ExitFailure, "--driver %s speaks no TLS: use --driver client", k.Driver)
		}
		d = stile.Raw{Addr: a.Addrs, Secret: secret, Nonces: k.Driver == "nonce"}
	}
	ctx, stop := signal.NotifyContext(a.ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	res, err := d.Run(ctx, k.Plan())
	if res != nil { // also of a run that ended early
		if writing := k.Write(a.Out, res); err == nil {
			err = writing
		}
	}
	var stopped *load.StoppedError
	if errors.As(err, &stopped) {
		return failed(ExitFailure, "interrupted%s", stopped.Held())
	}
	if errors.Is(err, context.Canceled) {
		return failed(ExitFailure, "interrupted")
	}
	return err
}
