package browser

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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

// What somebody has to look after is said where it is seen first.
func TestProblems(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(10 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	ok(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	ok(t, err)
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		name = filepath.Join(dir, name)
		ok(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return name
	}
	nodes := startNode(t)
	n := nodes.Node(1)
	ok(t, n.Start("--tls-cert="+file("cert.pem", "CERTIFICATE", der), "--tls-key="+file("key.pem", "PRIVATE KEY", secret)))
	p := open(t, newBrowser(t), n.Admin, view(1000, 700))
	p.shows("#active h2", "is active")
	p.shows("#problems", "cert.pem ends at "+c.NotAfter.UTC().Format("2006-01-02"))
	p.picture("problem")
}
