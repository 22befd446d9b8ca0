// Package client has the steps of the client half: a testee that is told what
// to do, and scripted servers that judge what its client sends.
//
// half.go makes the half; scenario.go has what one scenario keeps and how its
// steps are matched; calls.go has the steps about the caller's side, servers.go
// those about what servers do, seen.go those about what servers saw.
package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cucumber/godog"

	"github.com/stile-lock/stile/conformance/report"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/conformance/testee"
	"github.com/stile-lock/stile/features"
)

// Half is the client half, about the client of a testee.
func Half(p testee.Program) suite.Half {
	t := &target{program: p}
	return suite.Half{
		Name: "client", Title: "a client", FS: features.Client(),
		Prepare: t.prepare, Register: t.register,
		// Nearly all of a scenario is waiting.
		Concurrency: 24,
	}
}

type target struct {
	program testee.Program
}

// prepare starts a testee once, to see who it is and whether it keeps to the
// contract at both ends.
func (t *target) prepare(ctx context.Context) (suite.Target, error) {
	s, err := testee.Open(ctx, t.program, nobody{})
	if err != nil {
		return suite.Target{}, err
	}
	if err := s.Close(); err != nil {
		return suite.Target{}, err
	}
	h := s.Hello
	var judged []string
	for _, p := range h.Profiles {
		if slices.Contains(suite.Profiles, p) && p != "cluster" {
			judged = append(judged, p)
		}
	}
	return suite.Target{
		Target: report.Target{
			Name:     t.program.String(),
			Hello:    strings.TrimSpace(fmt.Sprintf("%s %s", h.Client, h.Version)),
			Profiles: h.Profiles,
		},
		Judged: judged,
	}, nil
}

func (t *target) register(sc *godog.ScenarioContext, w *suite.World) {
	s := &scenario{w: w, t: t, callers: map[string]*caller{}, seen: map[*entry]bool{}}
	s.registerServers(sc)
	s.registerCalls(sc)
	s.registerSeen(sc)
}

// nobody records nothing.
type nobody struct{}

func (nobody) Sent(string, string)         {}
func (nobody) Received(string, string)     {}
func (nobody) Note(string, string, ...any) {}
