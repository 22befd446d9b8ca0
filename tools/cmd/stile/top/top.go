// Package top is the live view of `stile top`: the nodes, and the keys that
// are waited for most or held longest.
package top

import (
	"context"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/stile-lock/stile/tools/cmd/stile/adminapi"
)

// Options of the view.
type Options struct {
	Every   time.Duration // between two looks
	In, Out *os.File      // a terminal
	Colour  bool
}

// answerWithin is how long a node may take for each question.
const answerWithin = time.Second

// Run shows the view until the user quits.
func Run(ctx context.Context, api *adminapi.Client, o Options) error {
	// Whoever does not answer holds up the picture of the others.
	api.Within = answerWithin
	opts := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out)}
	if !o.Colour {
		opts = append(opts, tea.WithColorProfile(colorprofile.Ascii))
	}
	_, err := tea.NewProgram(newModel(o.Every, func() tea.Msg { return look(ctx, api) }), opts...).Run()
	return err
}

// look asks all nodes. Those that do not answer in time show as such.
func look(ctx context.Context, api *adminapi.Client) snapshot {
	s, began := snapshot{}, time.Now()
	keys := make(chan *adminapi.Answer[adminapi.Page], 1)
	go func() { keys <- adminapi.Best(adminapi.All(ctx, api, api.Top)) }()
	s.nodes = adminapi.All(ctx, api, api.Status)
	if best := <-keys; best != nil {
		s.page = best.Got
	}
	s.at = time.Now()
	s.took = s.at.Sub(began)
	return s
}
