package server

import "time"

// The bugs, one rule broken in each.
const (
	bugLIFO                   = "lifo"
	bugBarging                = "barging"
	bugSlowHandOver           = "slow-hand-over"
	bugGrantsTwo              = "grants-two"
	bugTokenTwice             = "token-twice"
	bugTokenFalls             = "token-falls"
	bugTokenPerKey            = "token-per-key"
	bugGrantAfterT            = "grant-after-t"
	bugWaitZero               = "wait-zero"
	bugQueuesMinusOne         = "queues-minus-one"
	bugTimesOutLate           = "times-out-late"
	bugTimesOutEarly          = "times-out-early"
	bugNeverReclaims          = "never-reclaims"
	bugReclaimsEarly          = "reclaims-early"
	bugReclaimsLate           = "reclaims-late"
	bugLongerLease            = "longer-lease"
	bugLeaseFromRequest       = "lease-from-request"
	bugAnyToken               = "any-token"
	bugOwnConnection          = "own-connection"
	bugReleaseAlwaysFine      = "release-always-fine"
	bugEchoesAnotherKey       = "echoes-another-key"
	bugAnyOrder               = "any-order"
	bugWholeRequestWaits      = "whole-request-waits"
	bugRefusalOvertakes       = "refusal-overtakes"
	bugStaleLease             = "stale-lease"
	bugStopsReading           = "stops-reading"
	bugTellsOfTheEnd          = "tells-of-the-end"
	bugUnfinishedLine         = "unfinished-line"
	bugKeepsCR                = "keeps-cr"
	bugEmptyLine              = "empty-line"
	bugLongLines              = "long-lines"
	bugSpaces                 = "spaces"
	bugWraps                  = "wraps"
	bugFoldsCase              = "folds-case"
	bugClosesOnBadKey         = "closes-on-bad-key"
	bugClosesOnBadRequest     = "closes-on-bad-request"
	bugClosesOnUnknownOp      = "closes-on-unknown-op"
	bugBadKeyAsRequest        = "bad-key-as-request"
	bugExtraFields            = "extra-fields"
	bugGhostAfterDrop         = "ghost-after-drop"
	bugDropReleases           = "drop-releases"
	bugGoesOn                 = "goes-on"
	bugRevives                = "revives"
	bugKeepAdds               = "keep-adds"
	bugKeepOnlyExtends        = "keep-only-extends"
	bugKeepNewToken           = "keep-new-token"
	bugForgetsNonce           = "forgets-nonce"
	bugRepeatRenews           = "repeat-renews"
	bugRepeatNewToken         = "repeat-new-token"
	bugRepeatWholeLease       = "repeat-whole-lease"
	bugTakeOverAtTheEnd       = "take-over-at-the-end"
	bugTakeOverOldTerms       = "take-over-old-terms"
	bugTakeOverQueues         = "take-over-queues"
	bugNoGrace                = "no-grace"
	bugGraceForEver           = "grace-for-ever"
	bugDetachedBlocks         = "detached-blocks"
	bugCancelForgets          = "cancel-forgets"
	bugCancelKeepsPlace       = "cancel-keeps-place"
	bugCancelKeepsGrant       = "cancel-keeps-grant"
	bugNormalises             = "normalises"
	bugShortKeys              = "short-keys"
	bugShortLines             = "short-lines"
	bugReleaseLater           = "release-later"
	bugReentrant              = "reentrant"
	bugLeaseUntold            = "lease-untold"
	bugNoDefault              = "no-default"
	bugCancelsElsewhere       = "cancels-elsewhere"
	bugHelloOnce              = "hello-once"
	bugShortNames             = "short-names"
	bugShortNonces            = "short-nonces"
	bugTimeoutForgets         = "timeout-forgets"
	bugSilenceFrees           = "silence-frees"
	bugOneAtATime             = "one-at-a-time"
	bugLastRelease            = "last-release"
	bugRefusedWaits           = "refused-waits"
	bugGreets                 = "greets"
	bugFreeCR                 = "free-cr"
	bugDropsPieces            = "drops-pieces"
	bugThreeAtOnce            = "three-at-once"
	bugOnlyUTF8               = "only-utf-8"
	bugVersionLast            = "version-last"
	bugShortNumbers           = "short-numbers"
	bugZeroWaitEnds           = "zero-wait-ends"
	bugZeroLease              = "zero-lease"
	bugPaddedKeep             = "padded-keep"
	bugPortZero               = "port-zero"
	bugEchoesInText           = "echoes-in-text"
	bugLosesAnswers           = "loses-answers"
	bugHelloLater             = "hello-later"
	bugUnboundedConnection    = "unbounded-connection"
	bugSlowDoNotQueue         = "slow-do-not-queue"
	bugTakesNonces            = "takes-nonces"
	bugKeepsForEver           = "keeps-for-ever"
	bugCancelMissesDetached   = "cancel-misses-detached"
	bugPingsAnything          = "pings-anything"
	bugPingNeedsSecret        = "ping-needs-secret"
	bugBadVersionAsRequest    = "bad-version-as-request"
	bugForgetsProfiles        = "forgets-profiles"
	bugForgetsTrustedProfiles = "forgets-profiles-behind-a-secret"
	bugRefusesSecret          = "refuses-secret"
	bugSecretFirst            = "secret-first"
	bugUnboundedLine          = "unbounded-line"
	bugTakeOverNeedsPlace     = "take-over-needs-place"
	bugOtherDefault           = "other-default"
	bugRefusesLongLeases      = "refuses-long-leases"
	bugLowMaximum             = "low-maximum"
	bugCancelFrees            = "cancel-frees"
	bugHandedOnForgets        = "handed-on-forgets"
	bugUnauthorizedSpends     = "unauthorized-spends"
	bugQueueFullSpends        = "queue-full-spends"
	bugUnknownAsRequest       = "unknown-as-request"
	bugAcquiresWithoutSecret  = "acquires-without-secret"
	bugReleasesWithoutSecret  = "releases-without-secret"
	bugKeepsWithoutSecret     = "keeps-without-secret"
	bugCancelsWithoutSecret   = "cancels-without-secret"
	bugSecretForAll           = "secret-for-all"
	bugNoneIsWrong            = "none-is-wrong"
	bugGuessesForEver         = "guesses-for-ever"
	bugClosesOnSecond         = "closes-on-second"
	bugBadHelloLocks          = "bad-hello-locks"
	bugComparesAPrefix        = "compares-a-prefix"
	bugRudeClose              = "rude-close"
	bugTurnsAwaySilently      = "turns-away-silently"
	bugBlocksOnWrites         = "blocks-on-writes"
	bugHalfALine              = "half-a-line"
	bugTrimsReleases          = "trims-releases"
	bugWaitsIn32Bits          = "waits-in-32-bits"
	bugLongWaitsEnd           = "long-waits-end"
	bugWaitsInHundredths      = "waits-in-hundredths"
	bugLeasesIn32Bits         = "leases-in-32-bits"
	bugReplacesBytes          = "replaces-bytes"
	bugSupersededOvertakes    = "superseded-overtakes"
	bugSpentOvertakes         = "spent-overtakes"
	bugHeldBackWhole          = "held-back-whole"
	bugKeepsAnsweredLate      = "keeps-answered-late"
	bugKeepsLast              = "keeps-last"
	bugCancelsFirst           = "cancels-first"
	bugCountsTimeouts         = "counts-timeouts"
	bugShortTokens            = "short-tokens"
	bugZeroIsFourSeconds      = "zero-is-four-seconds"
	bugKeepsOnce              = "keeps-once"
	bugKeepsFirstGrants       = "keeps-first-grants"
	bugShorterStays           = "shorter-stays"
	bugZeroIsTheLast          = "zero-is-the-last"
	bugCancelSparesHandedOn   = "cancel-spares-handed-on"
	bugCancelLIFO             = "cancel-lifo"
	bugBargingAtTheEnd        = "barging-at-the-end"
	bugTakesTurns             = "takes-turns"
	bugNoUndo                 = "no-undo"
	bugLeasesInTicks          = "leases-in-ticks"
	bugNoncePrefix            = "nonce-prefix"
	bugNonceCase              = "nonce-case"
	bugShorterLimitStays      = "shorter-limit-stays"
	bugOldConnectionMatters   = "old-connection-matters"
	bugGraceGoesOn            = "grace-goes-on"
	bugNoWayBack              = "no-way-back"
	bugForgetsCancelled       = "forgets-cancelled"
	bugRemembersFew           = "remembers-few"
)

// Mutant is a server that is wrong in one rule; see mutants.Mutant.
type Mutant struct {
	Name   string
	Clause string
	On     Config // what else it is, the bug apart
	Fails  []string
	// As in mutants.Mutant.
	Sometimes []string
}

// What a mutant is run as if not as the plain server: some rules bind only
// those who have something.
var (
	asksSecret = Config{Secret: "open-sesame"}
	hasLimits  = Config{Connections: 150, Unanswered: 1100, Waiters: 1000, Default: 5 * time.Second, Longest: 60 * time.Second}
	coreOnly   = Config{Core: true}
)

// Different are servers that are right in other ways than the reference node;
// they fail the advice that they do not take.
var Different = []Mutant{
	{Name: "plain"},
	// Its lines of waiters are short, and its tokens above 2^63.
	{Name: "core",
		On:    Config{Core: true, Default: 2 * time.Second, Unanswered: 1024, Waiters: 100, Gaps: true, Pieces: true, GrantFirst: true},
		Fails: []string{"S-6.4-thousand", "S-8.4-below-2-63"}},
	// All profiles, a secret and limits, and it does what it must and no more.
	{Name: "all",
		On: Config{
			Secret: "s", Default: time.Hour, Longest: 24 * time.Hour, Connections: 250, Unanswered: 4096, Waiters: 2500,
			Remembers: 10 * time.Second, Late: 20 * time.Millisecond, Chatty: true,
		}},
}

// Mutants is the table.
var Mutants = []Mutant{
	{Name: bugLIFO, Clause: "6.2", // the newest in line is granted first
		Fails: []string{"S-6.2-end-of-the-line", "S-6.2-fifo", "S-6.2-fifo-after-a-lease", "S-6.2-mixed-limits", "S-6.2-one-holder", "S-3.3-held-back", "S-6.3-others-stay", "S-7.2-chain", "S-7.2-from-the-grant", "S-9.4-superseded", "S-9.6-comes-back", "S-9.6-is-skipped", "S-9.6-too-late", "S-9.6-two-come-back", "S-3.3-granted-meanwhile", "S-6.2-fifo-after-a-cancel", "S-6.2-two-of-one", "S-6.6-held-back", "S-3.3-superseded-in-turn"}},
	{Name: bugBarging, Clause: "6.2", // a released key is free for a moment
		Fails: []string{"S-6.2-end-of-the-line", "S-6.2-no-barging"}, Sometimes: []string{"S-6.2-no-barging-at-the-end"}},
	{Name: bugSlowHandOver, Clause: "6.2", // a released key is handed over 0.4 s later
		Fails: []string{"S-6.2-at-once", "S-6.2-end-of-the-line", "S-6.2-fifo-after-a-lease", "S-6.2-mixed-limits", "S-6.2-no-barging", "S-3.3-held-back", "S-4.1-do-not-queue-leaves-nothing", "S-4.1-timeout-leaves-nothing", "S-4.3-extends", "S-4.3-shortens", "S-4.4-granted", "S-4.4-waiting", "S-5.4-refused-keep", "S-6.3-not-after-the-limit", "S-6.3-others-stay", "S-6.5-closed-by-the-server", "S-6.5-lease-goes-on", "S-6.5-several", "S-6.5-waiter-leaves", "S-7.2-chain", "S-7.2-each-its-own", "S-7.2-from-the-grant", "S-7.2-reclaimed", "S-7.3-lease", "S-9.4-gives-up", "S-9.4-superseded", "S-9.5-not-renewed", "S-9.6-comes-back", "S-9.6-is-skipped", "S-9.6-too-late", "S-6.2-fifo-after-a-cancel", "S-6.2-no-barging-at-the-end", "S-6.6-held-back", "S-9.4-old-connection", "S-9.6-grace-ends"}},
	{Name: bugGrantsTwo, Clause: "6.2", // a release grants to two
		Fails: []string{"S-6.2-end-of-the-line", "S-6.2-fifo", "S-6.2-mixed-limits", "S-6.2-one-holder", "S-3.3-held-back", "S-6.3-others-stay", "S-7.2-chain", "S-7.2-from-the-grant", "S-9.4-superseded", "S-9.6-comes-back", "S-9.6-is-skipped", "S-9.6-too-late", "S-9.6-two-come-back", "S-3.3-granted-meanwhile", "S-6.2-fifo-after-a-cancel", "S-6.2-two-of-one", "S-6.6-held-back"}},
	{Name: bugTokenTwice, Clause: "8.1", // two grants have one token
		Fails: []string{"S-8.1-next-grant", "S-8.1-hand-over", "S-8.1-after-a-lease", "S-8.1-many", "S-8.1-new-grant-after-asking-again", "S-4.2-old-token", "S-4.4-granted", "S-3.3-released-meanwhile", "S-3.3-told-late", "S-7.2-late-release-spares-the-next"}},
	{Name: bugTokenFalls, Clause: "8.1", // tokens fall
		Fails: []string{"S-8.1-after-a-lease", "S-8.1-hand-over", "S-8.1-many", "S-8.1-new-grant-after-asking-again", "S-8.1-next-grant", "S-8.1-other-key", "S-9.1-another-key"}},
	{Name: bugTokenPerKey, Clause: "8.1", // each key counts its own tokens
		Fails: []string{"S-8.1-many", "S-8.1-other-key", "S-3.2-echo", "S-3.3-other-keys-pass", "S-4.2-token-of-another-key", "S-4.2-wrong-token", "S-4.3-wrong-token", "S-9.1-another-key", "S-6.4-thousand"}},
	{Name: bugGrantAfterT, Clause: "6.3", // who was answered T stays in line
		Fails: []string{"S-6.3-not-after-the-limit", "S-6.3-others-stay", "S-3.3-held-back", "S-4.1-timeout-leaves-nothing"}},
	{Name: bugWaitZero, Clause: "4.1", // a wait of 0 does not queue
		Fails: []string{"S-4.1-do-not-queue-leaves-nothing", "S-4.1-timeout-leaves-nothing", "S-4.1-wait-0-is-no-limit", "S-11.3-closed", "S-3.3-do-not-queue-in-turn", "S-3.3-held-back", "S-3.3-refusals-in-turn", "S-3.3-told-late", "S-3.5-behind-own-lock", "S-3.6-allowed", "S-4.3-extends", "S-4.3-shortens", "S-4.4-at-its-turn", "S-4.4-granted", "S-4.4-waiting", "S-5.4-refused-keep", "S-6.2-at-once", "S-6.2-end-of-the-line", "S-6.2-fifo", "S-6.2-fifo-after-a-lease", "S-6.2-mixed-limits", "S-6.2-no-barging", "S-6.2-one-holder", "S-6.2-own-key", "S-6.3-not-after-the-limit", "S-6.3-others-stay", "S-6.4-thousand", "S-6.5-closed-by-the-server", "S-6.5-lease-goes-on", "S-6.5-several", "S-6.5-waiter-leaves", "S-7.2-chain", "S-7.2-each-its-own", "S-7.2-from-the-grant", "S-7.2-late-release-spares-the-next", "S-7.2-reclaimed", "S-7.3-lease", "S-8.1-after-a-lease", "S-8.1-hand-over", "S-9.4-gives-up", "S-9.4-new-limit", "S-9.4-same-connection", "S-9.4-superseded", "S-9.5-not-renewed", "S-9.6-back-to-a-free-key", "S-9.6-comes-back", "S-9.6-is-skipped", "S-9.6-too-late", "S-2.5-zeros-wait", "S-3.3-released-meanwhile", "S-9.2-handed-on", "S-9.6-two-come-back", "S-3.3-granted-meanwhile", "S-3.3-spent-in-turn", "S-3.3-superseded-in-turn", "S-4.3-handed-on", "S-4.4-handed-on", "S-6.2-fifo-after-a-cancel", "S-6.2-no-barging-at-the-end", "S-6.2-two-of-one", "S-6.6-held-back", "S-9.4-longer-limit", "S-9.4-old-connection", "S-9.6-do-not-queue", "S-9.6-grace-ends"}},
	{Name: bugQueuesMinusOne, Clause: "4.1", // a wait of -1 queues for a moment
		Fails: []string{"S-4.1-do-not-queue", "S-4.3-again"}},
	{Name: bugTimesOutLate, Clause: "7.3", // a wait ends 0.4 s late
		Fails: []string{"S-7.3-wait", "S-4.1-each-its-own-wait", "S-4.1-timeout", "S-9.4-new-limit", "S-9.6-own-limit", "S-2.5-short-wait"}},
	{Name: bugTimesOutEarly, Clause: "7.3", // a wait ends when four fifths are over
		Fails: []string{"S-7.3-wait", "S-4.1-each-its-own-wait", "S-4.1-timeout", "S-9.4-new-limit"}},
	{Name: bugNeverReclaims, Clause: "7.2", // a lease does not end
		Fails: []string{"S-7.2-chain", "S-7.2-each-its-own", "S-7.2-free-again", "S-7.2-from-the-grant", "S-7.2-late-release", "S-7.2-late-release-spares-the-next", "S-7.2-reclaimed", "S-3.3-told-late", "S-4.3-extends", "S-4.3-no-revival", "S-4.3-shortens", "S-5.4-refused-keep", "S-6.2-fifo-after-a-lease", "S-6.3-not-after-the-limit", "S-6.5-lease-goes-on", "S-7.3-lease", "S-8.1-after-a-lease", "S-8.1-new-grant-after-asking-again", "S-9.2-kept", "S-9.2-lease-ended", "S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.5-without-a-wait", "S-9.2-handed-on", "S-3.3-granted-meanwhile", "S-6.2-no-barging-at-the-end", "S-7.2-to-the-millisecond"}},
	{Name: bugReclaimsEarly, Clause: "7.3", // a lease ends when four fifths are over
		Fails: []string{"S-7.3-lease", "S-4.3-extends", "S-4.3-shortens", "S-5.4-refused-keep", "S-6.2-fifo-after-a-lease", "S-6.3-not-after-the-limit", "S-6.5-lease-goes-on", "S-7.2-chain", "S-7.2-each-its-own", "S-7.2-from-the-grant", "S-7.2-reclaimed", "S-8.1-new-grant-after-asking-again", "S-9.2-kept", "S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.5-without-a-wait", "S-9.2-handed-on", "S-4.1-wait-0-is-no-limit"}},
	{Name: bugReclaimsLate, Clause: "7.3", // a lease ends 0.4 s late
		Fails: []string{"S-7.3-lease", "S-4.3-extends", "S-4.3-no-revival", "S-4.3-shortens", "S-5.4-refused-keep", "S-6.2-fifo-after-a-lease", "S-6.3-not-after-the-limit", "S-6.5-lease-goes-on", "S-7.2-chain", "S-7.2-each-its-own", "S-7.2-free-again", "S-7.2-from-the-grant", "S-7.2-late-release", "S-7.2-reclaimed", "S-8.1-new-grant-after-asking-again", "S-9.2-kept", "S-9.2-lease-ended", "S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.5-without-a-wait", "S-9.2-handed-on", "S-7.2-to-the-millisecond"}},
	{Name: bugLongerLease, Clause: "7.1", // no lease is under a second
		Fails: []string{"S-7.1-as-asked/milliseconds", "S-2.5-shortest/hundredth", "S-4.3-no-revival", "S-7.2-free-again", "S-7.2-late-release", "S-9.2-lease-ended", "S-7.2-to-the-millisecond"}},
	{Name: bugLeaseFromRequest, Clause: "7.2", // a lease counts from the request
		Fails: []string{"S-7.2-chain", "S-7.2-from-the-grant"}},
	{Name: bugAnyToken, Clause: "4.2", // any token releases
		Fails: []string{"S-4.2-old-token", "S-4.2-token-of-another-key", "S-4.2-wrong-token", "S-3.2-echo", "S-3.3-other-keys-pass", "S-3.3-told-late", "S-4.3-wrong-token", "S-4.4-granted", "S-7.2-late-release-spares-the-next", "S-3.3-released-meanwhile", "S-4.2-other-high-bits", "S-6.4-thousand"}},
	{Name: bugOwnConnection, Clause: "4.2", // only the connection that was granted may release
		Fails: []string{"S-4.2-any-connection", "S-6.5-holder-keeps", "S-9.5-after-a-drop", "S-3.3-released-meanwhile"}},
	{Name: bugReleaseAlwaysFine, Clause: "4.2", // a release that finds nothing is answered R
		Fails: []string{"S-4.2-old-token", "S-4.2-token-of-another-key", "S-4.2-twice", "S-4.2-wrong-token", "S-11.3-answers-due", "S-2.5-good-token", "S-3.2-echo", "S-3.3-other-keys-pass", "S-3.3-told-late", "S-4.4-granted", "S-7.2-late-release", "S-7.2-late-release-spares-the-next", "S-3.3-released-meanwhile", "S-4.2-other-high-bits", "S-7.2-to-the-millisecond", "S-6.4-thousand"}},
	{Name: bugEchoesAnotherKey, Clause: "3.2", // not-held names another key
		Fails: []string{"S-3.2-echo", "S-11.3-answers-due", "S-2.5-good-token", "S-3.3-other-keys-pass", "S-3.3-told-late", "S-4.2-old-token", "S-4.2-token-of-another-key", "S-4.2-twice", "S-4.2-wrong-token", "S-4.4-granted", "S-7.2-late-release", "S-7.2-late-release-spares-the-next", "S-3.3-released-meanwhile", "S-4.2-other-high-bits", "S-7.2-to-the-millisecond", "S-6.4-thousand"}},
	{Name: bugAnyOrder, Clause: "3.3", // answers come when they are ready
		Fails: []string{"S-3.3-do-not-queue-in-turn", "S-3.3-held-back", "S-3.3-refusals-in-turn", "S-3.3-told-late", "S-4.4-at-its-turn", "S-3.3-released-meanwhile", "S-3.3-granted-meanwhile", "S-3.3-spent-in-turn", "S-3.3-superseded-in-turn", "S-6.6-held-back"}},
	{Name: bugWholeRequestWaits, Clause: "3.3", // the request waits with its answer
		Fails: []string{"S-3.3-held-back"}},
	{Name: bugRefusalOvertakes, Clause: "3.3", // refusals do not take their turn
		Fails: []string{"S-3.3-refusals-in-turn"}},
	{Name: bugStaleLease, Clause: "3.3", // a grant told late has its whole lease
		Fails: []string{"S-3.3-told-late", "S-8.1-new-grant-after-asking-again", "S-9.2-kept", "S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.5-without-a-wait", "S-9.2-handed-on", "S-3.3-released-meanwhile", "S-3.3-granted-meanwhile"}},
	{Name: bugStopsReading, Clause: "3.5", // a connection is not read while an acquire waits
		Fails: []string{"S-11.3-closed", "S-3.3-other-keys-pass", "S-3.3-told-late", "S-3.6-allowed", "S-4.4-at-its-turn", "S-4.5-while-waiting", "S-6.5-closed-by-the-server", "S-6.5-several", "S-6.5-waiter-leaves", "S-7.2-each-its-own", "S-9.4-same-connection", "S-9.6-is-skipped", "S-9.6-newcomer", "S-9.6-too-late", "S-3.3-released-meanwhile", "S-4.3-extends", "S-9.5-not-renewed", "S-3.3-granted-meanwhile", "S-3.3-superseded-in-turn", "S-4.1-wait-0-is-no-limit", "S-6.6-held-back", "S-9.4-longer-limit", "S-6.2-two-of-one", "S-6.4-thousand"}},
	{Name: bugTellsOfTheEnd, Clause: "3.1", // the holder is told of the end of its lease
		Fails: []string{"S-3.1-nothing-unsolicited", "S-9.2-lease-ended"}},
	{Name: bugUnfinishedLine, Clause: "2.2", // a last line without LF is executed
		Fails: []string{"S-2.2-unfinished"}},
	{Name: bugKeepsCR, Clause: "2.2", // CR before LF is not dropped
		Fails: []string{"S-2.2-cr-before-lf", "S-2.2-empty"}},
	{Name: bugEmptyLine, Clause: "2.2", // an empty line is refused
		Fails: []string{"S-2.2-empty"}},
	{Name: bugLongLines, Clause: "5.1", // a line of any length is skipped
		Fails: []string{"S-5.1-too-long", "S-2.2-cr-counts"}},
	{Name: bugSpaces, Clause: "2.3", // spaces are taken as in a shell
		Fails: []string{"S-2.3-control-bytes/tab-for-sp", "S-2.3-control-bytes/tab-in-key", "S-2.3-spaces", "S-2.2-cr-inside", "S-2.2-two-crs", "S-5.2-strangers/space", "S-5.2-strangers/tab-for-sp", "S-2.3-release-spaces"}},
	{Name: bugWraps, Clause: "2.5", // big numbers wrap
		Fails: []string{"S-2.5-bad-lease/tenth-digit", "S-2.5-bad-lease/wraps-64-bits", "S-2.5-bad-wait/tenth-digit", "S-2.5-bad-wait/tenth-digit-zero", "S-2.5-bad-wait/wraps-32-bits", "S-2.5-bad-wait/wraps-64-bits"}},
	{Name: bugFoldsCase, Clause: "2.6", // keys differ by more than their case
		Fails: []string{"S-2.6-equal-bytes"}},
	{Name: bugClosesOnBadKey, Clause: "5.2", // a bad key closes the connection
		Fails: []string{"S-5.2-bad-key", "S-2.2-cr-inside", "S-2.3-control-bytes/del-in-key", "S-2.3-control-bytes/nul-in-key", "S-2.3-control-bytes/tab-for-sp", "S-2.3-control-bytes/tab-in-key", "S-2.3-spaces/before-key", "S-2.6-question-mark", "S-2.6-too-long", "S-3.1-one-each", "S-4.5-no-word", "S-4.5-bad-word", "S-4.6-bad-version", "S-5.1-order/bad-key-and-wait", "S-5.1-order/unknown-op-bad-key", "S-5.1-order/unknown-op-no-key"}},
	{Name: bugClosesOnBadRequest, Clause: "5.2", // a bad request closes the connection
		Fails: []string{"S-5.2-fields", "S-5.2-fields-keep", "S-5.2-fields-ping", "S-5.2-fields-resume", "S-2.2-longest", "S-2.2-two-crs", "S-2.3-control-bytes/in-lease", "S-2.3-control-bytes/in-wait", "S-2.3-spaces/at-the-end", "S-2.3-spaces/between-fields", "S-2.5-bad-keep", "S-2.5-bad-token", "S-2.8-cut", "S-3.1-one-each", "S-3.3-refusals-in-turn", "S-4.6-no-name", "S-9.2-bad-request"}},
	{Name: bugClosesOnUnknownOp, Clause: "5.2", On: coreOnly, // an unknown op closes the connection
		Fails: []string{"S-5.2-unknown-op", "S-10.1-no-keep", "S-10.1-no-ping", "S-10.1-no-cancel", "S-4.6-no-hello", "S-5.1-order/unknown-op-fields", "S-3.1-one-each"}},
	{Name: bugBadKeyAsRequest, Clause: "5.2", // a bad key is called a bad request
		Fails: []string{"S-5.2-bad-key", "S-11.3-answers-due", "S-2.2-cr-inside", "S-2.3-control-bytes/del-in-key", "S-2.3-control-bytes/nul-in-key", "S-2.3-control-bytes/tab-for-sp", "S-2.3-control-bytes/tab-in-key", "S-2.3-spaces/before-key", "S-2.6-question-mark", "S-2.6-too-long", "S-4.5-no-word", "S-5.1-order/bad-key-and-wait", "S-5.1-order/unknown-op-bad-key", "S-5.1-order/unknown-op-no-key", "S-4.5-bad-word", "S-4.6-bad-version"}},
	{Name: bugExtraFields, Clause: "5.2", // extra fields of a release are ignored
		Fails: []string{"S-5.2-fields/after-the-token", "S-5.4-refused-release", "S-2.3-release-spaces"}},
	{Name: bugGhostAfterDrop, Clause: "6.5", // a waiter that dropped stays in line
		Fails: []string{"S-6.5-closed-by-the-server", "S-6.5-several", "S-6.5-waiter-leaves", "S-9.6-is-skipped", "S-9.6-newcomer", "S-9.6-too-late", "S-6.6-held-back"}},
	{Name: bugDropReleases, Clause: "6.5", // a drop releases what was held
		Fails: []string{"S-6.5-holder-keeps", "S-6.5-lease-goes-on", "S-11.4-before-it", "S-9.5-after-a-drop"}},
	{Name: bugGoesOn, Clause: "11.4", // the connection goes on after a line that is no request
		Fails: []string{"S-11.4-not-executed", "S-11.4-before-it", "S-11.4-line-arrives", "S-5.2-strangers", "S-6.5-closed-by-the-server"}},
	{Name: bugRevives, Clause: "4.3", // a keep revives what has ended
		Fails: []string{"S-4.3-no-revival", "S-4.3-released"}},
	{Name: bugKeepAdds, Clause: "4.3", // a keep adds to what is left
		Fails: []string{"S-4.3-extends", "S-4.3-shortens", "S-9.2-kept"}},
	{Name: bugKeepOnlyExtends, Clause: "4.3", // a keep does not shorten
		Fails: []string{"S-4.3-shortens", "S-9.2-kept"}},
	{Name: bugKeepNewToken, Clause: "4.3", // a keep changes the token
		Fails: []string{"S-4.3-any-connection", "S-4.3-default", "S-4.3-token-stays", "S-3.3-keeps-in-turn", "S-3.4-keep-then-release", "S-4.3-again"}},
	{Name: bugForgetsNonce, Clause: "9.2", // a nonce is forgotten when its grant ends
		Fails: []string{"S-9.2-lease-ended", "S-9.2-released", "S-9.7-ten-seconds", "S-9.2-cancelled/granted"}},
	{Name: bugRepeatRenews, Clause: "9.5", // asking again renews the lease
		Fails: []string{"S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.2-kept", "S-3.3-told-late"}},
	{Name: bugRepeatNewToken, Clause: "9.5", // asking again gives a new token
		Fails: []string{"S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.5-without-a-wait", "S-3.3-told-late", "S-8.1-new-grant-after-asking-again", "S-9.2-kept", "S-9.2-handed-on", "S-3.3-released-meanwhile"}},
	{Name: bugRepeatWholeLease, Clause: "9.5", // asking again tells of the whole lease
		Fails: []string{"S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.5-without-a-wait", "S-8.1-new-grant-after-asking-again", "S-9.2-kept", "S-9.2-handed-on"}},
	{Name: bugTakeOverAtTheEnd, Clause: "9.4", // asking again means the end of the line
		Fails: []string{"S-9.6-comes-back", "S-9.6-is-skipped", "S-9.6-two-come-back", "S-9.4-superseded", "S-3.3-granted-meanwhile", "S-6.6-held-back"}},
	{Name: bugTakeOverOldTerms, Clause: "9.4", // the older request's wait and lease stay
		Fails: []string{"S-9.4-new-limit", "S-9.4-same-connection", "S-9.4-superseded", "S-9.6-comes-back", "S-9.4-longer-limit"}},
	{Name: bugTakeOverQueues, Clause: "9.4", // with -1 the place is not given up
		Fails: []string{"S-9.4-gives-up"}},
	{Name: bugNoGrace, Clause: "9.6", // a waiter that dropped is forgotten at once
		Fails: []string{"S-9.6-comes-back", "S-9.6-is-skipped", "S-9.6-own-limit", "S-9.6-two-come-back"}},
	{Name: bugGraceForEver, Clause: "9.6", // it is never forgotten
		Fails: []string{"S-9.6-too-late"}},
	{Name: bugDetachedBlocks, Clause: "9.6", // a detached waiter holds the others up
		Fails: []string{"S-9.6-is-skipped", "S-9.6-newcomer", "S-6.6-held-back"}},
	{Name: bugCancelForgets, Clause: "4.4", // a cancel that overtook its acquire is forgotten
		Fails: []string{"S-4.4-unknown", "S-9.7-cancelled", "S-9.7-many", "S-3.3-spent-in-turn"}},
	{Name: bugCancelKeepsPlace, Clause: "4.4", // a cancelled acquire stays in line
		Fails: []string{"S-4.4-at-its-turn", "S-4.4-waiting"}},
	{Name: bugCancelKeepsGrant, Clause: "4.4", // a cancel does not end a grant
		Fails: []string{"S-4.4-again", "S-4.4-granted", "S-3.4-acquire-then-cancel", "S-4.4-handed-on", "S-6.2-fifo-after-a-cancel"}},
	{Name: bugNormalises, Clause: "2.3", // two spellings of a letter are one key
		Fails: []string{"S-2.3-not-normalised"}},
	{Name: bugShortKeys, Clause: "2.6", // a key of 255 bytes is too long
		Fails: []string{"S-2.6-longest", "S-4.5-pong/long"}},
	{Name: bugShortLines, Clause: "5.1", // a line has at most 1,000 bytes
		Fails: []string{"S-5.1-not-yet", "S-2.2-longest", "S-2.8-cut"}},
	{Name: bugReleaseLater, Clause: "3.4", // a release is answered before it takes effect
		Fails: []string{"S-3.4-release-then-acquire", "S-11.3-answers-due", "S-4.1-default-lease", "S-4.2-any-connection", "S-4.2-release", "S-4.3-default", "S-6.5-holder-keeps", "S-8.1-many", "S-9.2-released", "S-9.5-after-a-drop", "S-9.6-newcomer", "S-2.5-zeros-lease", "S-3.3-held-back", "S-4.1-do-not-queue-leaves-nothing", "S-4.1-timeout-leaves-nothing", "S-4.2-twice", "S-4.3-released", "S-4.3-zero", "S-4.4-waiting", "S-5.4-refused-acquire", "S-6.2-mixed-limits", "S-6.3-others-stay", "S-6.5-closed-by-the-server", "S-6.5-several", "S-6.5-waiter-leaves/closed", "S-6.5-waiter-leaves/half-close", "S-6.5-waiter-leaves/reset", "S-9.4-gives-up", "S-9.4-old-connection", "S-9.4-superseded", "S-9.6-comes-back", "S-9.6-do-not-queue", "S-9.6-grace-ends", "S-9.6-is-skipped", "S-9.6-too-late"}},
	{Name: bugReentrant, Clause: "3.5", // who holds a key is granted it again
		Fails: []string{"S-3.5-not-reentrant", "S-3.5-behind-own-lock", "S-3.2-echo", "S-3.4-acquire-then-acquire"}},
	{Name: bugLeaseUntold, Clause: "4.1", // a grant tells of two seconds too many
		Fails: []string{"S-4.1-free", "S-2.5-shortest", "S-2.6-longest", "S-3.2-echo", "S-3.3-do-not-queue-in-turn", "S-3.3-held-back", "S-3.3-refusals-in-turn", "S-3.3-told-late", "S-3.4-acquire-then-acquire", "S-3.5-behind-own-lock", "S-4.4-at-its-turn", "S-5.4-refused-keep", "S-6.2-fifo-after-a-lease", "S-6.3-not-after-the-limit", "S-6.5-lease-goes-on", "S-7.1-as-asked", "S-7.2-chain", "S-7.2-each-its-own", "S-7.2-from-the-grant", "S-7.2-reclaimed", "S-7.3-lease", "S-8.1-new-grant-after-asking-again", "S-9.4-same-connection", "S-9.4-superseded", "S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.5-without-a-wait", "S-9.6-comes-back", "S-9.2-handed-on", "S-3.3-released-meanwhile", "S-2.6-not-utf-8", "S-3.3-spent-in-turn", "S-3.3-superseded-in-turn", "S-3.4-acquire-then-cancel", "S-4.3-zero", "S-6.2-two-of-one"}},
	{Name: bugNoDefault, Clause: "4.1", // a lease of 0 is none
		Fails: []string{"S-4.1-default-lease", "S-2.5-zeros-lease", "S-4.3-zero"}},
	{Name: bugCancelsElsewhere, Clause: "4.4", // a cancel also ends the grants of other keys under the nonce
		Fails: []string{"S-4.4-only-its-own"}},
	{Name: bugHelloOnce, Clause: "4.6", // a second hello is refused
		Fails: []string{"S-4.6-again"}},
	{Name: bugShortNames, Clause: "4.6", // a name of 64 bytes is too long
		Fails: []string{"S-4.6-long-name"}},
	{Name: bugShortNonces, Clause: "5.2", // a nonce of 32 bytes is too long
		Fails: []string{"S-5.2-longest-nonce", "S-9.1-whole/last-byte"}},
	{Name: bugTimeoutForgets, Clause: "9.2", // a nonce whose wait has ended may be used again
		Fails: []string{"S-9.2-timed-out", "S-9.2-not-queued", "S-9.6-own-limit"}},
	{Name: bugSilenceFrees, Clause: "11.2", // a connection that is silent for 2 s is closed
		Fails: []string{"S-11.2-idle", "S-11.2-releases-nothing", "S-4.1-wait-0-is-no-limit", "S-4.3-extends", "S-9.7-ten-seconds", "S-9.7-cancelled"}, Sometimes: []string{"S-6.3-not-after-the-limit"}},
	{Name: bugOneAtATime, Clause: "11.7", // a connection is accepted when the one before has said something
		Fails: []string{"S-11.7-silent"}},
	{Name: bugLastRelease, Clause: "3.2", // a release is answered with the key of the one before
		Fails: []string{"S-3.2-release-echo", "S-11.2-idle", "S-6.5-several", "S-8.1-many"}},
	{Name: bugRefusedWaits, Clause: "5.4", // a refused acquire stands in line
		Fails: []string{"S-5.4-refused-acquire", "S-3.1-one-each", "S-3.3-refusals-in-turn"}},
	{Name: bugGreets, Clause: "2.1", // a connection that says nothing is greeted
		Fails: []string{"S-2.1-no-greeting"}},
	{Name: bugFreeCR, Clause: "2.2", // a CR before the LF does not count
		Fails: []string{"S-2.2-cr-counts", "S-5.1-too-long"}},
	{Name: bugDropsPieces, Clause: "2.2", // a line that comes in many pieces is lost
		Fails: []string{"S-2.2-pieces"}},
	{Name: bugThreeAtOnce, Clause: "2.2", // of three lines or more that come at once only the first is read
		Fails: []string{"S-2.2-several", "S-3.1-one-each", "S-3.5-pipelined", "S-3.6-allowed", "S-11.3-answers-due", "S-3.6-answered", "S-9.7-many", "S-6.4-thousand"}},
	{Name: bugOnlyUTF8, Clause: "2.3", // a key has to be UTF-8
		Fails: []string{"S-2.3-any-bytes/not-utf-8", "S-2.3-any-bytes/half-utf-8", "S-4.5-pong/not-utf-8", "S-2.6-not-utf-8"}},
	{Name: bugVersionLast, Clause: "4.6", // the number of fields of a hello is looked at before its version
		Fails: []string{"S-4.6-version-first/alone", "S-4.6-version-first/with-more"}},
	{Name: bugShortNumbers, Clause: "2.5", // a wait of nine digits is refused
		Fails: []string{"S-2.5-good-wait/longest", "S-2.5-long-wait/longest"}},
	{Name: bugZeroWaitEnds, Clause: "2.5", // a wait of 0.000 is over at once
		Fails: []string{"S-2.5-zeros-wait"}},
	{Name: bugZeroLease, Clause: "2.5", // a lease of 0.000 is not the default
		Fails: []string{"S-2.5-zeros-lease"}},
	{Name: bugPaddedKeep, Clause: "2.5", // leading zeros in a keep are skipped
		Fails: []string{"S-2.5-bad-keep/leading-zero", "S-2.5-bad-keep/token-padded", "S-3.3-keeps-in-turn"}},
	{Name: bugPortZero, Clause: "2.7", // a hello is answered with port 0
		Fails: []string{"S-2.7-hello"}},
	{Name: bugEchoesInText, Clause: "2.8", // the text of an error repeats the line
		Fails: []string{"S-2.8-no-control-bytes", "S-2.8-cut", "S-2.2-longest"}},
	{Name: bugLosesAnswers, Clause: "3.1", // every thousandth answer of a connection is lost
		Fails: []string{"S-3.5-pipelined", "S-3.6-answered", "S-9.7-many"}},
	{Name: bugHelloLater, Clause: "3.4", On: asksSecret, // a secret counts after 50 ms
		Fails: []string{"S-3.4-hello-then-acquire"}},
	{Name: bugUnboundedConnection, Clause: "3.6", On: hasLimits, // there may be more unanswered than its limit
		Fails: []string{"S-3.6-beyond"}},
	{Name: bugSlowDoNotQueue, Clause: "4.1", // a first acquire that does not queue is answered after 0.4 s
		Fails: []string{"S-4.1-do-not-queue-free", "S-3.3-other-keys-pass", "S-4.1-do-not-queue", "S-11.7-silent", "S-11.7-half-a-line", "S-11.6-slow-reader", "S-4.3-again"}},
	{Name: bugTakesNonces, Clause: "4.1", On: coreOnly, // a nonce that is not known of is ignored
		Fails: []string{"S-4.1-no-nonces"}},
	{Name: bugKeepsForEver, Clause: "4.3", On: hasLimits, // the maximum does not hold for a keep
		Fails: []string{"S-4.3-maximum"}},
	{Name: bugCancelMissesDetached, Clause: "4.4", // a detached acquire is not cancelled
		Fails: []string{"S-4.4-detached"}},
	{Name: bugPingsAnything, Clause: "4.5", // the word of a ping may be ?
		Fails: []string{"S-4.5-bad-word/question"}},
	{Name: bugPingNeedsSecret, Clause: "4.5", On: asksSecret, // a ping needs the secret
		Fails: []string{"S-4.5-without-secret"}},
	{Name: bugBadVersionAsRequest, Clause: "4.6", // a missing version is called a bad request
		Fails: []string{"S-4.6-bad-version"}},
	{Name: bugForgetsProfiles, Clause: "4.6", // only the first hello tells of all profiles
		Fails: []string{"S-4.6-hello", "S-4.6-again", "S-4.6-long-name", "S-4.6-secret-not-asked-for", "S-10.3-try-another"}},
	{Name: bugForgetsTrustedProfiles, Clause: "4.6", On: asksSecret, // the same
		Fails: []string{"S-10.4-accepted", "S-10.4-none-is-not-wrong", "S-10.4-two-wrong"}},
	{Name: bugRefusesSecret, Clause: "4.6", // a secret where none is asked for is refused
		Fails: []string{"S-4.6-secret-not-asked-for"}},
	{Name: bugSecretFirst, Clause: "5.1", On: asksSecret, // the secret is looked at before the fields
		Fails: []string{"S-10.4-form-comes-first"}},
	{Name: bugUnboundedLine, Clause: "6.4", On: hasLimits, // more may wait for a key than its limit
		Fails: []string{"S-6.4-queue-full", "S-9.2-queue-full"}},
	{Name: bugTakeOverNeedsPlace, Clause: "6.4", On: hasLimits, // a place in a full line is not taken over
		Fails: []string{"S-6.4-take-over"}},
	{Name: bugOtherDefault, Clause: "7.1", On: hasLimits, // the default is half of what it is said to be
		Fails: []string{"S-7.1-default"}},
	{Name: bugRefusesLongLeases, Clause: "7.1", On: hasLimits, // a lease above the maximum is refused
		Fails: []string{"S-7.1-maximum", "S-2.5-long-lease"}},
	{Name: bugLowMaximum, Clause: "7.1", On: hasLimits, // no lease is above 50 s
		Fails: []string{"S-7.1-sixty", "S-4.3-maximum", "S-7.1-maximum", "S-2.5-long-lease"}},
	{Name: bugCancelFrees, Clause: "9.2", // a nonce is unknown after a cancel
		Fails: []string{"S-9.2-cancelled", "S-4.4-detached"}},
	{Name: bugHandedOnForgets, Clause: "9.2", // a nonce is unknown when its request was granted after a wait
		Fails: []string{"S-9.2-handed-on", "S-4.4-handed-on"}},
	{Name: bugUnauthorizedSpends, Clause: "9.2", On: asksSecret, // an acquire without the secret spends its nonce
		Fails: []string{"S-9.2-unauthorized"}},
	{Name: bugQueueFullSpends, Clause: "9.2", On: hasLimits, // an acquire that finds the line full spends its nonce
		Fails: []string{"S-9.2-queue-full"}},
	{Name: bugUnknownAsRequest, Clause: "10.1", On: coreOnly, // ops of other profiles are called bad requests
		Fails: []string{"S-10.1-no-keep", "S-10.1-no-ping", "S-10.1-no-cancel"}},
	{Name: bugAcquiresWithoutSecret, Clause: "10.4", On: asksSecret, // an acquire needs no secret
		Fails: []string{"S-10.4-unauthorized/acquire", "S-10.4-each-connection", "S-9.2-unauthorized"}},
	{Name: bugReleasesWithoutSecret, Clause: "10.4", On: asksSecret, // a release needs no secret
		Fails: []string{"S-10.4-unauthorized/release"}},
	{Name: bugKeepsWithoutSecret, Clause: "10.4", On: asksSecret, // a keep needs no secret
		Fails: []string{"S-10.4-unauthorized-keep"}},
	{Name: bugCancelsWithoutSecret, Clause: "10.4", On: asksSecret, // a cancel needs no secret
		Fails: []string{"S-10.4-unauthorized-cancel"}},
	{Name: bugSecretForAll, Clause: "10.4", On: asksSecret, // one secret opens all connections
		Fails: []string{"S-10.4-each-connection", "S-9.2-unauthorized", "S-10.4-unauthorized", "S-10.4-unauthorized-keep", "S-10.4-unauthorized-cancel"}},
	{Name: bugNoneIsWrong, Clause: "10.4", On: asksSecret, // no secret counts as a wrong one
		Fails: []string{"S-10.4-none-is-not-wrong"}},
	{Name: bugGuessesForEver, Clause: "10.4", On: asksSecret, // a third wrong secret does not close
		Fails: []string{"S-10.4-third-wrong"}},
	{Name: bugClosesOnSecond, Clause: "10.4", On: asksSecret, // a second wrong secret closes
		Fails: []string{"S-10.4-two-wrong", "S-10.4-third-wrong"}},
	{Name: bugBadHelloLocks, Clause: "10.4", On: asksSecret, // a wrong secret takes an earlier right one away
		Fails: []string{"S-10.4-stays-in-force"}},
	{Name: bugComparesAPrefix, Clause: "10.4", On: asksSecret, // a secret is right when it begins right
		Fails: []string{"S-10.4-third-wrong", "S-10.4-two-wrong", "S-10.4-stays-in-force"}},
	{Name: bugRudeClose, Clause: "11.4", // a connection is closed by a reset
		Fails: []string{"S-11.4-line-arrives"}},
	{Name: bugTurnsAwaySilently, Clause: "11.5", On: hasLimits, // a connection too many is closed without a word
		Fails: []string{"S-11.5-limit"}},
	{Name: bugBlocksOnWrites, Clause: "11.6", // nobody is served while a client does not read
		Fails: []string{"S-11.6-slow-reader"}},
	{Name: bugHalfALine, Clause: "11.7", // nobody is served between the first byte of a line and its LF
		Fails: []string{"S-11.7-half-a-line"}, Sometimes: []string{"S-11.6-slow-reader"}}, // if its reads end inside a line
	{Name: bugTrimsReleases, Clause: "2.3", // spaces at the end of a release are ignored
		Fails: []string{"S-2.3-release-spaces"}},
	{Name: bugWaitsIn32Bits, Clause: "2.5", // a wait is counted in milliseconds of 32 bits
		Fails: []string{"S-2.5-long-wait"}},
	{Name: bugLongWaitsEnd, Clause: "2.5", // a wait of more than an hour is over at once
		Fails: []string{"S-2.5-long-wait"}},
	{Name: bugWaitsInHundredths, Clause: "2.5", // a wait is counted in hundredths of a second
		Fails: []string{"S-2.5-short-wait"}},
	{Name: bugLeasesIn32Bits, Clause: "2.5", On: hasLimits, // a lease is counted in milliseconds of 32 bits
		Fails: []string{"S-2.5-long-lease"}},
	{Name: bugReplacesBytes, Clause: "2.6", // bytes that are no UTF-8 are all one
		Fails: []string{"S-2.6-not-utf-8", "S-2.3-any-bytes/half-utf-8", "S-2.3-any-bytes/not-utf-8", "S-4.5-pong/not-utf-8"}},
	{Name: bugSupersededOvertakes, Clause: "3.3", // superseded does not take its turn
		Fails: []string{"S-3.3-superseded-in-turn"}},
	{Name: bugSpentOvertakes, Clause: "3.3", // spent does not take its turn
		Fails: []string{"S-3.3-spent-in-turn"}},
	{Name: bugHeldBackWhole, Clause: "3.3", // a new grant whose answer was held back is told with its whole lease
		Fails: []string{"S-3.3-granted-meanwhile"}},
	{Name: bugKeepsAnsweredLate, Clause: "3.3", // a keep is answered 20 ms later
		Fails: []string{"S-3.3-keeps-in-turn"}},
	{Name: bugKeepsLast, Clause: "3.4", // a keep takes effect after the line that came with it
		Fails: []string{"S-3.4-keep-then-release", "S-3.3-keeps-in-turn"}},
	{Name: bugCancelsFirst, Clause: "3.4", // a cancel takes effect before the acquire that came with it
		Fails: []string{"S-3.4-acquire-then-cancel"}},
	{Name: bugCountsTimeouts, Clause: "3.6", On: hasLimits, // what was answered T counts as unanswered
		Fails: []string{"S-3.6-answered"}},
	{Name: bugShortTokens, Clause: "4.2", // tokens are compared by their low 32 bits
		Fails: []string{"S-4.2-other-high-bits"}},
	{Name: bugZeroIsFourSeconds, Clause: "4.1", // a wait of 0 is one of 4 s
		Fails: []string{"S-4.1-wait-0-is-no-limit"}},
	{Name: bugKeepsOnce, Clause: "4.3", // a second keep is answered and changes nothing
		Fails: []string{"S-4.3-again", "S-4.3-shorter-then-longer"}},
	{Name: bugKeepsFirstGrants, Clause: "4.3", // a keep of a grant that came after a wait changes nothing
		Fails: []string{"S-4.3-handed-on"}},
	{Name: bugShorterStays, Clause: "4.3", // a lease that was shortened stays short
		Fails: []string{"S-4.3-shorter-then-longer", "S-4.3-again", "S-4.3-extends", "S-4.3-handed-on"}},
	{Name: bugZeroIsTheLast, Clause: "4.3", // a keep with 0 asks for the lease before
		Fails: []string{"S-4.3-zero"}},
	{Name: bugCancelSparesHandedOn, Clause: "4.4", // a cancel does not end a grant that came after a wait
		Fails: []string{"S-4.4-handed-on"}},
	{Name: bugCancelLIFO, Clause: "6.2", // a key that a cancel frees goes to the newest in line
		Fails: []string{"S-6.2-fifo-after-a-cancel"}},
	{Name: bugBargingAtTheEnd, Clause: "6.2", // the key is free for a moment when a lease has ended
		Fails: []string{"S-6.2-no-barging-at-the-end"}},
	{Name: bugTakesTurns, Clause: "6.2", // a connection is granted a key again when nobody else waits
		Fails: []string{"S-6.2-two-of-one"}},
	{Name: bugNoUndo, Clause: "6.6", // a grant that nobody was told of is not undone
		Fails: []string{"S-6.6-held-back"}},
	{Name: bugLeasesInTicks, Clause: "7.2", // leases end at the next of a timer's ticks, each 40 ms
		Fails: []string{"S-7.2-to-the-millisecond"}},
	{Name: bugNoncePrefix, Clause: "9.1", // nonces are compared by their first 16 bytes
		Fails: []string{"S-9.1-whole/last-byte"}},
	{Name: bugNonceCase, Clause: "9.1", // nonces are compared without their case
		Fails: []string{"S-9.1-whole/case"}},
	{Name: bugShorterLimitStays, Clause: "9.4", // a place that is taken over keeps its limit where that is sooner
		Fails: []string{"S-9.4-longer-limit"}},
	{Name: bugOldConnectionMatters, Clause: "9.4", // the connection whose request was taken over takes the place with it
		Fails: []string{"S-9.4-old-connection"}},
	{Name: bugGraceGoesOn, Clause: "9.6", // the grace goes on for who came back
		Fails: []string{"S-9.6-grace-ends"}},
	{Name: bugNoWayBack, Clause: "9.6", // who comes back without a wait is answered T, also where the key is free
		Fails: []string{"S-9.6-do-not-queue"}},
	{Name: bugForgetsCancelled, Clause: "9.7", // a nonce that a cancel has spent is forgotten after 1 s
		Fails: []string{"S-9.7-cancelled"}},
	{Name: bugRemembersFew, Clause: "9.7", // 1,000 spent nonces are remembered
		Fails: []string{"S-9.7-many"}},
}
