package main

import (
	"context"

	clientsteps "github.com/stile-lock/stile/conformance/steps/client"
	"github.com/stile-lock/stile/conformance/testee"
)

type clientCommand struct {
	Testee string `required:"" placeholder:"COMMAND" help:"The command that starts the testee of the client: conformance/TESTEE.md has the contract."`

	common `embed:""`
}

// Help is printed below the flags.
func (*clientCommand) Help() string {
	return "The suite starts the testee anew for each scenario, tells it what to do over stdin and stdout, and is itself the servers, on ports of 127.0.0.1."
}

func (c *clientCommand) Run(ctx context.Context) error {
	return c.run(ctx, clientsteps.Half(testee.Command(c.Testee)))
}
