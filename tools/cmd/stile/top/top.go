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

// maxKeys bounds what is asked for: of more keys than these the busiest may
// be missed, and the view says so.
const maxKeys = 2000

// Run shows the view until the user quits.
func Run(ctx context.Context, api *adminapi.Client, o Options) error {
	opts := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out)}
	if !o.Colour {
		opts = append(opts, tea.WithColorProfile(colorprofile.Ascii))
	}
	_, err := tea.NewProgram(newModel(o.Every, func() tea.Msg { return look(ctx, api) }), opts...).Run()
	return err
}

// look asks all nodes. Those that do not answer in time show as such.
func look(ctx context.Context, api *adminapi.Client) snapshot {
	s := snapshot{}
	keys := make(chan *adminapi.Page, 1)
	go func() {
		q := adminapi.Query{Limit: maxKeys}
		pages := adminapi.All(ctx, api, func(ctx context.Context, addr string) (*adminapi.Page, error) { return api.Keys(ctx, addr, q) })
		var best *adminapi.Page
		for _, p := range pages {
			if p.Got != nil && (best == nil || p.Got.Active && !best.Active) {
				best = p.Got
			}
		}
		keys <- best
	}()
	s.nodes = adminapi.All(ctx, api, api.Status)
	s.page = <-keys
	s.at = time.Now()
	return s
}
