// Package peer is the links between the nodes of a cluster. It knows nothing
// of roles: its user says when to dial, what to send and what a lost link
// means.
//
// A node sends on the connection it dialed ("out") and receives on the one
// that the peer dialed ("in"), so a pair of nodes has two connections. After
// the handshake nothing travels the other way.
//
// # The handshake
//
// It runs on the port that clients use, and its first line tells it from
// them. Numbers in the binary parts are little-endian.
//
//	dialer:    N <version> <from> <to> <boot> <dial> <nonce>\n
//	acceptor:  version (1 byte), nonce (16)
//	dialer:    length (2), hello, proof (32)
//	acceptor:  verdict (1), boot (8), length (2), hello or reason, proof (32)
//
// In the line the ids are decimal; boot, dial (which grows with each
// connection of a boot) and the 16 bytes of the nonce are hexadecimal. A proof
// is the HMAC-SHA256, under the cluster's secret, of a label and of every byte
// that went before it in either direction. The dialer proves itself first,
// and whoever can't is shown nothing but a version and a random number. Who
// can is told why, if it is turned away all the same.
//
// The proofs tell who opened a connection. They do not protect what travels
// on it afterwards from someone who can alter it on the way; TLS does.
//
// # TLS
//
// Where the nodes have certificates, TLS is below all of that. The dialer
// verifies that the acceptor's certificate is for the host it dials. Where
// clients must show certificates, the dialer's must be for the host that the
// acceptor has in its list for that node: clients have certificates of the
// same authority.
//
// # Frames
//
// Each has a length (4 bytes) and that many bytes, [MaxFrame] at most.
package peer
