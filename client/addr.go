package client

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/stile-lock/stile/protocol"
)

// address is one server's address, parsed.
type address struct {
	text string // as it was given, for dialling and for messages
	host string // without brackets: what TLS verifies
	port string
	ip   netip.Addr // invalid if host is a name
}

func parseAddress(text string) (address, error) {
	if !protocol.ValidAddr([]byte(text)) {
		return address{}, fmt.Errorf("%w: address %q: it must be host:port or [v6]:port, like 10.0.0.1:5625", ErrInvalid, text)
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return address{}, fmt.Errorf("%w: address %q: %v", ErrInvalid, text, err)
	}
	a := address{text: text, host: host, port: port}
	if ip, err := netip.ParseAddr(host); err == nil {
		a.ip = ip.Unmap()
	}
	if port == "0" {
		return address{}, fmt.Errorf("%w: address %q: port 0 cannot be dialled", ErrInvalid, text)
	}
	return a, nil
}

// parseAddresses reads the comma-separated list that Dial is given. The same
// address twice counts once.
func parseAddresses(list string) ([]address, error) {
	var all []address
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		a, err := parseAddress(text)
		if err != nil {
			return nil, err
		}
		seen := false
		for _, b := range all {
			seen = seen || a.same(b)
		}
		if !seen {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: no address was given: it must be one or more host:port, separated by commas", ErrInvalid)
	}
	return all, nil
}

// same reports whether both name the same server as far as their spelling
// tells: nothing is looked up.
func (a address) same(b address) bool {
	if a.port != b.port {
		return false
	}
	if a.ip.IsValid() || b.ip.IsValid() {
		return a.ip == b.ip
	}
	return strings.EqualFold(strings.TrimSuffix(a.host, "."), strings.TrimSuffix(b.host, "."))
}

func (a address) unspecified() bool { return a.ip.IsValid() && a.ip.IsUnspecified() }

func (a address) loopback() bool {
	if a.ip.IsValid() {
		return a.ip.IsLoopback()
	}
	host := strings.ToLower(strings.TrimSuffix(a.host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// peerAddress is the other end of a connection, if it has an address that
// can be compared.
func peerAddress(nc net.Conn) (address, bool) {
	remote := nc.RemoteAddr()
	if remote == nil {
		return address{}, false
	}
	a, err := parseAddress(remote.String())
	return a, err == nil
}
