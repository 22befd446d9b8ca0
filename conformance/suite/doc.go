// Package suite is the core of the conformance suite: it runs feature files
// with godog against a target, decides what became of each scenario, and hands
// a report.Run to package report.
//
// # A half
//
// A half (server, client, cluster) is a Half value that its step package makes
// from its options:
//
//	func Half(o Options) suite.Half {
//		t := &target{o}
//		return suite.Half{
//			Name: "server", Title: "a live server", FS: features.Server(),
//			Prepare:  t.prepare,  // once: connects, says hello, tells what is missing
//			Register: t.register, // once per scenario: adds its steps
//			Close:    t.close,    // once, at the end
//			Concurrency: 8,
//		}
//	}
//
//	func (t *target) register(sc *godog.ScenarioContext, w *suite.World) {
//		s := &scenario{w: w, t: t} // all state of one scenario
//		sc.Step(`^(\w+) sends "(.*)"$`, s.send)
//	}
//
// Run runs it. In cmd/stile-conformance a half is a kong command whose Run
// makes the Half and calls common.run; main.go says where to add one.
//
// # A scenario
//
//	# features/server/03-requests-and-answers.feature
//	Feature: 3 Requests and answers
//
//	  Rule: 3.3 For one (op, key) on one connection, answers come in the order of the requests
//
//	    @S-3.3-held-back @core @must @timed
//	    Scenario: An answer that is ready waits for an older one
//
// One file per section of SPEC.md, a Rule per clause that begins with its
// number. Each scenario has one id tag (S server, C client, N cluster; the
// clause; a name), exactly one profile tag (see Profiles), and @must or
// @should. The first column of an outline's Examples is "name", in kebab-case;
// the id of a row is S-5.2-refused/no-key. Lint checks all this, and that no
// two scenarios have the same name. Further tags:
//
//	@timed       judges moments: counts only where this machine kept the time
//	@alone       does not run beside other scenarios
//	@needs-X     X a profile: left out where X is not judged. Any other X: left
//	             out where the half's Target.Absent has X, and "not judged" where
//	             its Target.Missing has it, with that reason
//	@without-X   left out where Target.Has[X]: for targets without X only
//
// # A step
//
// A step returns nil, or one of three kinds of errors:
//
//   - w.Fail(expected, seen) or w.Expect(ok, expected, seen): the target is
//     wrong. Both texts are in words of the specification, about one thing.
//     A refused connection, silence, a bad line are the target's doing, too.
//   - w.NotJudged(reason): nothing can be said about the target.
//   - any other error, a panic, a step that is not defined: trouble of the
//     suite itself, which is reported as not judged, and as what it is.
//
// A goroutine that judges beside the steps calls w.Fault(w.Fail(...)).
//
// World has the rest: Now (monotonic, since the scenario began), Sleep and
// Context (both end on Ctrl+C and when the half's TimeLimit is over; return
// w.Stopped() then), Sent, Received and Note for the transcript, Key for keys
// nobody else uses, Rand from the run's seed, and Cleanup. Cleanups run in
// reverse order when the scenario ends, also on Ctrl+C, with a context of
// their own: kill children, close listeners, release locks there, not in
// After hooks.
//
// World is not usable within Register itself, only in steps and hooks:
// w.Scenario, w.Prefix and w.Rand are set when the scenario begins.
//
// Package lines has a connection that reads at all times, writes the
// transcript, and is drained at the end; it serves either end of a
// connection. Every allowance for time is named in tolerance.go, with its
// reason: add yours there, and use no numbers in steps.
//
// # Time
//
// Beside each scenario the suite sleeps in steps of 5 ms and notes how late it
// wakes up. If that is ever more than SleepOff beside a @timed scenario, its
// result counts for nothing, be it good or bad: it runs again after all others,
// alone, up to 3 times, and is then "not judged".
//
// Nothing tells whether the target got its turn. So a @timed scenario that
// fails runs again, too, and the best of three counts.
//
// # Verdict
//
// The outcome of a scenario comes from the hooks, never from godog's exit code.
// A Ledger turns failures that are known into known failures, and complains
// about every difference. report.Run.Verdict has the exit code.
package suite
