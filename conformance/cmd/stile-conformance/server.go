package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stile-lock/stile/conformance/cluster/rig"
	"github.com/stile-lock/stile/conformance/steps/cluster"
	"github.com/stile-lock/stile/conformance/steps/server"
)

type serverCommand struct {
	Addr   string `xor:"target" required:"" placeholder:"HOST:PORT" help:"The server's address. It may be in use: the suite takes only keys below conformance/, with leases of 5 s at most, and gives everything back. Judges the half server."`
	Launch string `xor:"target" required:"" placeholder:"TEMPLATE" help:"The command that starts a node, in place of --addr: the suite runs clusters of three such nodes, and stops, pauses, kills and cuts them. Judges the half cluster, which has a certificate of its own; --addr judges what one node answers. The placeholders are below."`

	FailoverWithin time.Duration `default:"${failover}" help:"With --launch: how long nobody may serve after the active has failed (${default})."`
	StartWithin    time.Duration `default:"${start}" help:"With --launch: how long a cluster may take from its start until it serves (${default})."`
	NodeLogs       string        `placeholder:"DIR" help:"With --launch: keep what the nodes write to stderr, in a file for each scenario."`

	SecretFile string         `type:"existingfile" placeholder:"FILE" help:"File with the secret that the server asks for."`
	TLS        bool           `name:"tls" help:"Speak TLS."`
	TLSCA      string         `name:"tls-ca" type:"existingfile" placeholder:"FILE" help:"Certificates (PEM) of the authorities to trust; implies --tls. Default: the system's."`
	TLSName    string         `name:"tls-name" placeholder:"HOST" help:"Name that the server's certificate must have; implies --tls. Default: that of --addr."`
	TLSCert    string         `name:"tls-cert" type:"existingfile" placeholder:"FILE" help:"Certificate (PEM) to show to the server; implies --tls."`
	TLSKey     string         `name:"tls-key" type:"existingfile" placeholder:"FILE" help:"The private key (PEM) of --tls-cert."`
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

// Help is printed below the flags.
func (*serverCommand) Help() string {
	var b strings.Builder
	b.WriteString("With --launch, the template is the command line of a node. It is run without a shell; quotes and backslashes part its words as in one. " +
		"A wrapper has to exec the node or to pass SIGTERM on; SIGKILL, SIGSTOP and SIGCONT go to all that the command has started. " +
		"Variables of the environment that begin with STILE_ are not handed on. These words in braces are replaced:\n\n")
	for _, p := range cluster.Placeholders {
		fmt.Fprintf(&b, "{%s}: %s.\n\n", p.Name, p.Meaning)
	}
	b.WriteString("An example: " + example + "\n\n" +
		"A node should dial the others from the loopback address it listens on: the relays between the nodes know by it who calls, and can cut one pair or one direction. " +
		"Where it does not, scenarios about partitions are not judged. The lock table may be given to the standbys after a node serves, but within half a second.")
	return b.String()
}

const example = "stiled --listen {listen} --advertise {advertise} --peers {peers} --state-dir {state_dir} --admin="

func (c *serverCommand) Run(ctx context.Context) error {
	o := server.Options{Addr: c.Addr, Limits: c.Limits}
	for name, n := range c.Limits {
		if server.LimitNames[name] == "" {
			return fmt.Errorf("--limits: there is no %q; there are %s", name, limitsHelp())
		}
		if n < 1 {
			return fmt.Errorf("--limits %s=%d: give 1 or more", name, n)
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
	if c.Launch != "" {
		return c.launch(ctx, o.Secret)
	}
	var err error
	if o.TLS, err = c.tls(); err != nil {
		return err
	}
	return c.common.run(ctx, server.Half(o))
}

func (c *serverCommand) wantsTLS() bool {
	return c.TLS || c.TLSCA != "" || c.TLSName != "" || c.TLSCert != "" || c.TLSKey != ""
}

// tls is what to speak to the server with; nil: no TLS.
func (c *serverCommand) tls() (*tls.Config, error) {
	if !c.wantsTLS() {
		return nil, nil
	}
	cfg := &tls.Config{ServerName: c.TLSName, MinVersion: tls.VersionTLS12}
	if c.TLSCA != "" {
		pem, err := os.ReadFile(c.TLSCA)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-ca: %s has no certificate", c.TLSCA)
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return nil, errors.New("--tls-cert and --tls-key go together: the certificate and its private key")
	}
	if c.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.TLSCert, c.TLSKey, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

func (c *serverCommand) launch(ctx context.Context, secret string) error {
	if c.wantsTLS() || len(c.Limits) > 0 {
		return errors.New("--tls… and --limits are about one live server: they go with --addr, not with --launch")
	}
	if err := rig.Supported(); err != nil {
		return fmt.Errorf("--launch: %w", err)
	}
	template, err := cluster.ParseTemplate(c.Launch)
	if err != nil {
		return fmt.Errorf("--launch: %w", err)
	}
	return c.common.run(ctx, cluster.Half(cluster.Options{
		Launch: template, Secret: secret, FailoverWithin: c.FailoverWithin, StartWithin: c.StartWithin, Logs: c.NodeLogs,
	}))
}
