package lockspace

import "time"

// recordWaiter records that a waiter has a place in line, or another limit
// and lease than before.
func (s *Space) recordWaiter(r *request) {
	if s.cfg.Record && !s.standby {
		s.changes = append(s.changes, s.waiterRow(r))
	}
}

// recordNonce records what has become of a nonce that holds nothing.
func (s *Space) recordNonce(kind ChangeKind, e *entry, nonce *Nonce) {
	if s.cfg.Record && !s.standby {
		s.changes = append(s.changes, Change{Kind: kind, Key: e.key, Nonce: *nonce})
	}
}

func (s *Space) waiterRow(r *request) Change {
	wait := Forever
	if r.place.until != Never {
		wait = max(0, time.Duration(r.place.until-s.now))
	}
	return Change{
		Kind: WaiterQueued, Key: r.e.key, Nonce: r.name.value(),
		Wait: wait, Asked: r.place.asked, Arrival: r.place.arrival, Age: time.Duration(s.now - r.place.since),
	}
}

// limit is the end of a wait that a change tells of.
func (s *Space) limit(wait time.Duration) Time {
	if wait == Forever || Time(wait) > Never-max(s.now, 0) {
		return Never
	}
	return s.now + Time(wait)
}

// pairOf writes a fingerprint down for other nodes.
func pairOf(fp fingerprint) (pair [16]byte) {
	for i := range 8 {
		pair[i] = byte(fp.Hi >> (56 - 8*i))
		pair[8+i] = byte(fp.Lo >> (56 - 8*i))
	}
	return pair
}

func fingerprintFrom(pair [16]byte) (fp fingerprint) {
	for i := range 8 {
		fp.Hi = fp.Hi<<8 | uint64(pair[i])
		fp.Lo = fp.Lo<<8 | uint64(pair[8+i])
	}
	return fp
}

// learnSpent makes an unknown pair spent, as of some time ago. It reports
// whether it did.
func (s *Space) learnSpent(pair [16]byte, age time.Duration) bool {
	fp := fingerprintFrom(pair)
	if age >= s.cfg.SpentFor || s.nameOf(fp) != nil || s.isSpent(fp) {
		return false
	}
	s.spendAt(fp, s.now-Time(max(0, age)))
	return true
}
