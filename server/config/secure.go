package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/certs"
)

// readSecrets reads the secrets that are set.
func (c *Config) readSecrets() error {
	for _, s := range c.secrets() {
		secret, warning, err := readSecret(s.flag, s.file)
		if err != nil {
			return err
		}
		if *s.value = secret; warning != "" {
			c.Warnings = append(c.Warnings, warning)
		}
	}
	return nil
}

type secretSetting struct {
	flag, file string
	value      *[]byte
}

func (c *Config) secrets() (set []secretSetting) {
	if c.SecretFile != "" {
		set = append(set, secretSetting{"--secret-file", c.SecretFile, &c.Secret})
	}
	if c.AdminSecretFile != "" {
		set = append(set, secretSetting{"--admin-secret-file", c.AdminSecretFile, &c.AdminSecret})
	}
	if c.ClusterSecretFile != "" {
		set = append(set, secretSetting{"--cluster-secret-file", c.ClusterSecretFile, &c.ClusterSecret})
	}
	return set
}

func readSecret(flag, name string) (secret []byte, warning string, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", flag, err)
	}
	if info.Mode().Perm()&0o004 != 0 && info.Mode().Type() == fs.FileMode(0) {
		warning = "every user of this machine can read " + name + ": chmod 600 it"
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", flag, err)
	}
	secret = []byte(strings.TrimRight(string(raw), "\r\n"))
	if !protocol.ValidSecret(secret) {
		return nil, "", fmt.Errorf("%s %s: want one line of 1 to %d bytes without spaces or control characters", flag, name, protocol.MaxSecret)
	}
	return secret, warning, nil
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
	case c.TLSCA != "" && len(c.Peers) == 0:
		c.Warnings = append(c.Warnings, "--tls-ca changes nothing without --peers: this node is alone, and dials nobody")
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
	}
	if c.TLS, err = certs.Open(files); err != nil {
		return err
	}
	c.Warnings = append(c.Warnings, c.TLS.Warnings()...)
	return nil
}

// Reloaded is what Reload has read.
type Reloaded struct {
	What          string   // flag or flags
	Secret        []byte   // of --secret-file
	AdminSecret   []byte   // of --admin-secret-file, or of --secret-file without that
	ClusterSecret []byte   // of --cluster-secret-file
	Certificate   bool     // there is a new one
	Warnings      []string // for the log
	Err           error    // it could not be used, and what was there stays in force
}

// Reload reads the files anew that hold secrets and certificates. New
// certificates are in force at once; new secrets are the caller's to pass on.
func (c *Config) Reload() (all []Reloaded) {
	for _, s := range c.secrets() {
		secret, warning, err := readSecret(s.flag, s.file)
		r := Reloaded{What: s.flag, Err: err}
		if warning != "" {
			r.Warnings = []string{warning}
		}
		switch s.value {
		case &c.Secret:
			r.Secret = secret
			if c.AdminSecretFile == "" {
				r.AdminSecret = secret
			}
		case &c.AdminSecret:
			r.AdminSecret = secret
		case &c.ClusterSecret:
			r.ClusterSecret = secret
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
