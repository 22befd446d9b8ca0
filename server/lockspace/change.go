package lockspace

import "time"

// ChangeKind says what happened to the table.
type ChangeKind uint8

// Kinds of changes. The comments name the fields that count, beside Key.
const (
	// GrantMade: Token, Lease (left), Age, Nonce. A waiter with that nonce has
	// left the line.
	GrantMade ChangeKind = iota + 1
	// GrantKept: Token, Lease (left).
	GrantKept
	// GrantEnded: Token. The nonce of the grant, if any, is spent.
	GrantEnded
	// GrantUndone: Token. The nonce of the grant, if any, is unknown again;
	// where its waiter got its place back, a WaiterQueued follows.
	GrantUndone
	// WaiterQueued: Nonce, Arrival, Wait (left), Asked, Age. The waiter may be in
	// line already: then these are its new limit and lease, and it is as old as
	// the greater of the two ages.
	WaiterQueued
	// WaiterLeft: Nonce, which is unknown again.
	WaiterLeft
	// NonceSpent: Nonce. A waiter with it has left the line.
	NonceSpent
	// SpentKnown: Pair, Age; no Key. Only in snapshots and offers, and where
	// an offer was adopted.
	SpentKnown
	// TokenSeen: Token, the highest that the table ever had; no Key. Where
	// SpentKnown is.
	TokenSeen
)

// Change is one step of the table, as a copy of it needs to know it. The same
// form serves as a row of a snapshot, and a change may be applied twice.
//
// Only waiters with a nonce are in it: nobody else can find their place again
// on another node. Times are given as what is left of them, so that a copy
// needs no common clock: it is late by the way of the message, never early. For
// the same reason it is told how old things are, not when they began.
type Change struct {
	Kind    ChangeKind
	Key     []byte // valid until the next call of a method of the Space
	Token   uint64
	Nonce   Nonce
	Lease   time.Duration
	Wait    time.Duration // Forever: no limit
	Asked   time.Duration // the lease that the waiter asked for, 0: the default
	Arrival uint64        // orders the waiters of one key
	Pair    [16]byte      // stands for a key and a nonce, the same on every node; see KeyHash
	Age     time.Duration // since the nonce was spent, the grant was made, or the waiter asked
}

// Forever is a wait without a limit.
const Forever time.Duration = 1<<63 - 1

// KeyHash is the [HashKey] of the key that the change is about; TokenSeen is
// about none.
func (c *Change) KeyHash() uint64 {
	if c.Kind == SpentKnown {
		return spread(uint32(fingerprintFrom(c.Pair).Hi >> 32))
	}
	return HashKey(c.Key)
}
