// Package testca makes certificates for tests.
package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is an authority. File is its certificate.
type CA struct {
	t    *testing.T
	dir  string
	File string
	Pool *x509.CertPool
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority whose files go with the test.
func New(t *testing.T, name string) *CA {
	t.Helper()
	ca := &CA{t: t, dir: t.TempDir(), Pool: x509.NewCertPool()}
	ca.key = ca.newKey()
	ca.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca.cert, ca.cert, ca.key.Public(), ca.key)
	ca.must(err)
	ca.Pool.AddCert(ca.parse(der))
	ca.File = filepath.Join(ca.dir, "ca.pem")
	ca.write(ca.File, "CERTIFICATE", der)
	return ca
}

// Issue writes NAME.pem and NAME.key: a certificate for the hosts, which are
// names or addresses.
func (ca *CA) Issue(name string, hosts ...string) (certFile, keyFile string) {
	ca.t.Helper()
	certFile, keyFile = filepath.Join(ca.dir, name+".pem"), filepath.Join(ca.dir, name+".key")
	ca.IssueTo(certFile, keyFile, name, hosts...)
	return certFile, keyFile
}

// IssueTo is Issue with the files named.
func (ca *CA) IssueTo(certFile, keyFile, name string, hosts ...string) {
	ca.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	ca.must(err)
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(900 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	key := ca.newKey()
	der, err := x509.CreateCertificate(rand.Reader, c, ca.cert, key.Public(), ca.key)
	ca.must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	ca.must(err)
	ca.write(certFile, "CERTIFICATE", der)
	ca.write(keyFile, "PRIVATE KEY", keyDER)
}

// Pair issues a certificate and returns it.
func (ca *CA) Pair(name string, hosts ...string) tls.Certificate {
	ca.t.Helper()
	pair, err := tls.LoadX509KeyPair(ca.Issue(name, hosts...))
	ca.must(err)
	return pair
}

func (ca *CA) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ca.must(err)
	return key
}

func (ca *CA) parse(der []byte) *x509.Certificate {
	c, err := x509.ParseCertificate(der)
	ca.must(err)
	return c
}

func (ca *CA) write(file, kind string, der []byte) {
	ca.must(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func (ca *CA) must(err error) {
	ca.t.Helper()
	if err != nil {
		ca.t.Fatal(err)
	}
}
