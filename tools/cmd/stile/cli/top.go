package cli

import (
	"time"

	"golang.org/x/term"

	"github.com/stile-lock/stile/tools/cmd/stile/top"
)

type topCommand struct {
	Every time.Duration `default:"1s" help:"Time between two looks, 100ms or more (${default})."`
}

// Help is shown by --help, and in the man page.
func (*topCommand) Help() string {
	return `Keys: q quits, w sorts by those who wait (busiest first), h by how long keys are held, space stops the picture, up and down move through the keys.

Below the nodes are lines that say what is wrong, if something is; stile status has all of them. Keys are those of the active, or of a standby where none answers: then their title says so.

Columns are as wide as what is in them. A narrow terminal leaves out the epoch, the expired leases, one of the two addresses of a node, and the token; then long keys and names are cut, in the middle; stile keys has them whole.`
}

func (k *topCommand) Run(a *app) error {
	if k.Every < 100*time.Millisecond {
		return failed(ExitFailure, "--every %v is too short: want 100ms or more", k.Every)
	}
	out := fileOf(a.Out)
	if out == nil || !term.IsTerminal(int(out.Fd())) || a.In == nil || !term.IsTerminal(int(a.In.Fd())) {
		return failed(ExitFailure, "top needs a terminal: use `stile status` and `stile keys`, which have --json, too")
	}
	api, err := a.admin()
	if err != nil {
		return err
	}
	return top.Run(a.ctx, api, top.Options{Every: k.Every, In: a.In, Out: out, Colour: a.styles.on})
}
