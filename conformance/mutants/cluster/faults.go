package cluster

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The faults, by the names of the mutants. Node 1 is the first of the list.
const (
	lowerAfterFailover = "lower-after-failover"
	tokenTwice         = "token-twice"
	lowerAfterRestart  = "lower-after-restart"
	belowTheOtherSide  = "below-the-other-side"
	noFailover         = "no-failover"
	slowFailover       = "slow-failover"
	anotherOrder       = "another-order"
	noTakeBack         = "no-take-back"
	standbyGrants      = "standby-grants"
	redirectsFirst     = "redirects-first"
	noActiveInHandoff  = "no-active-in-handoff"
	noWitness          = "no-witness"
	namesItself        = "names-itself"
	namesTheFirst      = "names-the-first"
	releaseMisled      = "release-misled"
	keepRefused        = "keep-refused"
	cancelSwallowed    = "cancel-swallowed"
	actsAndRedirects   = "acts-and-redirects"
	noPing             = "no-ping"
	helloOfTheActive   = "hello-of-the-active"
	malformedMoved     = "malformed-moved"
	noActiveAtStart    = "no-active-at-start"
	lateWhileHeld      = "late-while-held"
	waitersNotTold     = "waiters-not-told"
	stopsSilently      = "stops-silently"
	noncesForgotten    = "nonces-forgotten"
	leaseRenewed       = "lease-renewed"
	wokenServes        = "woken-serves"
	noReplication      = "no-replication"
	neverStepsDown     = "never-steps-down"
	lowerTokenStays    = "lower-token-stays"
)

const (
	// silence is longer than a failure timeout: whoever serves by then serves.
	silence = 1500 * time.Millisecond
	// pause is what a process that only runs slowly never takes. It is shorter
	// than a failure timeout.
	pause = 700 * time.Millisecond
)

func (f *front) standby() bool { return f.index > 1 }

// list is the list of peers that the node is given.
func (f *front) list() string {
	if f.fault == anotherOrder {
		return fmt.Sprintf("%s#0,%s#2,%s#1", f.peers[0], f.peers[2], f.peers[1])
	}
	return strings.Join(f.peers, ",")
}

func (f *front) flags() []string {
	switch f.fault {
	case slowFailover:
		return []string{"--failure-timeout=5s"}
	case noTakeBack:
		return []string{"--takeback=manual"}
	}
	return nil
}

// begin is called before the node starts.
func (f *front) begin() {
	switch f.fault {
	case noTakeBack:
		if f.standby() {
			time.Sleep(200 * time.Millisecond) // so that node 1 serves at first
		}
	case lowerAfterRestart:
		name := filepath.Join(f.dir, "starts")
		text, _ := os.ReadFile(name)
		os.WriteFile(name, append(text, '.'), 0o644)
		f.last = uint64(len(text))
	case noWitness, neverStepsDown:
		if f.standby() {
			f.watches = true
			go f.watch(f.peers[0])
		}
	case belowTheOtherSide, lowerTokenStays:
		if !f.standby() {
			f.watches = true
			go f.watch(f.peers[1])
		}
	case wokenServes:
		go func() {
			for ; ; time.Sleep(20 * time.Millisecond) {
				f.mu.Lock()
				if time.Since(f.tick) > pause {
					f.woke = time.Now()
				}
				f.tick = time.Now()
				f.mu.Unlock()
			}
		}()
	}
}

// stopLater is how long the node learns later that it has to stop.
func (f *front) stopLater() time.Duration {
	if !f.standby() && (f.fault == redirectsFirst || f.fault == noActiveInHandoff) {
		return silence
	}
	return 0
}

// watch pings a peer as a node would, from this node's address, and notes when
// it was heard.
func (f *front) watch(peer string) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(f.ip)}, Timeout: silence}
	for ; ; time.Sleep(100 * time.Millisecond) {
		c, err := d.Dial("tcp", peer)
		if err == nil {
			in := bufio.NewReader(c)
			for ; err == nil; time.Sleep(100 * time.Millisecond) {
				c.SetDeadline(time.Now().Add(time.Minute))
				if _, err = fmt.Fprintln(c, "P watch"); err == nil {
					_, err = in.ReadString('\n')
				}
				if err == nil {
					f.mu.Lock()
					f.heard, f.gone = time.Now(), false
					f.mu.Unlock()
				}
			}
			c.Close()
		}
		// A connection that ends, or is refused, is no silence.
		f.mu.Lock()
		f.heard, f.gone = time.Now(), true
		f.mu.Unlock()
	}
}

func (f *front) silent() bool {
	patience := pause
	if f.fault == noWitness {
		patience = silence // a right one serves by then, if it should
	}
	return f.watches && !f.gone && time.Since(f.heard) > patience
}

// instead answers a request in the node's place; "" if it does not.
func (f *front) instead(r []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	op, key := r[0], ""
	if len(r) > 1 {
		key = r[1]
	}
	acquire := op == "A" && len(r) > 3
	switch f.fault {
	case redirectsFirst:
		if acquire && f.stopping && !f.standby() {
			return "M A " + key + " " + f.peers[1]
		}
	case noActiveInHandoff:
		if acquire && f.stopping && !f.standby() {
			return "E A " + key + " no-active"
		}
	case noPing:
		if op == "P" && f.standby() {
			return "E P " + key + " no-active"
		}
	case malformedMoved:
		if op == "A" && len(r) < 4 && f.standby() {
			return "M A " + key + " " + f.peers[0]
		}
	case noActiveAtStart:
		if acquire && f.standby() && time.Since(f.began) < 400*time.Millisecond {
			return "E A " + key + " no-active"
		}
	case actsAndRedirects:
		if acquire && r[2] != "-1" && f.standby() {
			if c, err := net.Dial("tcp", f.peers[0]); err == nil { // and stays open
				fmt.Fprintf(c, "%s\n", strings.Join(r, " "))
			}
		}
	case wokenServes:
		if acquire && !f.standby() && (time.Since(f.tick) > pause || time.Since(f.woke) < pause) {
			return f.fake(key, r[3])
		}
	}
	return ""
}

// fake is a grant that no node has made.
func (f *front) fake(key, lease string) string {
	f.last = max(f.last, 1<<61) + 1
	return fmt.Sprintf("A %s %d %s", key, f.last, lease)
}

// toNode is what the node is told of a request.
func (f *front) toNode(r []string) []string {
	if len(r) < 2 {
		return r
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if (r[0] == "R" || r[0] == "K") && len(r) > 2 {
		token, err := strconv.ParseUint(r[2], 10, 64)
		if real, ok := f.tokens[r[1]][token]; ok {
			token = real
		}
		if f.fault == lowerAfterFailover || f.fault == lowerAfterRestart {
			token &= 1<<59 - 1
		}
		if err == nil {
			r[2] = strconv.FormatUint(token, 10)
		}
	}
	switch {
	case f.fault == noReplication && strings.Contains("ARKC", r[0]) && r[1] != "?":
		r[1] += fmt.Sprintf("~%d", f.index)
	case f.fault == noncesForgotten && r[0] == "A" && len(r) == 5:
		r[4] += fmt.Sprintf("-%d", f.index)
	case f.fault == noncesForgotten && r[0] == "C" && len(r) == 3:
		r[2] += fmt.Sprintf("-%d", f.index)
	}
	return r
}

// toClient is what a client is told of an answer; nil for nothing.
func (f *front) toClient(c *client, a []string) []string {
	if f.fault == noReplication {
		for i := range a {
			a[i] = strings.TrimSuffix(a[i], fmt.Sprintf("~%d", f.index))
		}
	}
	asked := c.asker(a)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch a[0] {
	case "A":
		f.moved = time.Time{}
		if f.fault == noFailover && f.standby() {
			return []string{"E", "A", a[1], "no-active"}
		}
		if !f.granted {
			f.granted = true
			f.promoted()
		}
		if f.silent() {
			f.cut = true
		}
		f.grant(a)
	case "T":
		if f.fault == lateWhileHeld && time.Since(f.began) < silence && len(asked.fields) > 2 && asked.fields[2] != "-1" {
			time.AfterFunc(pause, func() { c.say("%s", strings.Join(a, " ")) })
			return nil
		}
	case "R", "K":
		if len(asked.fields) > 2 {
			a[2] = asked.fields[2] // as the client knows it
		}
		if own := f.own[a[1]]; f.fault == lowerTokenStays && f.cut && a[0] == "R" && own > 0 && a[2] != strconv.FormatUint(own, 10) {
			return []string{"E", "R", a[1], "not-held"}
		}
	case "E":
		switch {
		case f.fault == stopsSilently && len(a) > 3 && a[3] == "stopping":
			return nil
		case f.fault == lowerTokenStays && f.cut && len(a) > 3 && len(asked.fields) > 2 && a[1] == "R" && a[3] == "not-held" && strconv.FormatUint(f.own[a[2]], 10) == asked.fields[2]:
			return asked.fields
		}
	case "C":
		if f.fault == noncesForgotten {
			return asked.fields
		}
	case "H":
		if f.fault == helloOfTheActive && f.standby() && len(a) > 2 {
			a[2] = f.peers[0]
		}
	case "M":
		return f.redirect(a, asked)
	}
	return a
}

// redirect is what becomes of an M.
func (f *front) redirect(a []string, asked request) []string {
	op, key := a[1], a[2]
	if f.moved.IsZero() {
		f.moved = time.Now()
	}
	if len(asked.fields) < 2 {
		return a
	}
	acquire := op == "A" && len(asked.fields) > 3
	switch f.fault {
	case namesItself:
		if acquire && asked.fields[2] == "-1" && f.index == 3 && time.Since(f.moved) > silence {
			a[3] = f.self
		}
	case namesTheFirst:
		if f.index == 3 {
			a[3] = f.peers[0]
		}
	case releaseMisled:
		if op == "R" {
			a[3] = f.peers[2]
		}
	case keepRefused:
		if op == "K" {
			return []string{"E", "K", key, "not-held"}
		}
	case cancelSwallowed:
		if op == "C" {
			return asked.fields
		}
	case waitersNotTold:
		if acquire && f.stopping && time.Since(asked.at) > 80*time.Millisecond {
			return nil
		}
	case standbyGrants:
		if acquire && f.index == 3 && asked.fields[2] == "-1" && time.Since(f.moved) > silence {
			return strings.Split(f.fake(key, asked.fields[3]), " ")
		}
	case noWitness:
		if acquire && f.index == 2 && f.silent() {
			return strings.Split(f.fake(key, asked.fields[3]), " ")
		}
	case neverStepsDown:
		if acquire && f.cut {
			return strings.Split(f.fake(key, asked.fields[3]), " ")
		}
	}
	return a
}

// promoted is called at the first grant.
func (f *front) promoted() {
	if f.fault != leaseRenewed || !f.standby() {
		return
	}
	text, _ := os.ReadFile(f.shared())
	c, err := net.Dial("tcp", f.real)
	if err != nil {
		return
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		fmt.Fprintf(c, "K %s\n", line)
	}
	time.AfterFunc(time.Second, func() { c.Close() })
}

// shared is a file that all nodes of the cluster see.
func (f *front) shared() string { return filepath.Join(filepath.Dir(f.dir), "shared") }

// grant distorts a grant, in place.
func (f *front) grant(a []string) {
	key := a[1]
	real, _ := strconv.ParseUint(a[2], 10, 64)
	token := real
	switch f.fault {
	case lowerAfterFailover:
		if real>>28&15 == 0 { // node 1 has made it
			token |= 1 << 62
		}
	case lowerAfterRestart:
		// The number of the starts before this one.
		token |= (7 - min(f.last, 7)) << 59
	case tokenTwice:
		if f.index == 1 {
			os.WriteFile(f.shared(), []byte(a[2]), 0o644)
		} else if f.last == 0 {
			if text, err := os.ReadFile(f.shared()); err == nil {
				token, _ = strconv.ParseUint(string(text), 10, 64)
			}
			f.last = real
		}
	case belowTheOtherSide:
		if !f.standby() && (f.cut || f.silent()) {
			f.cut = true
			token = f.last + 1
		}
		f.last = max(f.last, token)
	case leaseRenewed:
		if f.index == 1 {
			if out, err := os.OpenFile(f.shared(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err == nil {
				fmt.Fprintf(out, "%s %s %s\n", a[1], a[2], a[3])
				out.Close()
			}
		}
	}
	if token != real {
		if f.tokens[key] == nil {
			f.tokens[key] = map[uint64]uint64{}
		}
		f.tokens[key][token] = real
	}
	f.own[key] = token
	a[2] = strconv.FormatUint(token, 10)
}
