package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/certs"
)

// readSecrets reads the secrets that are set.
func (c *Config) readSecrets() error {
	for _, s := range c.secrets() {
		set, warning, err := s.read()
		if err != nil {
			return err
		}
		if s.use(c, set); warning != "" {
			c.Warnings = append(c.Warnings, warning)
		}
	}
	return nil
}

// secretSetting is a file with a secret.
type secretSetting struct {
	flag, file string
	most       int // lines
	use        func(c *Config, set [][]byte)
	reloaded   func(r *Reloaded, set [][]byte)
}

func (c *Config) secrets() (set []secretSetting) {
	if c.SecretFile != "" {
		forAdmin := c.AdminSecretFile == ""
		set = append(set, secretSetting{"--secret-file", c.SecretFile, 2,
			func(c *Config, set [][]byte) { c.Secrets = set },
			func(r *Reloaded, set [][]byte) {
				if r.Secrets = set; forAdmin {
					r.AdminSecrets = set
				}
			}})
	}
	if c.AdminSecretFile != "" {
		set = append(set, secretSetting{"--admin-secret-file", c.AdminSecretFile, 2,
			func(c *Config, set [][]byte) { c.AdminSecrets = set },
			func(r *Reloaded, set [][]byte) { r.AdminSecrets = set }})
	}
	if c.ClusterSecretFile != "" {
		// One: nodes prove it, and what proves two would have to say which.
		set = append(set, secretSetting{"--cluster-secret-file", c.ClusterSecretFile, 1,
			func(c *Config, set [][]byte) { c.ClusterSecret = set[0] },
			func(r *Reloaded, set [][]byte) { r.ClusterSecret = set[0] }})
	}
	return set
}

// read returns the lines of the file, at least one.
func (s *secretSetting) read() (set [][]byte, warning string, err error) {
	info, err := os.Stat(s.file)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", s.flag, err)
	}
	if info.Mode().Perm()&0o004 != 0 && info.Mode().Type() == fs.FileMode(0) {
		warning = "every user of this machine can read " + s.file + ": chmod 600 it"
	}
	raw, err := os.ReadFile(s.file)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", s.flag, err)
	}
	set, wrong := secretLines(raw, s.most)
	if wrong != "" {
		want := fmt.Sprintf("want one line of 1 to %d bytes without spaces or control characters", protocol.MaxSecret)
		if s.most > 1 {
			want += ", and below it, while the secret changes, a second one that is accepted too"
		}
		return nil, "", fmt.Errorf("%s %s: %s; %s", s.flag, s.file, wrong, want)
	}
	return set, warning, nil
}

// secretLines returns the lines of a file, or what is wrong with it: without any
// of its text, which may be a secret.
func secretLines(raw []byte, most int) (set [][]byte, wrong string) {
	switch {
	case len(raw) == 0:
		return nil, "it is empty"
	case bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")):
		return nil, "it begins with a byte order mark, which would be part of the secret: save it as UTF-8 without one"
	case bytes.HasPrefix(raw, []byte("\xff\xfe")) && bytes.IndexByte(raw, 0) >= 0, bytes.HasPrefix(raw, []byte("\xfe\xff")) && bytes.IndexByte(raw, 0) >= 0:
		return nil, "it begins with a byte order mark, and is UTF-16: save it as UTF-8 without one"
	}
	set = bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n"))
	for i, line := range set {
		line = bytes.TrimSuffix(line, []byte("\r"))
		set[i] = line
		switch {
		case len(line) == 0:
			return nil, fmt.Sprintf("line %d is empty", i+1)
		case len(line) > protocol.MaxSecret:
			return nil, fmt.Sprintf("line %d has %d bytes", i+1, len(line))
		case !protocol.ValidSecret(line):
			return nil, fmt.Sprintf("line %d has a space or a control character in it", i+1)
		}
	}
	if len(set) > most {
		return nil, fmt.Sprintf("it has %d lines", len(set))
	}
	return set, ""
}

// checkTLS refuses TLS settings that say nothing without others.
func (c *Config) checkTLS() error {
	switch {
	case c.TLSCert != "" && c.TLSKey == "":
		return errors.New("--tls-cert needs --tls-key: the file with its private key")
	case c.TLSKey != "" && c.TLSCert == "":
		return errors.New("--tls-key needs --tls-cert: the file with its certificate")
	case c.TLSClientCA != "" && c.TLSCert == "":
		return errors.New("--tls-client-ca needs --tls-cert and --tls-key: without them no TLS is spoken, and nobody can show a certificate")
	case c.TLSCA != "" && c.TLSCert == "":
		return errors.New("--tls-ca needs --tls-cert and --tls-key: the nodes of a cluster speak TLS to each other if each has a certificate")
	}
	return nil
}

// openTLS reads the TLS files. Self and PeerList are set.
func (c *Config) openTLS() (err error) {
	if c.TLSCert == "" {
		return nil
	}
	files := certs.Files{Cert: c.TLSCert, Key: c.TLSKey, ClientCA: c.TLSClientCA, CA: c.TLSCA}
	if len(c.PeerList) > 1 {
		if files.Host, _, err = net.SplitHostPort(c.PeerList[c.Self].Addr); err != nil {
			return err
		}
	} else {
		files.ClientHost = c.clientHost()
	}
	if c.TLS, err = certs.Open(files); err != nil {
		return err
	}
	c.Warnings = append(c.Warnings, c.TLS.Warnings()...)
	return nil
}

// clientHost is the host that clients know a lone node by, empty where the
// settings do not tell.
func (c *Config) clientHost() string {
	host, _, err := net.SplitHostPort(cmp.Or(c.Advertise, c.Listen))
	if err != nil {
		return ""
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return ""
	}
	return host
}

// Reloaded is what Reload has read.
type Reloaded struct {
	What          string   // flag or flags
	Secrets       [][]byte // of --secret-file
	AdminSecrets  [][]byte // of --admin-secret-file, or of --secret-file without that
	ClusterSecret []byte   // of --cluster-secret-file
	Certificate   bool     // there is a new one
	Warnings      []string // for the log
	Err           error    // it could not be used, and what was there stays in force
}

// Reload reads the files anew that hold secrets and certificates. New
// certificates are in force at once; new secrets are the caller's to pass on.
func (c *Config) Reload() (all []Reloaded) {
	for _, s := range c.secrets() {
		set, warning, err := s.read()
		r := Reloaded{What: s.flag, Err: err}
		if err == nil {
			s.reloaded(&r, set)
		}
		if warning != "" {
			r.Warnings = []string{warning}
		}
		all = append(all, r)
	}
	if c.TLS != nil {
		r := Reloaded{What: "--tls-cert and what goes with it", Err: c.TLS.Reload()}
		if r.Err == nil {
			r.Certificate, r.Warnings = true, c.TLS.Warnings()
		}
		all = append(all, r)
	}
	return all
}
