package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/stile-lock/stile/conformance/steps/server"
)

type serverCommand struct {
	Addr       string         `required:"" placeholder:"HOST:PORT" help:"The server's address. It may be in use: the suite takes only keys below conformance/, with leases of 5 s at most, and gives everything back."`
	SecretFile string         `type:"existingfile" placeholder:"FILE" help:"File with the secret that the server asks for."`
	TLS        bool           `name:"tls" help:"Speak TLS."`
	TLSCA      string         `name:"tls-ca" type:"existingfile" placeholder:"FILE" help:"Certificates (PEM) of the authorities to trust; implies --tls. Default: the system's."`
	TLSName    string         `name:"tls-name" placeholder:"HOST" help:"Name that the server's certificate must have; implies --tls. Default: that of --addr."`
	Limits     map[string]int `mapsep:"," placeholder:"NAME=N,…" help:"Limits of the server to try out, which disturbs others who use it: ${limits}."`
	common     `embed:""`
}

func limitsHelp() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(server.LimitNames)) {
		list = append(list, name+" ("+server.LimitNames[name]+")")
	}
	return strings.Join(list, ", ")
}

func (c *serverCommand) Run(ctx context.Context) error {
	o := server.Options{Addr: c.Addr, Limits: c.Limits}
	for name := range c.Limits {
		if server.LimitNames[name] == "" {
			return fmt.Errorf("--limits: there is no %q; there are %s", name, limitsHelp())
		}
	}
	if c.SecretFile != "" {
		text, err := os.ReadFile(c.SecretFile)
		if err != nil {
			return err
		}
		if o.Secret = strings.TrimSpace(string(text)); o.Secret == "" {
			return fmt.Errorf("--secret-file: %s is empty", c.SecretFile)
		}
	}
	if c.TLS || c.TLSCA != "" || c.TLSName != "" {
		o.TLS = &tls.Config{ServerName: c.TLSName, MinVersion: tls.VersionTLS12}
		if c.TLSCA != "" {
			pem, err := os.ReadFile(c.TLSCA)
			if err != nil {
				return err
			}
			o.TLS.RootCAs = x509.NewCertPool()
			if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
				return fmt.Errorf("--tls-ca: %s has no certificate", c.TLSCA)
			}
		}
	}
	return c.common.run(ctx, server.Half(o))
}
