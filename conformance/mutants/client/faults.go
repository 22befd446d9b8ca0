package client

import "time"

// Faults are the ways in which the plain client can be wrong, one rule at a
// time, and at the end the liberties that a right client may take.
type Faults struct {
	// Connections: SPEC.md 13.1 to 13.3.
	OneConnection     bool          // to a single address
	TwoEach           bool          // connections to each address
	SecondConnection  bool          // after a redirect to a listed address
	Beat              time.Duration // instead of 3 s
	NoPing            bool          // and so never gives a silent connection up
	NeverGivesUp      bool          // pings, but does nothing about silence
	PingsPileUp       bool          // a ping every second, answered or not
	UnknownOpIsNoPong bool
	NoIdlePing        bool
	ClosesPolitely    bool // without a reset

	// Rotation: 13.4, 13.5.
	NoRotation         bool // always from the first one on
	RotationSkips      bool // the first one, after a full turn
	ReleaseMovesCursor bool
	KeepMovesCursor    bool
	SparesServe        bool // a connection that answered M stays in the rotation
	SparesForEver      bool // an M that names it does not bring it back
	SparesClosed       bool // a connection that answered M is closed
	SparesNeverServe   bool // also when no other connection is live
	SparesStaySpares   bool // also when they were lost and are back

	// Acquire: 13.6, 13.7.
	WaitInSeconds    bool // cut to whole seconds
	NoOwnClock       bool
	LateGrantDropped bool
	NoCancel         bool
	CancelOnce       bool // however it went
	FailsAndForgets  bool // no cancel after an error
	OneNonce         bool // the same for all calls
	NoNonce          bool
	GivesUpOnLoss    bool // an error as soon as the connection is lost
	FailsEarly       bool // an error after one server did not serve
	NoDemand         bool // no dial on demand
	WholeWait        bool // instead of what is left, after moving on
	FreshNonces      bool // a new one for each try
	SpentIsFinal     bool
	BehindAYounger   bool // a nonce repeated behind a younger acquire of its key (9.9)
	YoungestFirst    bool // of several that lost one connection (9.9)
	BehindALonger    bool // and its own clock waits, too
	CancelWaits      bool // for a second
	TimeoutMovesOn   bool // T: at the next server
	SlowDemand       bool // a dial on demand comes 0.9 s later
	LastReasonWins   bool // no connection, if that was the last thing it met
	NeverAnew        bool // what was tried before it had a place in line counts still
	RetryFromTheCall bool // the time to go on trying, though it had a place in line
	Crowds           bool // a connection, with any number of requests (3.6)
	RetriesAnything  bool // any code: at the next server

	// Redirects: 13.8 to 13.10.
	RedirectIgnored bool
	RedirectFails   bool // the call
	RestsLong       bool // also an address that refused
	ZeroIsNoLimit   bool // a wait that is over is sent as 0
	ListedOnly      bool
	UnlistedForEver bool
	FollowsAnywhere bool
	NoRest          bool
	SecretToAnybody bool
	NoPauses        bool
	LoopsForEver    bool

	// Lease: 13.11.
	CountsAsAsked      bool // the lease asked for, whatever was granted
	KeepsAsAsked       bool // the same of a keep
	AnyAnswerCounts    bool // also one on another connection
	CountsFromRead     bool
	CountsFromAcquire  bool // also after a wait
	NoKeepFirst        bool
	HandsOutTheEnded   bool // a lock of which nothing is left
	AsksWithTheOld     bool // nonce, after a grant that was over
	KeepFromRead       bool
	KeepOnce           bool
	KeepNotHeldIgnored bool
	LateKeepRevives    bool
	NeverLost          bool

	// Release: 13.12, 13.14.
	ReleaseOnce            bool
	ReleasesForEver        bool
	ReleasePace            time.Duration // instead of 200 ms
	ReleasesPileUp         bool          // also while one is owed
	CancelStopsRelease     bool
	NotHeldIsFine          bool
	CopyNotHeld            bool // an error also for a second copy
	ReleaseNotMoved        bool
	ReleaseRetriesAnything bool
	AlwaysNo               bool // the outcome, whatever the code, and of a request that was lost

	// Answers: 2, 3, 13.13, 14.2.
	ByOrder         bool // to the oldest request of its op
	MisfitsIgnored  bool
	DuplicatesTaken bool
	TwoFromTwo      bool // of a grant that came over two connections, both are taken
	NoExtraFields   bool
	NoCR            bool
	TokensAsFloats  bool
	ReadIsALine     bool // whatever one read brings

	// Hello and what is sent: 10.2, 13.15.
	NonceAlways        bool
	KeepAlways         bool
	KeysUnchecked      bool
	KeysTooStrict      bool // ASCII only
	DurationsUnchecked bool
	SecretUnchecked    bool

	// Liberties.
	StartLast bool // the rotation starts elsewhere
	RotatesR  bool // R and K go round, by a cursor of their own
	ExtraDial bool // at once when a connection is lost that an acquire waits on
	NoHello   bool
}
