// Package peers is the list of a cluster's nodes: which there are, in which
// priority, and with which ids. All nodes have the same list, or lists that
// are compatible: while nodes are added or removed one by one they differ for
// a time.
//
// Addresses are compared as text, in the form that Canonical gives them; no
// name is looked up, but by the function that a caller may give to Self.
package peers

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/stile-lock/stile/protocol"
)

const (
	// MaxPeers is the most nodes that a list can have.
	MaxPeers = 16
	// MaxID is the highest id of a node.
	MaxID = 15
)

// A Peer is a node of the cluster.
type Peer struct {
	// ID goes into the node's tokens and never moves to another address.
	ID uint8
	// Addr is where clients and the other nodes reach the node, as written.
	Addr string
}

// A List is the nodes of a cluster, the one of highest priority first. The
// zero value is that of a node alone.
type List []Peer

// Parse reads a list of entries `addr` or `addr#id`, with commas between
// them. An entry without an id has its index, counted from 0.
func Parse(s string) (List, error) {
	if s == "" {
		return nil, nil
	}
	entries := strings.Split(s, ",")
	if len(entries) > MaxPeers {
		return nil, fmt.Errorf("the list has %d entries: want at most %d", len(entries), MaxPeers)
	}
	var l List
	for i := range entries {
		entries[i] = strings.TrimSpace(entries[i])
		p, err := parseEntry(entries[i], uint8(i))
		if err != nil {
			return nil, fmt.Errorf("entry %d%w", i+1, err)
		}
		for j, earlier := range l {
			both := fmt.Sprintf("entry %d, %q, and entry %d, %q,", j+1, entries[j], i+1, entries[i])
			if addr := Canonical(p.Addr); addr == Canonical(earlier.Addr) {
				return nil, fmt.Errorf("%s have the same address %s: remove one of them", both, addr)
			}
			if p.ID == earlier.ID {
				return nil, fmt.Errorf("%s have the same id %d: write the ids of all, each another one (without #id, an entry has its index from 0)", both, p.ID)
			}
		}
		l = append(l, p)
	}
	return l, nil
}

// parseEntry reads one entry. Its errors go on after "entry 1".
func parseEntry(entry string, index uint8) (Peer, error) {
	if entry == "" {
		return Peer{}, errors.New(" is empty: write an address, or remove the comma")
	}
	addr, id, hasID := strings.Cut(entry, "#")
	p := Peer{ID: index, Addr: addr}
	if hasID {
		n, err := strconv.ParseUint(id, 10, 8)
		if err != nil || n > MaxID || id != strconv.FormatUint(n, 10) {
			return Peer{}, fmt.Errorf(", %q, has the id %q: want 0 to %d after the #", entry, id, MaxID)
		}
		p.ID = uint8(n)
	}
	if !protocol.ValidAddr([]byte(addr)) {
		return Peer{}, fmt.Errorf(", %q, is not an address with an optional #id: want host:port or [ipv6]:port, port 1 to 65535", entry)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return Peer{}, fmt.Errorf(", %q: %w", entry, err)
	}
	if port == "0" {
		return Peer{}, fmt.Errorf(", %q, has port 0: write the port that the node listens on", entry)
	}
	if err := checkHost(host); err != nil {
		return Peer{}, fmt.Errorf(", %q, %w", entry, err)
	}
	return p, nil
}

// checkHost refuses what nobody can dial.
func checkHost(host string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Unmap().IsUnspecified() {
			return errors.New("has the unspecified address, which is another one on each machine: write the one by which the other nodes reach this node")
		}
		return nil
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, label := range labels {
		if label == "" {
			return fmt.Errorf("has the host %q, in which something is missing beside a dot", host)
		}
		if strings.ContainsFunc(label, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
		}) {
			return fmt.Errorf("has the host %q: want letters a to z, digits, dots, '-' and '_' (a name with others in its xn-- form)", host)
		}
	}
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" {
		return fmt.Errorf("has the host %q, which looks like an IPv4 address but is none: want four numbers of 0 to 255 without leading zeros", host)
	}
	return nil
}

// Canonical returns addr in the form in which two addresses are compared: the
// host in lower case and without a dot at its end, an IP address in its usual
// form (an IPv4 address within IPv6 as IPv4), the port without leading zeros.
// What has no host and port is returned as it is.
func Canonical(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	if short := strings.TrimLeft(port, "0"); short != "" {
		port = short
	} else if port != "" {
		port = "0"
	}
	return net.JoinHostPort(host, port)
}

// Find returns the index of the entry with this address.
func (l List) Find(addr string) (int, bool) {
	addr = Canonical(addr)
	i := slices.IndexFunc(l, func(p Peer) bool { return Canonical(p.Addr) == addr })
	return i, i >= 0
}

// Index returns the index of the entry with this id. The lower the index, the
// higher the priority.
func (l List) Index(id uint8) (int, bool) {
	i := slices.IndexFunc(l, func(p Peer) bool { return p.ID == id })
	return i, i >= 0
}

// Self returns the index of the entry that is this node, which is known by
// the address advertise. It is an error if none is, or more than one.
//
// With lookup, which returns what is known of the addresses of a host, it is
// also an error if another entry leads to this node, and an error tells of an
// entry that does so under another name. That of a numeric host is not asked.
func (l List) Self(advertise string, lookup func(host string) []netip.Addr) (int, error) {
	host, port, err := net.SplitHostPort(Canonical(advertise))
	if err != nil || host == "" || port == "" {
		return 0, fmt.Errorf("the address of this node (--advertise, or else --listen), %q, is not one that can be in the list of peers: give --advertise host:port as in its entry", advertise)
	}
	ips := addrsOf(host, lookup)

	type match struct {
		index int
		at    string // the address that it shares with this node
	}
	var same []match
	self := -1
	hint := ""
	for i, p := range l {
		if Canonical(p.Addr) == net.JoinHostPort(host, port) {
			if self < 0 {
				self = i
			}
			same = append(same, match{i, Canonical(p.Addr)})
			continue
		}
		otherHost, otherPort, err := net.SplitHostPort(Canonical(p.Addr))
		if err != nil {
			continue
		}
		if otherPort != port {
			if otherHost == host {
				hint = fmt.Sprintf(" (entry %d, %s, has another port)", i+1, p.Addr)
			}
			continue
		}
		for _, ip := range addrsOf(otherHost, lookup) {
			if slices.Contains(ips, ip) {
				same = append(same, match{i, net.JoinHostPort(ip.String(), port)})
				break
			}
		}
	}

	switch {
	case len(same) > 1:
		a, b := same[0], same[1]
		at := b.at
		if a.index != self {
			at = a.at
		}
		return 0, fmt.Errorf("this node is twice in the list of peers, %s: entry %d, %s, and entry %d, %s, both lead to %s: remove one of them from the lists of all nodes, and give --advertise as in the other",
			l, a.index+1, l[a.index].Addr, b.index+1, l[b.index].Addr, at)
	case self >= 0:
		return self, nil
	case len(same) == 1:
		p := l[same[0].index]
		return 0, fmt.Errorf("the address of this node (--advertise, or else --listen), %s, is in no entry of the list of peers, %s, but entry %d leads to it under another name: give --advertise %s",
			advertise, l, same[0].index+1, p.Addr)
	}
	return 0, fmt.Errorf("the address of this node (--advertise, or else --listen), %s, is in no entry of the list of peers, %s%s: give --advertise with the address of this node's entry, or add the entry at the end of the lists of all nodes",
		advertise, l, hint)
}

// addrsOf returns the addresses of a host as far as they are known.
func addrsOf(host string, lookup func(string) []netip.Addr) []netip.Addr {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}
	}
	if lookup == nil {
		return nil
	}
	var ips []netip.Addr
	for _, ip := range lookup(host) {
		ips = append(ips, ip.Unmap())
	}
	return ips
}

// Compatible returns nil if two nodes with these lists can work together:
// addresses in both have equal ids and the same order, and no id has two
// addresses. Otherwise the error tells the first difference that is in the
// way; whether there is one does not depend on whose list is whose.
func Compatible(mine, theirs List) error {
	for _, m := range mine {
		addr := Canonical(m.Addr)
		if i, ok := theirs.Find(addr); ok && theirs[i].ID != m.ID {
			return fmt.Errorf("%s has the id %d in this node's list and %d in the other's: write the same ids in both", addr, m.ID, theirs[i].ID)
		}
		if i, ok := theirs.Index(m.ID); ok && Canonical(theirs[i].Addr) != addr {
			return fmt.Errorf("the id %d is %s in this node's list and %s in the other's: an id never moves to another address", m.ID, addr, Canonical(theirs[i].Addr))
		}
	}
	above, at := "", -1 // the last address in both, and where it is in theirs
	for _, m := range mine {
		i, ok := theirs.Find(m.Addr)
		if !ok {
			continue
		}
		if i < at {
			return fmt.Errorf("%s has a higher priority than %s in this node's list and a lower one in the other's: write both lists in the same order", above, Canonical(m.Addr))
		}
		above, at = Canonical(m.Addr), i
	}
	return nil
}

// Same reports whether the lists mean the same.
func Same(mine, theirs List) bool {
	return mine.String() == theirs.String()
}

// String returns the list with canonical addresses and all ids, as Parse
// reads it.
func (l List) String() string {
	var b strings.Builder
	for i, p := range l {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s#%d", Canonical(p.Addr), p.ID)
	}
	return b.String()
}
