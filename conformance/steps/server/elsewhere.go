package server

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stile-lock/stile/conformance/lines"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/protocol"
)

// moved asks over a connection for a key of the suite's own, and returns the
// address if the answer is a redirect. A grant is given back.
func moved(nc net.Conn, in *bufio.Reader) (addr string, ok bool) {
	a, err := acquire(nc, in)
	return string(a.Addr), err == nil && a.Op == protocol.OpMoved
}

func acquire(nc net.Conn, in *bufio.Reader) (a protocol.Answer, err error) {
	key := "conformance/" + rand.Text() + "/active"
	if a, err = exchange(nc, in, "A "+key+" -1 5"); err == nil && a.Op == protocol.OpAcquire {
		_, err = exchange(nc, in, fmt.Sprintf("R %s %d", key, a.Token))
	}
	return a, err
}

// exchange sends a line and reads the answer to it.
func exchange(nc net.Conn, in *bufio.Reader, line string) (a protocol.Answer, err error) {
	nc.SetDeadline(time.Now().Add(suite.ServerAnswer))
	if _, err := fmt.Fprintf(nc, "%s\n", line); err != nil {
		return a, err
	}
	text, err := in.ReadString('\n')
	if err != nil {
		return a, err
	}
	if err := protocol.ParseAnswer([]byte(strings.TrimSuffix(text, "\n")), &a); err != nil {
		return a, err
	}
	if string(a.For) != line[:1] {
		return a, fmt.Errorf("%q is no answer to %q", text, line)
	}
	return a, nil
}

// elsewhere looks at the address that a server redirects to. If another server
// serves there, this one does what a standby must, and its 150 redirects would
// say nothing about it: the error sends the user to the active. Any other
// redirect is judged, for nobody may get out of a verdict by redirecting; the
// note says then why it was.
func (t *target) elsewhere(ctx context.Context, addr string, peer net.Addr) (note string, err error) {
	why := t.other(ctx, addr, peer)
	if why == "" {
		// One that redirects now and then is wrong, and not a standby.
		nc, in, err := t.connect(ctx, t.Addr, true)
		if err == nil {
			again, ok := moved(nc, in)
			nc.Close()
			if ok && again == addr {
				return "", fmt.Errorf("this node is not active: it sends to %s; certify that one: --addr %[1]s", addr)
			}
		}
		why = "and not always"
	}
	return fmt.Sprintf("the server redirects to %s, %s: so it is judged as it is", addr, why), nil
}

// other says why the address is not that of another server that serves; "" if
// it is.
func (t *target) other(ctx context.Context, addr string, peer net.Addr) (why string) {
	there, err := addresses(ctx, addr)
	if err != nil {
		return "which is no address here: " + err.Error()
	}
	here, _ := netip.ParseAddrPort(peer.String())
	here = netip.AddrPortFrom(here.Addr().Unmap(), here.Port())
	for _, a := range there {
		switch {
		case a == here:
			return "which is itself"
		case a.Port() == 0 || a.Addr().IsUnspecified() || a.Addr().IsLoopback() && !here.Addr().IsLoopback():
			return "which no client follows (SPEC.md 13.9)"
		}
	}
	// Without TLS a secret goes only to addresses that the user gave (13.9).
	withSecret := t.TLS != nil
	nc, in, err := t.connect(ctx, addr, withSecret)
	if err != nil {
		return "which does not answer: " + err.Error()
	}
	defer nc.Close()
	a, err := acquire(nc, in)
	switch {
	case err != nil:
		return "which does not answer: " + err.Error()
	case a.Op == protocol.OpAcquire || a.Op == protocol.OpTimeout:
		return ""
	case t.Secret != "" && !withSecret && a.Op == protocol.OpError && a.Code == protocol.CodeUnauthorized:
		return "" // it is there, and asks for the secret, too: more can't be known
	}
	return "which does not serve"
}

// connect opens a connection, and says hello if there is a secret to give.
func (t *target) connect(ctx context.Context, addr string, withSecret bool) (net.Conn, *bufio.Reader, error) {
	nc, err := t.dialTo(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	in := bufio.NewReader(lines.Bounded(nc, 4*protocol.MaxLine))
	if hello := t.hello(); hello != "" && withSecret {
		if a, err := exchange(nc, in, hello); err != nil || a.Op != protocol.OpHello {
			nc.Close()
			return nil, nil, fmt.Errorf("the hello was not accepted: %v", err)
		}
	}
	return nc, in, nil
}

// addresses are those that a host and port stand for.
func addresses(ctx context.Context, addr string) (list []netip.AddrPort, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, suite.ServerAnswer)
	defer cancel()
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for _, ip := range ips {
		list = append(list, netip.AddrPortFrom(ip.Unmap(), uint16(n)))
	}
	return slices.Compact(list), err
}
