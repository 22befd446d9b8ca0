package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cucumber/godog"

	"github.com/stile-lock/stile/conformance/report"
)

// Version is the suite's.
const Version = "1.0.0"

// Config says what to run and how.
type Config struct {
	// Software is what the user calls the target, for the reports.
	Software string
	// Profiles are those to judge; the target's own if empty.
	Profiles []string
	// Tags chooses among their scenarios: commas stand for "or", && for "and",
	// ~ for "not", as in "@core && ~@timed,@S-3.2-fifo".
	Tags string
	// Seed orders the scenarios; random if 0.
	Seed int64
	// Concurrency is how many run at once; the half's own if 0.
	Concurrency int
	// Ledger lists known failures; nil for none.
	Ledger *Ledger

	// SleepOff replaces the constant of the same name, for tests of the suite
	// itself on machines that others use, too. Nothing else sets it.
	SleepOff time.Duration

	// Begin is called before the first scenario, Done after each. Both may be
	// nil. Done may be called by several goroutines, one at a time.
	Begin func(*report.Run)
	Done  func(*report.Scenario)
}

// Run judges the half's target. The error says why nothing could be judged;
// what the target does wrong is in the run.
func Run(ctx context.Context, half Half, config Config) (*report.Run, error) {
	all, err := Scenarios(half.FS)
	if err != nil {
		return nil, err
	}
	if problems := Lint(half.FS); len(problems) > 0 {
		return nil, fmt.Errorf("the feature files are not in form:\n%s", strings.Join(problems, "\n"))
	}
	if config.Ledger != nil {
		if err := config.Ledger.Check(all); err != nil {
			return nil, err
		}
	}
	if err := CheckTags(config.Tags); err != nil {
		return nil, err
	}
	for _, p := range config.Profiles {
		if !slices.Contains(Profiles, p) {
			return nil, fmt.Errorf("no such profile: %q; there are %s", p, strings.Join(Profiles, ", "))
		}
	}
	digest, err := Digest(half.FS)
	if err != nil {
		return nil, err
	}
	if half.Close != nil {
		defer half.Close()
	}
	target, err := half.Prepare(ctx)
	if err != nil {
		return nil, err
	}
	target.Software = config.Software
	if len(config.Profiles) > 0 {
		target.Judged = config.Profiles
	}
	if config.Seed == 0 {
		config.Seed = rand.Int64N(1<<31-1) + 1
	}
	if config.Concurrency == 0 {
		config.Concurrency = max(half.Concurrency, 1)
	}
	if config.SleepOff == 0 {
		config.SleepOff = SleepOff
	}
	if half.TimeLimit == 0 {
		half.TimeLimit = time.Minute
	}
	run := &report.Run{
		Suite: Version, Half: half.Name, Title: half.Title, Target: target.Target, Seed: config.Seed,
		Started: time.Now(), Digest: digest, Selected: config.Tags, Complete: config.Tags == "", Profiles: target.Judged,
		LeftOut: map[string]string{}, NotTried: map[string]int{},
	}
	watching, stop := context.WithCancel(context.Background())
	defer stop()
	r := &runner{
		half: half, config: config, target: target, run: run,
		id: randomID(), watch: startWatch(watching), places: map[string]*place{},
	}
	for i, s := range all {
		if !slices.Contains(target.Judged, s.Profile) {
			run.NotTried[s.Profile]++
			continue
		}
		if why := leftOut(s, target); why != "" {
			run.LeftOut[s.ID] = why
			continue
		}
		if !Selected(config.Tags, s.Tags) {
			continue
		}
		res := s.result()
		run.Scenarios = append(run.Scenarios, res)
		r.places[at(s.File, s.Line)] = &place{scenario: s, result: res, number: i + 1}
	}
	if len(run.Scenarios) == 0 {
		return nil, fmt.Errorf("there is nothing to judge: no scenario of the profiles %s has the tags %q and applies to this target; "+
			"`stile-conformance list` shows all, with their tags", strings.Join(target.Judged, ", "), config.Tags)
	}
	if config.Begin != nil {
		config.Begin(run)
	}
	r.all(ctx)
	run.Interrupted = ctx.Err() != nil
	run.Took = time.Since(run.Started)
	if config.Ledger != nil {
		config.Ledger.Apply(run)
	}
	return run, nil
}

// leftOut is why a scenario does not apply to this kind of target, if so.
func leftOut(s *Scenario, t Target) string {
	for _, x := range s.Needs() {
		if t.Absent[x] != "" {
			return t.Absent[x]
		}
		if t.Missing[x] == "" && slices.Contains(Profiles, x) && !slices.Contains(t.Judged, x) {
			return "the profile " + x + " is not judged"
		}
	}
	for _, x := range s.with("without-") {
		if t.Has[x] {
			return "it is for targets without " + x
		}
	}
	return ""
}

// CheckTags finds what is wrong with an expression of tags: a tag that is empty,
// which all scenarios lack, or an & alone.
func CheckTags(expression string) error {
	if strings.TrimSpace(expression) == "" {
		return nil
	}
	for _, term := range strings.Split(expression, ",") {
		for _, tag := range strings.Split(term, "&&") {
			name := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(tag), "~"), "@")
			if name == "" || strings.ContainsAny(name, "&~@ ") {
				return fmt.Errorf("%q in %q is no tag: give some like @S-6.2-fifo,@keep&&~@timed", tag, expression)
			}
		}
	}
	return nil
}

// Selected reports whether tags (each without its @) fulfil the expression
// (see Config.Tags). An empty one is fulfilled by all.
func Selected(expression string, tags []string) bool {
	if strings.TrimSpace(expression) == "" {
		return true
	}
	for _, term := range strings.Split(expression, ",") {
		ok := true
		for _, tag := range strings.Split(term, "&&") {
			tag, not := strings.CutPrefix(strings.TrimSpace(tag), "~")
			ok = ok && slices.Contains(tags, strings.TrimPrefix(tag, "@")) != not
		}
		if ok {
			return true
		}
	}
	return false
}

func (s *Scenario) result() *report.Scenario {
	return &report.Scenario{
		ID: s.ID, Name: s.Name, Feature: s.Feature, File: s.File, Line: s.Line, Rule: s.Rule, Clause: s.Clause,
		Tags: s.Tags, Profile: s.Profile, Must: s.Must, Story: s.Story, Steps: slices.Clone(s.Steps),
		Outcome: report.NotJudged, Reason: "the run was interrupted before it",
	}
}

// runner runs one Run.
type runner struct {
	half   Half
	config Config
	target Target
	run    *report.Run
	id     string
	watch  *watch
	places map[string]*place // by file and line

	mu sync.Mutex // over what several scenarios touch at their end
}

// place is one scenario in the run.
type place struct {
	scenario *Scenario
	result   *report.Scenario
	number   int
	attempt  int // how often it was begun
	passed   int // attempts that count
	failed   int
	again    bool
}

func at(file string, line int64) string { return fmt.Sprintf("%s:%d", file, line) }

// all runs what can run side by side, then what must be alone, then what has
// to be run again because this machine could not keep the time.
func (r *runner) all(ctx context.Context) {
	var together, alone []*place
	for _, res := range r.run.Scenarios {
		p := r.places[at(res.File, res.Line)]
		if reason := r.missing(p.scenario); reason != "" {
			res.Reason = reason
			r.done(p)
		} else if p.scenario.Has("alone") {
			alone = append(alone, p)
		} else {
			together = append(together, p)
		}
	}
	r.godog(ctx, together, r.config.Concurrency)
	r.godog(ctx, alone, 1)
	for _, p := range append(together, alone...) {
		for p.again && ctx.Err() == nil {
			r.godog(ctx, []*place{p}, 1)
		}
	}
}

// missing is why a scenario can't be judged in this run.
func (r *runner) missing(s *Scenario) string {
	for _, x := range s.Needs() {
		if reason := r.target.Missing[x]; reason != "" {
			return reason
		}
	}
	return ""
}

// godog runs the scenarios. What becomes of them is taken from its hooks and
// not from its exit code, which knows only two outcomes.
func (r *runner) godog(ctx context.Context, places []*place, concurrency int) {
	if len(places) == 0 {
		return
	}
	chosen, tags := map[*place]bool{}, []string{}
	for _, p := range places {
		chosen[p] = true
		id, _, _ := strings.Cut(p.scenario.ID, "/")
		if tag := "@" + id; !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	godog.TestSuite{
		Name:                r.half.Name,
		ScenarioInitializer: func(sc *godog.ScenarioContext) { r.scenario(ctx, sc, chosen) },
		Options: &godog.Options{
			FS: r.half.FS, Paths: []string{"."}, Tags: strings.Join(tags, ","), Strict: true,
			Randomize: r.run.Seed, Concurrency: concurrency, Format: quiet, Output: os.Stderr, NoColors: true,
		},
	}.Run()
}

// scenario prepares one scenario: its world, and the hooks that observe it.
func (r *runner) scenario(ctx context.Context, sc *godog.ScenarioContext, chosen map[*place]bool) {
	w := &World{Target: r.target, late: r.watch.saw}
	var (
		p      *place
		cancel context.CancelFunc
		late   *lateness
		began  time.Duration // of the step
		step   int
	)
	sc.Before(func(gctx context.Context, gs *godog.Scenario) (context.Context, error) {
		p = r.places[at(gs.Uri, gs.Location.Line)]
		if p == nil || !chosen[p] {
			p = nil // another row of a chosen outline
			return gctx, godog.ErrSkip
		}
		p.attempt++
		w.Scenario = p.scenario
		w.Prefix = fmt.Sprintf("conformance/%s/%d%s/", r.id, p.number, []string{"", "b", "c", "d"}[p.attempt-1])
		w.Rand = rand.New(rand.NewPCG(uint64(r.run.Seed), uint64(p.number)))
		w.ctx, cancel = context.WithTimeoutCause(ctx, r.half.TimeLimit, errTimeLimit)
		p.result.Started, p.result.Prefix, p.result.Steps = time.Now(), w.Prefix, slices.Clone(p.scenario.Steps)
		late = r.watch.begin()
		w.start = time.Now()
		if ctx.Err() != nil {
			return gctx, w.NotJudged("the run was interrupted before it")
		}
		return gctx, nil
	})
	sc.StepContext().Before(func(gctx context.Context, _ *godog.Step) (context.Context, error) {
		if p != nil {
			began = w.Now()
		}
		return gctx, nil
	})
	sc.StepContext().After(func(gctx context.Context, _ *godog.Step, status godog.StepResultStatus, err error) (context.Context, error) {
		if p == nil || step >= len(p.result.Steps) {
			return gctx, nil
		}
		s := &p.result.Steps[step]
		step++
		if err == nil && status == godog.StepPassed {
			err = w.faulted()
		}
		s.At, s.Took, s.Outcome = began, w.Now()-began, status.String()
		if err != nil {
			s.Outcome, s.Error = "failed", err.Error()
			if status == godog.StepPassed {
				return gctx, err
			}
		}
		return gctx, nil
	})
	sc.After(func(gctx context.Context, _ *godog.Scenario, err error) (context.Context, error) {
		if p == nil {
			return gctx, nil
		}
		off := r.watch.end(late) // before the cleanup, which is not judged
		w.cleanup()
		cancel()
		if fault := w.faulted(); fault != nil {
			err = fault
		}
		p.result.Took = w.Now()
		p.result.Events = w.Transcript()
		r.verdict(p, err, off)
		return gctx, nil
	})
	r.half.Register(sc, w)
}

// verdict decides what an attempt means.
func (r *runner) verdict(p *place, err error, off time.Duration) {
	res := p.result
	res.Outcome, res.Failure, res.Reason = report.Passed, nil, ""
	var failure *report.Failure
	var not *notJudged
	switch {
	case err == nil:
	case errors.As(err, &failure):
		res.Outcome, res.Failure = report.Failed, failure
	case errors.As(err, &not):
		res.Outcome, res.Reason = report.NotJudged, not.reason
	default:
		res.Outcome, res.Reason = report.NotJudged, "trouble in the suite itself: "+err.Error()
	}
	p.again = false
	switch left := p.attempt <= attempts; {
	case !p.scenario.Has("timed") || res.Outcome == report.NotJudged:
	case off > r.config.SleepOff:
		res.Attempts = append(res.Attempts, fmt.Sprintf(
			"%s, but the suite's own sleeps were up to %d ms late beside it, more than %d", res.Outcome, off.Milliseconds(), r.config.SleepOff.Milliseconds()))
		res.Outcome, res.Failure = report.NotJudged, nil
		res.Reason = fmt.Sprintf("this machine could not keep the time in %d attempts", p.attempt)
		p.again = left
	case res.Outcome == report.Failed:
		// The target may be what did not get its turn on a busy machine, and
		// nothing here can tell: it has to fail twice, or to be given up.
		p.failed++
		if p.again = left && p.failed < 2; p.again {
			res.Attempts = append(res.Attempts, "failed, and was run again, alone: "+failure.Error())
		}
	default:
		p.passed++
		if p.again = left && p.passed <= p.failed; !left && p.passed <= p.failed {
			res.Outcome, res.Reason = report.NotJudged, "it failed and passed, and this machine could not keep the time for a third attempt"
		}
	}
	if !p.again {
		r.done(p)
	}
}

func (r *runner) done(p *place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.config.Done != nil {
		r.config.Done(p.result)
	}
}

// randomID keeps the keys of two runs apart, also of two with one seed.
func randomID() string {
	const digits = "abcdefghijkmnpqrstuvwxyz23456789"
	id := make([]byte, 6)
	for i := range id {
		id[i] = digits[rand.IntN(len(digits))]
	}
	return string(id)
}
