package server

import "github.com/stile-lock/stile/conformance/mutants"

// The bugs, one rule broken in each.
const (
	bugLIFO              = "lifo"
	bugBarging           = "barging"
	bugSlowHandOver      = "slow-hand-over"
	bugGrantsTwo         = "grants-two"
	bugTokenTwice        = "token-twice"
	bugTokenFalls        = "token-falls"
	bugTokenPerKey       = "token-per-key"
	bugGrantAfterT       = "grant-after-t"
	bugWaitZero          = "wait-zero"
	bugQueuesMinusOne    = "queues-minus-one"
	bugTimesOutLate      = "times-out-late"
	bugTimesOutEarly     = "times-out-early"
	bugNeverReclaims     = "never-reclaims"
	bugReclaimsEarly     = "reclaims-early"
	bugReclaimsLate      = "reclaims-late"
	bugLongerLease       = "longer-lease"
	bugLeaseFromRequest  = "lease-from-request"
	bugAnyToken          = "any-token"
	bugOwnConnection     = "own-connection"
	bugReleaseAlwaysFine = "release-always-fine"
	bugEchoesAnotherKey  = "echoes-another-key"
	bugAnyOrder          = "any-order"
	bugWholeRequestWaits = "whole-request-waits"
	bugRefusalOvertakes  = "refusal-overtakes"
	bugStaleLease        = "stale-lease"
	bugStopsReading      = "stops-reading"
	bugTellsOfTheEnd     = "tells-of-the-end"
	bugUnfinishedLine    = "unfinished-line"
	bugKeepsCR           = "keeps-cr"
	bugEmptyLine         = "empty-line"
	bugLongLines         = "long-lines"
	bugSpaces            = "spaces"
	bugWraps             = "wraps"
	bugFoldsCase         = "folds-case"
	bugClosesOnError     = "closes-on-error"
	bugBadKeyAsRequest   = "bad-key-as-request"
	bugExtraFields       = "extra-fields"
	bugGhostAfterDrop    = "ghost-after-drop"
	bugDropReleases      = "drop-releases"
	bugGoesOn            = "goes-on"
	bugRevives           = "revives"
	bugKeepAdds          = "keep-adds"
	bugKeepOnlyExtends   = "keep-only-extends"
	bugKeepNewToken      = "keep-new-token"
	bugForgetsNonce      = "forgets-nonce"
	bugRepeatRenews      = "repeat-renews"
	bugRepeatNewToken    = "repeat-new-token"
	bugRepeatWholeLease  = "repeat-whole-lease"
	bugTakeOverAtTheEnd  = "take-over-at-the-end"
	bugTakeOverOldTerms  = "take-over-old-terms"
	bugTakeOverQueues    = "take-over-queues"
	bugNoGrace           = "no-grace"
	bugGraceForEver      = "grace-for-ever"
	bugDetachedBlocks    = "detached-blocks"
	bugCancelForgets     = "cancel-forgets"
	bugCancelKeepsPlace  = "cancel-keeps-place"
	bugCancelKeepsGrant  = "cancel-keeps-grant"
	bugNormalises        = "normalises"
	bugShortKeys         = "short-keys"
	bugShortLines        = "short-lines"
	bugReleaseLater      = "release-later"
	bugReentrant         = "reentrant"
	bugLeaseUntold       = "lease-untold"
	bugNoDefault         = "no-default"
	bugCancelsElsewhere  = "cancels-elsewhere"
	bugHelloOnce         = "hello-once"
	bugShortNames        = "short-names"
	bugShortNonces       = "short-nonces"
	bugTimeoutForgets    = "timeout-forgets"
	bugSilenceFrees      = "silence-frees"
	bugOneAtATime        = "one-at-a-time"
	bugLastRelease       = "last-release"
	bugRefusedWaits      = "refused-waits"
)

// Mutants is the table.
var Mutants = []mutants.Mutant{
	{Name: bugLIFO, Clause: "6.2", // the newest in line is granted first
		Fails: []string{"S-6.2-end-of-the-line", "S-6.2-fifo", "S-6.2-fifo-after-a-lease", "S-6.2-mixed-limits", "S-6.2-one-holder", "S-3.3-held-back", "S-6.3-others-stay", "S-7.2-chain", "S-7.2-from-the-grant", "S-9.4-superseded", "S-9.6-comes-back", "S-9.6-is-skipped", "S-9.6-too-late"}},
	{Name: bugBarging, Clause: "6.2", // a released key is free for a moment
		Fails: []string{"S-6.2-end-of-the-line", "S-6.2-no-barging"}},
	{Name: bugSlowHandOver, Clause: "6.2", // a released key is handed over 0.4 s later
		Fails: []string{"S-6.2-at-once", "S-6.2-end-of-the-line", "S-6.2-fifo-after-a-lease", "S-6.2-mixed-limits", "S-6.2-no-barging", "S-3.3-held-back", "S-4.1-do-not-queue-leaves-nothing", "S-4.1-timeout-leaves-nothing", "S-4.3-extends", "S-4.3-shortens", "S-4.4-granted", "S-4.4-waiting", "S-5.4-refused-keep", "S-6.3-not-after-the-limit", "S-6.3-others-stay", "S-6.5-closed-by-the-server", "S-6.5-lease-goes-on", "S-6.5-several", "S-6.5-waiter-leaves", "S-7.2-chain", "S-7.2-each-its-own", "S-7.2-from-the-grant", "S-7.2-reclaimed", "S-7.3-lease", "S-9.4-gives-up", "S-9.4-superseded", "S-9.5-not-renewed", "S-9.6-comes-back", "S-9.6-is-skipped", "S-9.6-too-late"}},
	{Name: bugGrantsTwo, Clause: "6.2", // a release grants to two
		Fails: []string{"S-6.2-end-of-the-line", "S-6.2-fifo", "S-6.2-mixed-limits", "S-6.2-one-holder", "S-3.3-held-back", "S-6.3-others-stay", "S-7.2-chain", "S-7.2-from-the-grant", "S-9.4-superseded", "S-9.6-comes-back", "S-9.6-is-skipped", "S-9.6-too-late"}},
	{Name: bugTokenTwice, Clause: "8.1", // two grants have one token
		Fails: []string{"S-8.1-many", "S-8.1-other-key", "S-9.1-another-key"}},
	{Name: bugTokenFalls, Clause: "8.1", // tokens fall
		Fails: []string{"S-8.1-after-a-lease", "S-8.1-hand-over", "S-8.1-many", "S-8.1-new-grant-after-asking-again", "S-8.1-next-grant", "S-8.1-other-key", "S-9.1-another-key"}},
	{Name: bugTokenPerKey, Clause: "8.1", // each key counts its own tokens
		Fails: []string{"S-8.1-many", "S-8.1-other-key", "S-3.2-echo", "S-3.3-other-keys-pass", "S-4.2-token-of-another-key", "S-4.2-wrong-token", "S-4.3-wrong-token", "S-9.1-another-key"}},
	{Name: bugGrantAfterT, Clause: "6.3", // who was answered T stays in line
		Fails: []string{"S-6.3-not-after-the-limit", "S-6.3-others-stay", "S-3.3-held-back", "S-4.1-timeout-leaves-nothing"}},
	{Name: bugWaitZero, Clause: "4.1", // a wait of 0 does not queue
		Fails: []string{"S-4.1-do-not-queue-leaves-nothing", "S-4.1-timeout-leaves-nothing", "S-4.1-wait-0-is-no-limit", "S-11.3-closed", "S-3.3-do-not-queue-in-turn", "S-3.3-held-back", "S-3.3-refusals-in-turn", "S-3.3-told-late", "S-3.5-behind-own-lock", "S-3.6-allowed", "S-4.3-extends", "S-4.3-shortens", "S-4.4-at-its-turn", "S-4.4-granted", "S-4.4-waiting", "S-5.4-refused-keep", "S-6.2-at-once", "S-6.2-end-of-the-line", "S-6.2-fifo", "S-6.2-fifo-after-a-lease", "S-6.2-mixed-limits", "S-6.2-no-barging", "S-6.2-one-holder", "S-6.2-own-key", "S-6.3-not-after-the-limit", "S-6.3-others-stay", "S-6.4-thousand", "S-6.5-closed-by-the-server", "S-6.5-lease-goes-on", "S-6.5-several", "S-6.5-waiter-leaves", "S-7.2-chain", "S-7.2-each-its-own", "S-7.2-from-the-grant", "S-7.2-late-release-spares-the-next", "S-7.2-reclaimed", "S-7.3-lease", "S-8.1-after-a-lease", "S-8.1-hand-over", "S-9.4-gives-up", "S-9.4-new-limit", "S-9.4-same-connection", "S-9.4-superseded", "S-9.5-not-renewed", "S-9.6-back-to-a-free-key", "S-9.6-comes-back", "S-9.6-is-skipped", "S-9.6-too-late"}},
	{Name: bugQueuesMinusOne, Clause: "4.1", // a wait of -1 queues for a moment
		Fails: []string{"S-4.1-do-not-queue"}},
	{Name: bugTimesOutLate, Clause: "7.3", // a wait ends 0.4 s late
		Fails: []string{"S-7.3-wait", "S-4.1-each-its-own-wait", "S-4.1-timeout", "S-9.4-new-limit", "S-9.6-own-limit"}},
	{Name: bugTimesOutEarly, Clause: "7.3", // a wait ends when four fifths are over
		Fails: []string{"S-7.3-wait", "S-4.1-each-its-own-wait", "S-4.1-timeout", "S-9.4-new-limit"}},
	{Name: bugNeverReclaims, Clause: "7.2", // a lease does not end
		Fails: []string{"S-7.2-chain", "S-7.2-each-its-own", "S-7.2-free-again", "S-7.2-from-the-grant", "S-7.2-late-release", "S-7.2-late-release-spares-the-next", "S-7.2-reclaimed", "S-3.3-told-late", "S-4.3-extends", "S-4.3-no-revival", "S-4.3-shortens", "S-5.4-refused-keep", "S-6.2-fifo-after-a-lease", "S-6.3-not-after-the-limit", "S-6.5-lease-goes-on", "S-7.3-lease", "S-8.1-after-a-lease", "S-8.1-new-grant-after-asking-again", "S-9.2-kept", "S-9.2-lease-ended", "S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.5-without-a-wait"}},
	{Name: bugReclaimsEarly, Clause: "7.3", // a lease ends when four fifths are over
		Fails: []string{"S-7.3-lease", "S-4.3-extends", "S-4.3-shortens", "S-5.4-refused-keep", "S-6.2-fifo-after-a-lease", "S-6.3-not-after-the-limit", "S-6.5-lease-goes-on", "S-7.2-chain", "S-7.2-each-its-own", "S-7.2-from-the-grant", "S-7.2-reclaimed", "S-8.1-new-grant-after-asking-again", "S-9.2-kept", "S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.5-without-a-wait"}},
	{Name: bugReclaimsLate, Clause: "7.3", // a lease ends 0.4 s late
		Fails: []string{"S-7.3-lease", "S-4.3-extends", "S-4.3-no-revival", "S-4.3-shortens", "S-5.4-refused-keep", "S-6.2-fifo-after-a-lease", "S-6.3-not-after-the-limit", "S-6.5-lease-goes-on", "S-7.2-chain", "S-7.2-each-its-own", "S-7.2-free-again", "S-7.2-from-the-grant", "S-7.2-late-release", "S-7.2-reclaimed", "S-8.1-new-grant-after-asking-again", "S-9.2-kept", "S-9.2-lease-ended", "S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.5-without-a-wait"}},
	{Name: bugLongerLease, Clause: "7.1", // no lease is under a second
		Fails: []string{"S-7.1-as-asked/milliseconds", "S-2.5-shortest/hundredth", "S-4.3-no-revival", "S-7.2-free-again", "S-7.2-late-release", "S-9.2-lease-ended"}},
	{Name: bugLeaseFromRequest, Clause: "7.2", // a lease counts from the request
		Fails: []string{"S-7.2-chain", "S-7.2-from-the-grant"}},
	{Name: bugAnyToken, Clause: "4.2", // any token releases
		Fails: []string{"S-4.2-old-token", "S-4.2-token-of-another-key", "S-4.2-wrong-token", "S-3.2-echo", "S-3.3-other-keys-pass", "S-3.3-told-late", "S-4.3-wrong-token", "S-4.4-granted", "S-7.2-late-release-spares-the-next"}},
	{Name: bugOwnConnection, Clause: "4.2", // only the connection that was granted may release
		Fails: []string{"S-4.2-any-connection", "S-6.5-holder-keeps", "S-9.5-after-a-drop"}},
	{Name: bugReleaseAlwaysFine, Clause: "4.2", // a release that finds nothing is answered R
		Fails: []string{"S-4.2-old-token", "S-4.2-token-of-another-key", "S-4.2-twice", "S-4.2-wrong-token", "S-11.3-answers-due", "S-2.5-good-token", "S-3.2-echo", "S-3.3-other-keys-pass", "S-3.3-told-late", "S-4.4-granted", "S-7.2-late-release", "S-7.2-late-release-spares-the-next"}},
	{Name: bugEchoesAnotherKey, Clause: "3.2", // not-held names another key
		Fails: []string{"S-3.2-echo", "S-11.3-answers-due", "S-2.5-good-token", "S-3.3-other-keys-pass", "S-3.3-told-late", "S-4.2-old-token", "S-4.2-token-of-another-key", "S-4.2-twice", "S-4.2-wrong-token", "S-4.4-granted", "S-7.2-late-release", "S-7.2-late-release-spares-the-next"}},
	{Name: bugAnyOrder, Clause: "3.3", // answers come when they are ready
		Fails: []string{"S-3.3-do-not-queue-in-turn", "S-3.3-held-back", "S-3.3-refusals-in-turn", "S-3.3-told-late", "S-4.4-at-its-turn"}},
	{Name: bugWholeRequestWaits, Clause: "3.3", // the request waits with its answer
		Fails: []string{"S-3.3-held-back"}},
	{Name: bugRefusalOvertakes, Clause: "3.3", // refusals do not take their turn
		Fails: []string{"S-3.3-refusals-in-turn"}},
	{Name: bugStaleLease, Clause: "3.3", // a grant told late has its whole lease
		Fails: []string{"S-3.3-told-late", "S-8.1-new-grant-after-asking-again", "S-9.2-kept", "S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.5-without-a-wait"}},
	{Name: bugStopsReading, Clause: "3.5", // a connection is not read while an acquire waits
		Fails: []string{"S-11.3-closed", "S-3.3-other-keys-pass", "S-3.3-told-late", "S-3.6-allowed", "S-4.4-at-its-turn", "S-4.5-while-waiting", "S-6.5-closed-by-the-server", "S-6.5-several", "S-6.5-waiter-leaves", "S-7.2-each-its-own", "S-9.4-same-connection", "S-9.6-is-skipped", "S-9.6-newcomer", "S-9.6-too-late"}},
	{Name: bugTellsOfTheEnd, Clause: "3.1", // the holder is told of the end of its lease
		Fails: []string{"S-3.1-nothing-unsolicited", "S-9.2-lease-ended"}},
	{Name: bugUnfinishedLine, Clause: "2.2", // a last line without LF is executed
		Fails: []string{"S-2.2-unfinished"}},
	{Name: bugKeepsCR, Clause: "2.2", // CR before LF is not dropped
		Fails: []string{"S-2.2-cr-before-lf", "S-2.2-empty"}},
	{Name: bugEmptyLine, Clause: "2.2", // an empty line is refused
		Fails: []string{"S-2.2-empty"}},
	{Name: bugLongLines, Clause: "5.1", // a line of any length is skipped
		Fails: []string{"S-5.1-too-long"}},
	{Name: bugSpaces, Clause: "2.3", // spaces are taken as in a shell
		Fails: []string{"S-2.3-control-bytes/tab-for-sp", "S-2.3-control-bytes/tab-in-key", "S-2.3-spaces", "S-2.2-cr-inside", "S-2.2-two-crs", "S-5.2-strangers/space", "S-5.2-strangers/tab-for-sp"}},
	{Name: bugWraps, Clause: "2.5", // big numbers wrap
		Fails: []string{"S-2.5-bad-lease/tenth-digit", "S-2.5-bad-lease/wraps-64-bits", "S-2.5-bad-wait/tenth-digit", "S-2.5-bad-wait/tenth-digit-zero", "S-2.5-bad-wait/wraps-32-bits", "S-2.5-bad-wait/wraps-64-bits"}},
	{Name: bugFoldsCase, Clause: "2.6", // keys differ by more than their case
		Fails: []string{"S-2.6-equal-bytes", "S-2.6-question-mark", "S-2.6-too-long", "S-11.3-answers-due", "S-11.4-before-it", "S-11.4-line-arrives", "S-11.4-not-executed", "S-2.2-cr-inside", "S-2.3-any-bytes/half-utf-8", "S-2.3-any-bytes/not-utf-8", "S-2.3-control-bytes/del-in-key", "S-2.3-control-bytes/nul-in-key", "S-2.3-control-bytes/tab-for-sp", "S-2.3-control-bytes/tab-in-key", "S-2.3-spaces/before-key", "S-2.8-no-control-bytes/key", "S-3.1-one-each", "S-4.5-no-word", "S-4.5-pong/not-utf-8", "S-5.1-order/bad-key-and-wait", "S-5.1-order/unknown-op-bad-key", "S-5.1-order/unknown-op-no-key", "S-5.2-bad-key", "S-5.2-strangers", "S-6.5-closed-by-the-server", "S-6.5-several", "S-6.5-waiter-leaves/reset"}},
	{Name: bugClosesOnError, Clause: "5.2", // every refusal closes the connection
		Fails: []string{"S-5.2-bad-key", "S-5.2-fields", "S-5.2-fields-keep", "S-5.2-fields-ping", "S-5.2-fields-resume", "S-5.2-unknown-op", "S-10.3-try-another", "S-2.2-cr-inside", "S-2.2-longest", "S-2.2-two-crs", "S-2.3-control-bytes", "S-2.3-spaces", "S-2.5-bad-token", "S-2.6-question-mark", "S-2.6-too-long", "S-3.1-one-each", "S-3.3-refusals-in-turn", "S-4.5-no-word", "S-4.6-no-name", "S-4.6-version-first", "S-5.1-order", "S-9.2-bad-request"}},
	{Name: bugBadKeyAsRequest, Clause: "5.2", // a bad key is called a bad request
		Fails: []string{"S-5.2-bad-key", "S-11.3-answers-due", "S-2.2-cr-inside", "S-2.3-control-bytes/del-in-key", "S-2.3-control-bytes/nul-in-key", "S-2.3-control-bytes/tab-for-sp", "S-2.3-control-bytes/tab-in-key", "S-2.3-spaces/before-key", "S-2.6-question-mark", "S-2.6-too-long", "S-4.5-no-word", "S-5.1-order/bad-key-and-wait", "S-5.1-order/unknown-op-bad-key", "S-5.1-order/unknown-op-no-key"}},
	{Name: bugExtraFields, Clause: "5.2", // extra fields of a release are ignored
		Fails: []string{"S-5.2-fields/after-the-token", "S-5.4-refused-release"}},
	{Name: bugGhostAfterDrop, Clause: "6.5", // a waiter that dropped stays in line
		Fails: []string{"S-6.5-closed-by-the-server", "S-6.5-several", "S-6.5-waiter-leaves", "S-9.6-is-skipped", "S-9.6-newcomer", "S-9.6-too-late"}},
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
		Fails: []string{"S-4.3-any-connection", "S-4.3-default", "S-4.3-token-stays"}},
	{Name: bugForgetsNonce, Clause: "9.2", // a nonce is forgotten when its grant ends
		Fails: []string{"S-9.2-lease-ended", "S-9.2-released", "S-9.7-ten-seconds"}},
	{Name: bugRepeatRenews, Clause: "9.5", // asking again renews the lease
		Fails: []string{"S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.2-kept"}},
	{Name: bugRepeatNewToken, Clause: "9.5", // asking again gives a new token
		Fails: []string{"S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.5-without-a-wait", "S-3.3-told-late", "S-8.1-new-grant-after-asking-again", "S-9.2-kept"}},
	{Name: bugRepeatWholeLease, Clause: "9.5", // asking again tells of the whole lease
		Fails: []string{"S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.5-without-a-wait", "S-8.1-new-grant-after-asking-again", "S-9.2-kept"}},
	{Name: bugTakeOverAtTheEnd, Clause: "9.4", // asking again means the end of the line
		Fails: []string{"S-9.6-comes-back", "S-9.6-is-skipped"}},
	{Name: bugTakeOverOldTerms, Clause: "9.4", // the older request's wait and lease stay
		Fails: []string{"S-9.4-new-limit", "S-9.4-same-connection", "S-9.4-superseded", "S-9.6-comes-back"}},
	{Name: bugTakeOverQueues, Clause: "9.4", // with -1 the place is not given up
		Fails: []string{"S-9.4-gives-up"}},
	{Name: bugNoGrace, Clause: "9.6", // a waiter that dropped is forgotten at once
		Fails: []string{"S-9.6-comes-back", "S-9.6-is-skipped", "S-9.6-own-limit"}},
	{Name: bugGraceForEver, Clause: "9.6", // it is never forgotten
		Fails: []string{"S-9.6-too-late"}},
	{Name: bugDetachedBlocks, Clause: "9.6", // a detached waiter holds the others up
		Fails: []string{"S-9.6-is-skipped", "S-9.6-newcomer"}},
	{Name: bugCancelForgets, Clause: "4.4", // a cancel that overtook its acquire is forgotten
		Fails: []string{"S-4.4-unknown"}},
	{Name: bugCancelKeepsPlace, Clause: "4.4", // a cancelled acquire stays in line
		Fails: []string{"S-4.4-at-its-turn", "S-4.4-waiting"}},
	{Name: bugCancelKeepsGrant, Clause: "4.4", // a cancel does not end a grant
		Fails: []string{"S-4.4-again", "S-4.4-granted"}},
	{Name: bugNormalises, Clause: "2.3", // two spellings of a letter are one key
		Fails: []string{"S-2.3-not-normalised"}},
	{Name: bugShortKeys, Clause: "2.6", // a key of 255 bytes is too long
		Fails: []string{"S-2.6-longest", "S-4.5-pong/long"}},
	{Name: bugShortLines, Clause: "5.1", // a line has at most 1,000 bytes
		Fails: []string{"S-5.1-not-yet", "S-2.2-longest"}},
	{Name: bugReleaseLater, Clause: "3.4", // a release is answered before it takes effect
		Fails: []string{"S-3.4-release-then-acquire", "S-11.3-answers-due", "S-4.1-default-lease", "S-4.2-any-connection", "S-4.2-release", "S-4.3-default", "S-6.5-holder-keeps", "S-8.1-many", "S-9.2-released", "S-9.5-after-a-drop", "S-9.6-newcomer"}},
	{Name: bugReentrant, Clause: "3.5", // who holds a key is granted it again
		Fails: []string{"S-3.5-not-reentrant", "S-3.5-behind-own-lock", "S-3.2-echo", "S-3.4-acquire-then-acquire"}},
	{Name: bugLeaseUntold, Clause: "4.1", // a grant tells of two seconds too many
		Fails: []string{"S-4.1-free", "S-2.5-shortest", "S-2.6-longest", "S-3.2-echo", "S-3.3-do-not-queue-in-turn", "S-3.3-held-back", "S-3.3-refusals-in-turn", "S-3.3-told-late", "S-3.4-acquire-then-acquire", "S-3.5-behind-own-lock", "S-4.4-at-its-turn", "S-5.4-refused-keep", "S-6.2-fifo-after-a-lease", "S-6.3-not-after-the-limit", "S-6.5-lease-goes-on", "S-7.1-as-asked", "S-7.2-chain", "S-7.2-each-its-own", "S-7.2-from-the-grant", "S-7.2-reclaimed", "S-7.3-lease", "S-8.1-new-grant-after-asking-again", "S-9.4-same-connection", "S-9.4-superseded", "S-9.5-after-a-drop", "S-9.5-not-renewed", "S-9.5-same-token", "S-9.5-without-a-wait", "S-9.6-comes-back"}},
	{Name: bugNoDefault, Clause: "4.1", // a lease of 0 is none
		Fails: []string{"S-4.1-default-lease"}},
	{Name: bugCancelsElsewhere, Clause: "4.4", // a cancel also ends the grants of other keys under the nonce
		Fails: []string{"S-4.4-only-its-own"}},
	{Name: bugHelloOnce, Clause: "4.6", // a second hello is refused
		Fails: []string{"S-4.6-again"}},
	{Name: bugShortNames, Clause: "4.6", // a name of 64 bytes is too long
		Fails: []string{"S-4.6-long-name"}},
	{Name: bugShortNonces, Clause: "5.2", // a nonce of 32 bytes is too long
		Fails: []string{"S-5.2-longest-nonce"}},
	{Name: bugTimeoutForgets, Clause: "9.2", // a nonce whose wait has ended may be used again
		Fails: []string{"S-9.2-timed-out", "S-9.2-not-queued", "S-9.6-own-limit"}},
	{Name: bugSilenceFrees, Clause: "11.2", // a connection that is silent for 2 s is closed
		Fails: []string{"S-11.2-idle", "S-11.2-releases-nothing", "S-4.1-wait-0-is-no-limit", "S-4.3-extends", "S-9.7-ten-seconds"}},
	{Name: bugOneAtATime, Clause: "11.7", // a connection is accepted when the one before has said something
		Fails: []string{"S-11.7-silent"}},
	{Name: bugLastRelease, Clause: "3.2", // a release is answered with the key of the one before
		Fails: []string{"S-3.2-release-echo", "S-11.2-idle", "S-6.5-several", "S-8.1-many"}},
	{Name: bugRefusedWaits, Clause: "5.4", // a refused acquire stands in line
		Fails: []string{"S-5.4-refused-acquire", "S-3.1-one-each", "S-3.3-refusals-in-turn"}},
}
