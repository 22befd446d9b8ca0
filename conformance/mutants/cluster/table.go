package cluster

import "github.com/stile-lock/stile/conformance/mutants"

// Mutants are the wrong nodes, with the clause that each breaks and the ids of
// all scenarios that it fails. Whoever breaks a rule that a cluster lives by,
// such as that somebody takes over, fails whatever needs it.
var Mutants = []mutants.Mutant{
	{Name: lowerAfterFailover, Clause: "8.1", Fails: []string{"N-8.1-failover", "N-8.1-handoff", "N-8.1-partition", "N-8.1-restarted", "N-8.1-second-failover", "N-12.1-take-back", "N-12.1-work-goes-on", "N-12.6-greater-token", "N-12.6-under-load", "N-8.1-all-restarted"}},
	{Name: tokenTwice, Clause: "8.1", Fails: []string{"N-8.1-failover", "N-8.1-all-restarted", "N-8.1-handoff", "N-8.1-healed", "N-8.1-partition", "N-8.1-restarted", "N-8.1-second-failover", "N-12.6-one-way", "N-12.6-under-load"}},
	{Name: lowerAfterRestart, Clause: "8.1", Fails: []string{"N-8.1-all-restarted", "N-12.1-take-back"}},
	{Name: belowTheOtherSide, Clause: "8.1", Fails: []string{"N-8.1-healed"}},
	{Name: noFailover, Clause: "12.1", Fails: []string{"N-12.1-killed", "N-12.1-alone", "N-12.1-first-redirect", "N-12.1-next-in-order", "N-12.1-nothing-lost", "N-12.1-one-survivor", "N-12.1-promotion-order", "N-12.1-silent", "N-12.1-take-back", "N-12.1-work-goes-on", "N-12.2-follows", "N-12.2-never-itself", "N-12.3-waiters-too", "N-12.4-kept-lease", "N-12.4-lease", "N-12.4-lease-in-a-handoff", "N-12.4-places", "N-12.4-places-in-a-handoff", "N-12.5-woken", "N-12.6-greater-token", "N-12.6-nonces", "N-12.6-replicated", "N-12.6-step-down", "N-12.6-under-load", "N-8.1-failover", "N-8.1-handoff", "N-8.1-healed", "N-8.1-partition", "N-8.1-second-failover"}},
	{Name: slowFailover, Clause: "12.1", Fails: []string{"N-12.1-silent", "N-12.5-woken", "N-12.6-greater-token", "N-12.6-step-down", "N-8.1-healed", "N-8.1-partition"}},
	{Name: anotherOrder, Clause: "12.1", Fails: []string{"N-12.1-promotion-order"}},
	{Name: noTakeBack, Clause: "12.1", Fails: []string{"N-12.1-take-back"}},
	// Whoever asks node three first after a failover takes it for the active.
	{Name: standbyGrants, Clause: "12.1", Fails: []string{"N-12.1-start", "N-12.1-partial-partition", "N-12.1-take-back", "N-12.2-follows", "N-12.5-woken", "N-12.6-greater-token", "N-12.6-step-down", "N-12.6-under-load", "N-8.1-healed", "N-8.1-second-failover"},
		Sometimes: []string{"N-12.1-alone", "N-12.1-first-redirect", "N-12.1-killed", "N-12.1-next-in-order", "N-12.1-nothing-lost", "N-12.1-one-survivor", "N-12.1-promotion-order", "N-12.1-silent", "N-12.1-start-order", "N-12.1-work-goes-on", "N-12.3-all-starting", "N-12.3-hello", "N-12.3-limit", "N-12.3-malformed", "N-12.3-ping", "N-12.3-starting", "N-12.3-stopping-alone", "N-12.3-waiters-too", "N-12.4-kept-lease", "N-12.4-lease", "N-12.4-lease-in-a-handoff", "N-12.4-places", "N-12.4-places-in-a-handoff", "N-12.6-nonces", "N-12.6-one-way", "N-12.6-replicated", "N-12.6-restarted", "N-8.1-all-restarted", "N-8.1-failover", "N-8.1-handoff", "N-8.1-partition", "N-8.1-restarted"}},
	{Name: redirectsFirst, Clause: "12.1", Fails: []string{"N-12.1-first-redirect"}},
	{Name: noActiveInHandoff, Clause: "12.1", Fails: []string{"N-12.1-work-goes-on", "N-12.1-first-redirect"}},
	{Name: noWitness, Clause: "12.1", Fails: []string{"N-12.1-partial-partition"}},
	{Name: namesItself, Clause: "12.2", Fails: []string{"N-12.2-never-itself", "N-12.2-follows", "N-12.1-take-back", "N-12.6-step-down"}},
	{Name: namesTheFirst, Clause: "12.2", Fails: []string{"N-12.2-follows", "N-12.1-killed", "N-12.1-promotion-order", "N-12.1-silent"}},
	{Name: releaseMisled, Clause: "12.2", Fails: []string{"N-12.2-names-the-active", "N-12.2-no-effect", "N-12.1-take-back"}},
	{Name: keepRefused, Clause: "12.2", Fails: []string{"N-12.2-keep"}},
	{Name: cancelSwallowed, Clause: "12.2", Fails: []string{"N-12.2-nonce"}},
	{Name: actsAndRedirects, Clause: "12.2", Fails: []string{"N-12.2-no-effect", "N-12.1-work-goes-on"}},
	{Name: noPing, Clause: "12.3", Fails: []string{"N-12.3-ping"}},
	{Name: helloOfTheActive, Clause: "12.3", Fails: []string{"N-12.3-hello"}},
	{Name: malformedMoved, Clause: "12.3", Fails: []string{"N-12.3-malformed"}},
	{Name: noActiveAtStart, Clause: "12.3", Fails: []string{"N-12.3-starting", "N-12.3-all-starting", "N-12.3-limit"}},
	{Name: lateWhileHeld, Clause: "12.3", Fails: []string{"N-12.3-limit"}},
	{Name: waitersNotTold, Clause: "12.3", Fails: []string{"N-12.3-waiters-too", "N-12.4-places-in-a-handoff"}},
	{Name: stopsSilently, Clause: "12.3", Fails: []string{"N-12.3-stopping-alone"}},
	{Name: noncesForgotten, Clause: "12.4", Fails: []string{"N-12.4-places", "N-12.4-places-in-a-handoff", "N-12.6-nonces"}},
	{Name: leaseRenewed, Clause: "12.4", Fails: []string{"N-12.4-lease", "N-12.4-lease-in-a-handoff"}},
	{Name: wokenServes, Clause: "12.5", Fails: []string{"N-12.5-woken"}},
	{Name: noReplication, Clause: "12.6", Fails: []string{"N-12.6-replicated", "N-12.6-greater-token", "N-12.6-nonces", "N-12.6-restarted", "N-12.1-nothing-lost", "N-12.1-one-survivor", "N-12.1-take-back", "N-12.3-waiters-too", "N-12.4-kept-lease", "N-12.4-lease", "N-12.4-lease-in-a-handoff", "N-12.4-places", "N-12.4-places-in-a-handoff", "N-12.5-woken"}},
	{Name: neverStepsDown, Clause: "12.6", Fails: []string{"N-12.6-step-down", "N-12.6-greater-token", "N-12.6-one-way", "N-12.5-woken", "N-8.1-healed"}},
	{Name: lowerTokenStays, Clause: "12.6", Fails: []string{"N-12.6-greater-token"}},
}
