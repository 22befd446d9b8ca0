package cli

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"runtime"
	"strings"

	"github.com/stile-lock/stile/protocol"
)

// secret reads a secret of one line from a file; "" for no file.
func (a *app) secret(flag, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	a.warnIfReadable(flag, name)
	raw, err := os.ReadFile(name)
	if err != nil {
		return "", failed(ExitFailure, "%s: %w", flag, err)
	}
	secret := strings.TrimRight(string(raw), "\r\n")
	if !protocol.ValidSecret([]byte(secret)) {
		return "", failed(ExitFailure, "%s %s: want one line of 1 to %d bytes without spaces or control characters", flag, name, protocol.MaxSecret)
	}
	return secret, nil
}

// warnIfReadable warns of a file with a secret that everybody can read.
func (a *app) warnIfReadable(flag, name string) {
	info, err := os.Stat(name)
	if err == nil && runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
		a.warn("warning: every user of this machine can read %s (%s): chmod 600 it", name, flag)
	}
}

// tls returns the settings for TLS, nil for none.
func (a *app) tls() (*tls.Config, error) {
	if !a.TLS && a.TLSCA == "" && a.TLSCert == "" && a.TLSKey == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.TLSCA != "" {
		pem, err := os.ReadFile(a.TLSCA)
		if err != nil {
			return nil, failed(ExitFailure, "--tls-ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, failed(ExitFailure, "--tls-ca %s: no certificate is in it: want PEM, with BEGIN CERTIFICATE", a.TLSCA)
		}
	}
	if (a.TLSCert == "") != (a.TLSKey == "") {
		return nil, failed(ExitFailure, "--tls-cert and --tls-key go together: give both, or neither")
	}
	if a.TLSCert != "" {
		a.warnIfReadable("--tls-key", a.TLSKey)
		pair, err := tls.LoadX509KeyPair(a.TLSCert, a.TLSKey)
		if err != nil {
			return nil, failed(ExitFailure, "--tls-cert %s, --tls-key %s: %w", a.TLSCert, a.TLSKey, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
