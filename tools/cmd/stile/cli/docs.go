package cli

import (
	"fmt"

	"github.com/stile-lock/stile/tools/cmd/stile/shelldoc"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is shown by --help, and in the man page.
func (*completionCommand) Help() string {
	return `For the shells that are started from now on:

    bash: stile completion bash > ~/.local/share/bash-completion/completions/stile
    zsh:  stile completion zsh > a directory of $fpath, as _stile
    fish: stile completion fish > ~/.config/fish/completions/stile.fish

For this one, in bash: source <(stile completion bash)`
}

func (k *completionCommand) Run(a *app) error {
	_, err := fmt.Fprint(a.Out, shelldoc.Completion(k.Shell, a.model))
	return err
}

type manCommand struct{}

// Help is shown by --help, and in the man page.
func (manCommand) Help() string { return "To read it: stile man | man -l -" }

func (manCommand) Run(a *app) error {
	_, err := fmt.Fprint(a.Out, shelldoc.Man(a.model, shelldoc.Page{
		Section: 1,
		Summary: "run commands under a lock, and operate Stile",
		More: []shelldoc.Part{
			{Title: "EXIT STATUS", Items: []shelldoc.Item{
				{Name: "0", Text: "Done. For lock: the command ended with 0."},
				{Name: "1", Text: "status: something is wrong with the cluster. break: done, but not yet known to the standbys."},
				{Name: "121", Text: "Not obtained in time: others have the key. Another number with lock --conflict-exit-code."},
				{Name: "122", Text: "No server answered, or none serves."},
				{Name: "123", Text: "The lock is not held (any more), or was lost while the command ran."},
				{Name: "125", Text: "Anything else that stile could not do: wrong usage, a file that can't be read, output that can't be written, a secret or a certificate that is refused, by either side."},
				{Name: "126, 127", Text: "lock: the command can't be started, or was not found."},
				{Name: "128+N", Text: "lock: signal N ended the command, or the wait for the key."},
			}},
			{Title: "FILES", Items: []shelldoc.Item{
				{Name: "Secret files", Text: "One line without spaces. Let nobody else read them: chmod 600."},
			}},
			{Title: "SEE ALSO", Text: "stiled(1), flock(1)"},
		},
	}))
	return err
}
