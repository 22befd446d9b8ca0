package cluster

import "github.com/stile-lock/stile/server/replica"

// Role is what a node is.
type Role uint8

const (
	// Joining: just started, nothing is decided yet.
	Joining Role = iota
	// Standby follows the active, or looks for one.
	Standby
	// Candidate is about to be active.
	Candidate
	// Active serves the clients.
	Active
)

var roleNames = [...]string{"joining", "standby", "candidate", "active"}

func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return "unknown"
}

// Message is what nodes tell each other, beside the stream.
type Message interface{ message() }

// Status tells all about its sender. It is the heartbeat, the first word of a
// new link, and is sent at once when something in it has changed.
type Status struct {
	Boot uint64 // the instance of the sender
	Role Role

	// Place is the sender's. Of an active it is of its own reign, and Base
	// is the place that reign began from.
	Place, Base replica.Place
	// Epoch is what an active gives tokens under. Known is the highest pair
	// the sender knows of, its own included.
	Epoch, Known replica.Epoch

	Stopping bool // it gives its role away and ends
	Unfit    bool // it can't store an epoch
	Fresh    bool // it started without an epoch file
	Forked   bool // its table is another than its place says: it gave way to another active
	Paused   bool // it woke from a pause and has not heard from all yet
	Sync     bool // active, it answers what the standbys in sync have applied

	// Meeting is 1 + the id of another active that the sender, an active,
	// holds its service for; 0: none.
	Meeting uint8

	Reach uint16    // ids of the nodes it has a live link to, as bits
	Sees  []Sighted // actives it has fresh word from

	// Beat is the sender's clock when it sent this; Echo is the latest Beat
	// that it got from the receiver on a link that still stands.
	Beat, Echo uint64
	// Ask is the number of the sender's latest question; Answer is the
	// latest one it knows of the receiver's. Whatever is in a status with
	// Answer = n was true after n was asked.
	Ask, Answer uint64

	// Feeds is the stream that the sender feeds the receiver, or is about to; 0
	// for none.
	Feeds uint64

	FailureTimeout uint64 // ns
	// Sync and FailureTimeout should be the same everywhere. Advertise and Peers are how the sender was configured.
	Advertise, Peers string
}

// Sighted is an active that somebody has fresh word from.
type Sighted struct {
	ID    uint8
	Reign replica.Epoch
}

// Join asks the receiver for its stream, from the sender's place on.
type Join struct {
	Stream uint64 // names the stream; each Join has a new one
	Place  replica.Place
}

// Ack says how far the sender has applied the stream.
type Ack struct {
	Stream uint64
	Place  replica.Place
	Frames uint64 // of the stream, that have come
}

// Prepare asks a standby to get ready for the role: to store an epoch above
// Above, and to say Prepared.
type Prepare struct {
	ID    uint64
	Above replica.Epoch
}

// Prepared answers Prepare. Epoch.N is 0 if the epoch could not be stored, or
// the sender may not take the role.
type Prepared struct {
	ID    uint64
	Epoch replica.Epoch
}

// Go gives the role away. From sending it the giver is a standby.
type Go struct {
	ID    uint64
	Place replica.Place // where the receiver must be
}

// Offer is a part of the table of an active that steps down, for the other
// active. It may travel by way of a node that both reach.
type Offer struct {
	From, To uint8
	Epoch    replica.Epoch // of the giver, at its end
	Seq      uint32        // 0 is the first
	Last     bool
	Rows     []byte // encoded records
}

func (*Status) message()   {}
func (*Join) message()     {}
func (*Ack) message()      {}
func (*Prepare) message()  {}
func (*Prepared) message() {}
func (*Go) message()       {}
func (*Offer) message()    {}
