// Package certs is a node's TLS: its certificate and the authorities it
// trusts, from PEM files that can be read anew while the node runs.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Files are where certificates come from. Cert and Key are required.
type Files struct {
	Cert, Key string // of this node, as a server and to its peers

	// ClientCA has the authorities whose certificates clients and peers must
	// show. Empty: none is asked for.
	ClientCA string

	// CA has the authorities by which this node knows its peers when it dials
	// them. Empty: those of ClientCA; without these, the system's.
	CA string

	// Host is what the peers dial this node as; empty for a node alone. The
	// certificate has to be for it.
	Host string

	// ClientHost is what clients may dial this node as; empty: who knows. A
	// certificate for another host is warned of, as it may be meant for a name that
	// leads here.
	ClientHost string
}

// Certs is what is in the files. Its methods may be called concurrently, but
// for Reload.
type Certs struct {
	files    Files
	now      atomic.Pointer[loaded]
	reloaded chan struct{} // has one when Watch has to look
}

// loaded is one reading of the files. It never changes.
type loaded struct {
	leaf                *x509.Certificate
	server, admin, dial *tls.Config
	warnings            []string
	ends                []End
}

// Open reads the files, and refuses what clients or peers would refuse later.
func Open(f Files) (*Certs, error) {
	c := &Certs{files: f, reloaded: make(chan struct{}, 1)}
	if err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Reload reads the files anew: new connections use what they hold now. If
// anything is wrong with one of them, all stays as it was.
func (c *Certs) Reload() error {
	l, err := c.files.load(time.Now())
	if err != nil {
		return err
	}
	c.now.Store(l)
	select {
	case c.reloaded <- struct{}{}:
	default:
	}
	return nil
}

// Server is for connections that are accepted. It always stands for the latest
// files.
func (c *Certs) Server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.now.Load().server, nil },
	}
}

// Admin is for the connections of operators, of whom no certificate is asked:
// browsers, probes and scrapers have a secret. It always stands for the latest
// files.
func (c *Certs) Admin() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.now.Load().admin, nil },
	}
}

// Dial is for a connection to a peer's host, with the files of this moment.
func (c *Certs) Dial(host string) *tls.Config {
	t := c.now.Load().dial.Clone()
	t.ServerName = host
	return t
}

// Mutual reports whether clients and peers must show a certificate.
func (c *Certs) Mutual() bool { return c.files.ClientCA != "" }

// Leaf is this node's own certificate.
func (c *Certs) Leaf() *x509.Certificate { return c.now.Load().leaf }

// Warnings are about the latest files, for the log.
func (c *Certs) Warnings() []string { return c.now.Load().warnings }

func (f *Files) load(now time.Time) (*loaded, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", f.Cert, f.Key, err)
	}
	l := &loaded{leaf: cert.Leaf, ends: []End{{Which: Node, Flag: "--tls-cert", File: f.Cert, At: cert.Leaf.NotAfter, Shut: cert.Leaf.NotAfter}}}
	if now.After(cert.Leaf.NotAfter) || now.Before(cert.Leaf.NotBefore) {
		return nil, fmt.Errorf("--tls-cert %s is valid from %s to %s, and now it is %s: get a new one, or set the clock", f.Cert,
			cert.Leaf.NotBefore.Format(time.RFC3339), cert.Leaf.NotAfter.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	if info, err := os.Stat(f.Key); err == nil && info.Mode().Perm()&0o004 != 0 && info.Mode().Type() == fs.FileMode(0) {
		l.warnings = append(l.warnings, "every user of this machine can read "+f.Key+": chmod 600 it")
	}
	if w := f.doubts(cert.Leaf); w != "" {
		l.warnings = append(l.warnings, w)
	}
	var clients, ca *x509.CertPool
	if f.ClientCA != "" {
		var all []*x509.Certificate
		if clients, all, err = readPool(clientCA, f.ClientCA); err != nil {
			return nil, err
		}
		ca, l.ends = clients, firstEnd(l.ends, clientCA, f.ClientCA, all, now)
	}
	if f.CA != "" {
		var all []*x509.Certificate
		if ca, all, err = readPool("--tls-ca", f.CA); err != nil {
			return nil, err
		}
		l.ends = firstEnd(l.ends, "--tls-ca", f.CA, all, now)
	}
	if f.Host != "" {
		if err := f.checkPeers(&cert, clients, ca); err != nil {
			return nil, err
		}
	}

	l.server = &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{cert},
		// Connections last: a resumption would save little, and would outlive
		// a change of the authorities.
		SessionTicketsDisabled: true,
		// One write, one record: what the kernel took of an answer is known.
		DynamicRecordSizingDisabled: true,
	}
	l.admin = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	if clients != nil {
		l.server.ClientAuth, l.server.ClientCAs = tls.RequireAndVerifyClientCert, clients
	}
	l.dial = &tls.Config{
		MinVersion:                  tls.VersionTLS12,
		RootCAs:                     ca,
		DynamicRecordSizingDisabled: true,
		// Also to a peer that names other authorities: it says then what is
		// wrong.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil },
	}
	return l, nil
}

// doubts says why clients will refuse the certificate, or most of them.
func (f *Files) doubts(leaf *x509.Certificate) string {
	names := len(leaf.DNSNames) + len(leaf.IPAddresses)
	serves := len(leaf.ExtKeyUsage) == 0 && len(leaf.UnknownExtKeyUsage) == 0 ||
		slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) || slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny)
	switch {
	case names == 0:
		return fmt.Sprintf("--tls-cert %s is for no host: clients refuse a certificate without subject alternative names, whatever its common name says", f.Cert)
	case !serves:
		return fmt.Sprintf("--tls-cert %s is not good for servers: clients refuse it; its extended key usage needs serverAuth, or should be left out", f.Cert)
	case f.ClientHost != "" && leaf.VerifyHostname(f.ClientHost) != nil:
		return fmt.Sprintf("--tls-cert %s is not for %s, and clients that dial this node so refuse it: it is for %s", f.Cert, f.ClientHost, hosts(leaf))
	}
	return ""
}

// hosts names what a certificate is for.
func hosts(leaf *x509.Certificate) string {
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return strings.Join(names, ", ")
}

// checkPeers verifies this node's certificate as its peers will: they have
// the same authorities. What is wrong would otherwise show at a failover.
func (f *Files) checkPeers(cert *tls.Certificate, clientCA, ca *x509.CertPool) error {
	opts := x509.VerifyOptions{Roots: ca, Intermediates: x509.NewCertPool()}
	for _, der := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			opts.Intermediates.AddCert(c)
		}
	}
	if err := cert.Leaf.VerifyHostname(f.Host); err != nil {
		return fmt.Errorf("--tls-cert %s: the peers dial this node as %s, and would refuse its certificate: %w; it needs that among its subject alternative names", f.Cert, f.Host, err)
	}
	opts.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if _, err := cert.Leaf.Verify(opts); err != nil {
		return fmt.Errorf("--tls-cert %s: the peers would refuse this node's certificate as a server's: %w; its authority has to be in --tls-ca, or in --tls-client-ca if there is no other", f.Cert, err)
	}
	if clientCA == nil {
		return nil
	}
	opts.Roots, opts.KeyUsages = clientCA, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := cert.Leaf.Verify(opts); err != nil {
		return fmt.Errorf("--tls-cert %s: the peers would refuse this node's certificate when it dials them: %w; it has to be good for servers and clients, and its authority has to be in --tls-client-ca", f.Cert, err)
	}
	return nil
}

// readPool reads all of a file: a certificate that can't be read would be
// missed only by those whom it vouches for.
func readPool(flag, name string) (pool *x509.CertPool, all []*x509.Certificate, err error) {
	rest, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", flag, err)
	}
	pool = x509.NewCertPool()
	for count := 1; ; count++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if count == 1 {
				return nil, nil, fmt.Errorf("%s %s has no certificate: want PEM, blocks that begin with -----BEGIN CERTIFICATE-----", flag, name)
			}
			if strings.Contains(string(rest), "-----BEGIN") {
				return nil, nil, fmt.Errorf("%s %s: block %d is broken", flag, name, count)
			}
			return pool, all, nil
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" {
			err = errors.New("it is a " + block.Type)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s %s: block %d is no certificate: %w", flag, name, count, err)
		}
		pool.AddCert(cert)
		all = append(all, cert)
	}
}
