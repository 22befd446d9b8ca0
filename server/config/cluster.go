package config

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stile-lock/stile/server/peers"
)

// lookupTime is what a start spends at most on looking up the peers' names.
const lookupTime = 2 * time.Second

// lookupIP is another one in tests.
var lookupIP = net.DefaultResolver.LookupNetIP

// checkCluster refuses settings by which this node would be no member of its
// cluster, or a wrong one. The settings have been checked one by one.
func (c *Config) checkCluster(listen string) error {
	c.Self = -1
	list, err := peers.Parse(strings.Join(c.Peers, ","))
	if err != nil {
		return fmt.Errorf("--peers: %w", err)
	}
	c.PeerList = list
	if c.MinInSync > 0 {
		if len(list) == 0 {
			return fmt.Errorf("--min-in-sync %d needs --peers: one node alone has no standby, and would never serve", c.MinInSync)
		}
		if c.MinInSync >= len(list) {
			return fmt.Errorf("--min-in-sync %d is out of range: want 0 to %d, less than the number of --peers", c.MinInSync, len(list)-1)
		}
		if c.Replication != "sync" {
			return fmt.Errorf("--min-in-sync %d needs --replication sync", c.MinInSync)
		}
	}
	if len(list) == 0 {
		return c.checkAlone()
	}
	if c.Replication == "sync" && len(list) < 2 {
		c.Warnings = append(c.Warnings, "--replication sync changes nothing without other nodes in --peers: there is no standby")
	}
	if c.Self, err = c.self(listen); err != nil {
		return err
	}
	if !loopback(listen) && len(c.ClusterSecret) == 0 && c.TLSClientCA == "" {
		if !c.Insecure {
			return fmt.Errorf("--listen %s is reachable from other machines, and the nodes of --peers would show each other neither a secret nor a certificate: give --cluster-secret-file or --tls-client-ca, or --insecure if the network is closed", c.Listen)
		}
		c.Warnings = append(c.Warnings, "INSECURE: "+c.Listen+" is reachable from other machines, and whoever reaches it can join the cluster: there is no --cluster-secret-file and no --tls-client-ca")
	}
	return nil
}

// checkAlone refuses settings of a node without peers that tell of others: the
// list was forgotten or lost, and this node would serve beside theirs. Of those
// that only say when something happens in a cluster it warns.
func (c *Config) checkAlone() error {
	for _, s := range []struct {
		set        bool
		name, gone string // the setting, and how to be without it
	}{
		{c.ClusterSecretFile != "", "--cluster-secret-file " + c.ClusterSecretFile, "remove --cluster-secret-file"},
		{c.TLSCA != "", "--tls-ca " + c.TLSCA, "remove --tls-ca"},
		{c.Replication == "sync", "--replication sync", "remove --replication sync"},
	} {
		if s.set {
			return fmt.Errorf("%s is for a node of a cluster, and there are no --peers: without them this node would serve alone, beside an active that the others have; give it the list of --peers, or %s if it is to be alone", s.name, s.gone)
		}
	}
	var idle []string
	for _, s := range []struct {
		set  bool
		name string
	}{
		{c.SyncTimeout != syncTimeout, "--sync-timeout"}, {c.Takeback != takebackAuto, "--takeback"}, {c.Heartbeat != heartbeat, "--heartbeat"},
		{c.FailureTimeout != failureTimeout, "--failure-timeout"}, {c.BootGrace != bootGrace, "--boot-grace"},
	} {
		if s.set {
			idle = append(idle, s.name)
		}
	}
	if len(idle) > 0 {
		c.Warnings = append(c.Warnings, strings.Join(idle, ", ")+": of no effect without --peers; this node is alone, and is active whatever other nodes there are")
	}
	return nil
}

// What settings are that nobody has set; Config has it as text.
const (
	syncTimeout    = time.Second
	heartbeat      = 200 * time.Millisecond
	failureTimeout = time.Second
	bootGrace      = time.Second
)

// self finds this node in the list of peers.
func (c *Config) self(listen string) (int, error) {
	_, service, _ := net.SplitHostPort(c.Listen) // address has checked it
	port, err := net.LookupPort("tcp", service)
	if err != nil {
		return 0, fmt.Errorf("--listen %s: %w", c.Listen, err)
	}
	ip, err := netip.ParseAddr(listen)
	everywhere := listen == "" || err == nil && ip.Unmap().IsUnspecified()
	listens := net.JoinHostPort(listen, strconv.Itoa(port))
	advertise := c.Advertise
	if advertise == "" {
		switch {
		case everywhere:
			return 0, fmt.Errorf("--listen %s does not tell which of --peers this node is: give --advertise with the address of its entry", c.Listen)
		case port == 0:
			return 0, fmt.Errorf("--listen %s takes a free port, which can't be in --peers: give a port, or --advertise with the address of this node's entry", c.Listen)
		}
		advertise = listens
	}

	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	// What can't be looked up now is compared as text only: the names of
	// nodes that are down may be unknown.
	lookup := func(host string) []netip.Addr {
		ips, err := lookupIP(ctx, "ip", host)
		if err != nil {
			return nil
		}
		return ips
	}
	self, err := c.PeerList.Self(advertise, lookup)
	if err != nil {
		return 0, fmt.Errorf("--peers: %w", err)
	}
	if other, ok := c.PeerList.Find(listens); ok && other != self {
		return 0, fmt.Errorf("--peers: this node is twice in the list of peers, %s: entry %d is its --advertise %s, and entry %d its --listen %s; remove one of them from the lists of all nodes",
			c.PeerList, self+1, c.Advertise, other+1, c.Listen)
	}
	if loopback(listen) && len(c.PeerList) > 1 {
		host, _, _ := net.SplitHostPort(advertise)
		ips, _ := lookupIP(ctx, "ip", host)
		if slices.ContainsFunc(ips, func(ip netip.Addr) bool { return !ip.Unmap().IsLoopback() }) {
			c.Warnings = append(c.Warnings, "--listen "+c.Listen+" is reachable from this machine only, but its peers look for it at "+advertise+": unless something forwards to it, give --listen an address that they reach")
		}
	}
	return self, nil
}

// readTakeback is a kong.MapperFunc.
func readTakeback(ctx *kong.DecodeContext, target reflect.Value) error {
	var s string
	if err := ctx.Scan.PopValueInto("auto, manual or duration", &s); err != nil {
		return err
	}
	d, err := time.ParseDuration(s)
	switch {
	case s == "auto":
		d = takebackAuto
	case s == "manual":
		d = TakebackManual
	case err != nil || d < 0:
		return fmt.Errorf("expected auto, manual or a duration like 30s but got %q: %s", s, durationLike(s))
	}
	target.SetInt(int64(d))
	return nil
}
