// Package config is what a user can set of a node: by flags, by STILE_…
// environment variables, and by a YAML file. A flag beats the environment,
// which beats the file. Whatever is not understood is an error that names the
// setting; nothing is ignored.
package config

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/buildinfo"
	"github.com/stile-lock/stile/server/certs"
	"github.com/stile-lock/stile/server/peers"
)

// Config is a node's settings, valid as Parse returns them.
type Config struct {
	Config kong.ConfigFlag `placeholder:"FILE" help:"Read settings from this YAML file: flag names without the dashes, one to a line."`

	Listen    string `default:"127.0.0.1:5625" placeholder:"HOST:PORT" help:"Address that clients connect to (${default}). Port 0 takes a free one."`
	Advertise string `placeholder:"HOST:PORT" help:"Address by which clients know this node, where it is not the one it listens on."`
	Admin     string `default:"127.0.0.1:5626" placeholder:"HOST:PORT" help:"Address of the admin HTTP server: / is a page to look at; /healthz, /readyz, /status, /keys, /metrics, /events, /break (${default}). Empty: off."`
	StateDir  string `default:"stile-state" placeholder:"DIR" help:"Directory for the epoch that keeps tokens rising over restarts (${default}). One to each node."`

	DefaultLease  time.Duration `default:"30s" help:"Lease of an acquire that asks for 0 (${default})."`
	MaxLease      time.Duration `default:"24h" help:"Longest lease that is granted, at least 1m (${default})."`
	ReattachGrace time.Duration `default:"1s" help:"How long a waiter with a nonce keeps its place after its connection dropped (${default})."`
	StopTimeout   time.Duration `default:"10s" help:"How long a stop may take before connections are cut (${default})."`
	HelloTimeout  time.Duration `default:"1m" help:"Where a secret is asked: how long a new connection may take to give it, at least 1m (${default})."`
	IdleTimeout   time.Duration `default:"5m" help:"Close a connection that was silent for this long with nothing unanswered, at least 1m (${default}). 0: never."`

	Peers          []string      `sep:"none" placeholder:"HOST:PORT[#ID],…" help:"Addresses of all nodes of the cluster, this one too, highest priority first; the same list for each. ID, 0 to 15, is the place in the list unless given. Empty: one node alone."`
	Replication    string        `default:"async" enum:"async,sync" help:"async, or sync: answer when every standby in sync has the change (${default})."`
	SyncTimeout    time.Duration `default:"1s" help:"With sync: go on without a standby that is this far behind, 10ms to 2s (${default})."`
	MinInSync      int           `default:"0" help:"With sync: serve only while this many standbys are in sync (${default})."`
	Takeback       time.Duration `default:"auto" type:"takeback" placeholder:"auto|manual|DURATION" help:"How long a returned node of higher priority is in sync before it gets the role back, 0s to 24h; auto is 1s (${default})."`
	Heartbeat      time.Duration `default:"200ms" help:"Time between heartbeats to the peers, 10ms to 10s (${default})."`
	FailureTimeout time.Duration `default:"1s" help:"A peer that is silent for this long is down: at least 3 heartbeats, at most 1m (${default})."`
	BootGrace      time.Duration `default:"1s" help:"How long a start waits to hear of every peer before this node may serve, at most 1m (${default})."`

	MaxConnections   int `default:"10000" help:"Connections at once (${default})."`
	MaxWaiters       int `default:"1000000" help:"Waiting requests in all (${default})."`
	MaxWaitersPerKey int `default:"200000" help:"Waiting requests for one key (${default})."`
	MaxUnanswered    int `default:"4096" help:"Unanswered requests on one connection, at least 1024 (${default})."`

	MaxConnectionsPerAddress int `default:"0" help:"Connections at once from one address (of IPv6: a /64), but for loopback. 0: half of --max-connections."`
	MaxWrongSecrets          int `default:"100" help:"Wrong secrets in a minute from one address, but for loopback; then none are looked at for the rest of the minute (${default}). 0: any number."`

	SecretFile string `placeholder:"FILE" help:"File with the secret that clients must give in their hello. A second line is accepted too, while the secret changes."`
	Insecure   bool   `help:"Listen beyond loopback although neither a secret nor a certificate is asked: whoever reaches the port can take and release locks, and join a cluster."`

	TLSCert          string        `name:"tls-cert" placeholder:"FILE" help:"Certificate of this node, with what leads to its authority (PEM). Clients and peers then have to speak TLS, 1.2 or later. It and the files below, and the secrets, are read anew on SIGHUP."`
	TLSKey           string        `name:"tls-key" placeholder:"FILE" help:"Its private key (PEM)."`
	TLSClientCA      string        `name:"tls-client-ca" placeholder:"FILE" help:"Authorities (PEM) whose certificates clients and peers must show."`
	TLSCA            string        `name:"tls-ca" placeholder:"FILE" help:"Authorities (PEM) of the peers' certificates, by which this node knows them when it dials. Default: those of --tls-client-ca, or else the system's."`
	HandshakeTimeout time.Duration `default:"10s" help:"How long the handshake of TLS may take, 1s to 1m (${default})."`

	AdminSecretFile string `placeholder:"FILE" help:"File with the secret that admin requests must have beyond loopback, and /break everywhere. A second line is accepted too. Without the file that is what --secret-file has."`

	ClusterSecretFile string `placeholder:"FILE" help:"File with the secret that the nodes of a cluster show each other, the same for all."`

	LogLevel  string `default:"info" enum:"debug,info,warn,error" help:"debug, info, warn or error (${default})."`
	LogFormat string `default:"text" enum:"text,json" help:"text or json (${default})."`

	Version bool `env:"-" help:"Print the version and exit."`

	// Secrets are what SecretFile holds; any of them is accepted.
	Secrets [][]byte `kong:"-"`
	// AdminSecrets are what AdminSecretFile holds, else Secrets.
	AdminSecrets [][]byte `kong:"-"`
	// ClusterSecret is what ClusterSecretFile holds.
	ClusterSecret []byte `kong:"-"`
	// TLS is what the TLS files hold; nil: none is spoken.
	TLS *certs.Certs `kong:"-"`
	// PeerList is what Peers says.
	PeerList peers.List `kong:"-"`
	// Self is the index of this node in PeerList; -1 for a node alone.
	Self int `kong:"-"`
	// Environment has the names of the variables that set something.
	Environment []string `kong:"-"`
	// Warnings are for the log once there is one.
	Warnings []string `kong:"-"`
}

// TakebackManual is the Takeback of nodes that get the role back only when
// somebody says so.
const TakebackManual time.Duration = -1

const takebackAuto = time.Second

// ErrHelp is returned by Parse when it has printed what was asked for, and
// the program should exit with status 0.
var ErrHelp = errors.New("help was printed")

// Parse reads the settings. What it prints (--help, --version) goes to out.
func Parse(args []string, out io.Writer) (*Config, error) {
	var c Config
	from := origins{args: args}
	done := false
	parser, err := kong.New(&c,
		kong.Name("stiled"),
		kong.Description("The node of Stile, a lock server: fair (FIFO) locks with leases and fencing tokens.\n\n"+
			"Every flag can also be set as STILE_… in the environment (--max-lease is STILE_MAX_LEASE) and in the file given with --config. A flag beats the environment, which beats the file."),
		kong.Writers(out, out),
		kong.Exit(func(int) { done = true }),
		kong.DefaultEnvars("STILE"),
		kong.NamedMapper("takeback", kong.MapperFunc(readTakeback)),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(readDuration)),
		kong.Configuration(func(r io.Reader) (kong.Resolver, error) {
			f, err := readYAML(r)
			from.file = f
			return f, err
		}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		return nil, err
	}
	from.app = parser.Model
	_, err = parser.Parse(args)
	if done {
		return nil, ErrHelp
	}
	if err != nil {
		return nil, from.explain(err)
	}
	if c.Version {
		fmt.Fprintln(out, buildinfo.Line("stiled"))
		return nil, ErrHelp
	}
	if err := checkEnviron(parser.Model, os.Environ()); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, from.explain(err)
	}
	counts, warnings := from.environment()
	c.Environment, c.Warnings = counts, append(c.Warnings, warnings...)
	return &c, nil
}

// check refuses values that can't work, and reads the files they name.
func (c *Config) check() error {
	listen, err := address("--listen", c.Listen)
	if err != nil {
		return err
	}
	admin := ""
	if c.Admin != "" {
		if admin, err = address("--admin", c.Admin); err != nil {
			return err
		}
	}
	if c.Advertise != "" {
		host, port, err := net.SplitHostPort(c.Advertise)
		if err != nil || !protocol.ValidAddr([]byte(c.Advertise)) || port == "0" {
			return fmt.Errorf("--advertise %q is not an address that a client can dial: want host:port or [ipv6]:port, port not 0", c.Advertise)
		}
		if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
			return fmt.Errorf("--advertise %s is the unspecified address: name the one by which clients reach this node", c.Advertise)
		}
	}
	for _, d := range []struct {
		name     string
		is       time.Duration
		min, max time.Duration
	}{
		{"--max-lease", c.MaxLease, time.Minute, protocol.MaxSeconds},
		{"--default-lease", c.DefaultLease, time.Millisecond, c.MaxLease},
		{"--reattach-grace", c.ReattachGrace, time.Millisecond, time.Hour},
		{"--stop-timeout", c.StopTimeout, 0, time.Hour},
		{"--idle-timeout", c.IdleTimeout, 0, 365 * 24 * time.Hour},
		{"--hello-timeout", c.HelloTimeout, time.Minute, 365 * 24 * time.Hour},
		{"--handshake-timeout", c.HandshakeTimeout, time.Second, time.Minute},
		{"--sync-timeout", c.SyncTimeout, 10 * time.Millisecond, time.Minute},
		{"--takeback", max(c.Takeback, 0), 0, 24 * time.Hour},
		{"--heartbeat", c.Heartbeat, 10 * time.Millisecond, 10 * time.Second},
		{"--failure-timeout", c.FailureTimeout, 30 * time.Millisecond, time.Minute},
		{"--boot-grace", c.BootGrace, 0, time.Minute},
	} {
		if d.is < d.min || d.is > d.max {
			return fmt.Errorf("%s %v is out of range: want %v to %v", d.name, d.is, d.min, d.max)
		}
		if d.is%time.Millisecond != 0 {
			return fmt.Errorf("%s %v has a fraction of a millisecond: want whole milliseconds", d.name, d.is)
		}
	}
	if c.IdleTimeout > 0 && c.IdleTimeout < time.Minute {
		return fmt.Errorf("--idle-timeout %v is out of range: want at least 1m, or 0 for never; clients ping every 15 s", c.IdleTimeout)
	}
	if c.SyncTimeout > 2*time.Second {
		return fmt.Errorf("--sync-timeout %v is too long: want at most 2s; clients reset a connection that owes them an answer and is silent for 3 s", c.SyncTimeout)
	}
	if c.FailureTimeout < 3*c.Heartbeat {
		return fmt.Errorf("--failure-timeout %v is less than three times --heartbeat %v: one late heartbeat must not look like a failure; give at least %v, or a shorter --heartbeat", c.FailureTimeout, c.Heartbeat, 3*c.Heartbeat)
	}
	for _, n := range []struct {
		name     string
		is       int
		min, max int
	}{
		{"--max-connections", c.MaxConnections, 1, 1 << 20},
		{"--max-connections-per-address", c.MaxConnectionsPerAddress, 0, 1 << 20},
		{"--max-wrong-secrets", c.MaxWrongSecrets, 0, 1 << 30},
		{"--max-waiters", c.MaxWaiters, 1, 1 << 30},
		{"--max-waiters-per-key", c.MaxWaitersPerKey, 1, 1 << 30},
		{"--max-unanswered", c.MaxUnanswered, 1024, 1 << 20},
		{"--min-in-sync", c.MinInSync, 0, peers.MaxPeers - 1},
	} {
		if n.is < n.min || n.is > n.max {
			return fmt.Errorf("%s %d is out of range: want %d to %d", n.name, n.is, n.min, n.max)
		}
	}
	if c.StateDir == "" {
		return errors.New("--state-dir is empty: name a directory, so that tokens keep rising over restarts")
	}
	if c.StateDir, err = filepath.Abs(c.StateDir); err != nil {
		return fmt.Errorf("--state-dir: %w", err)
	}
	if err := c.readSecrets(); err != nil {
		return err
	}
	if c.AdminSecretFile == "" {
		c.AdminSecrets = c.Secrets
	}
	if err := c.checkTLS(); err != nil {
		return err
	}
	if c.Admin != "" && !loopback(admin) && len(c.AdminSecrets) == 0 {
		if !c.Insecure {
			return fmt.Errorf("--admin %s is reachable from other machines, and the admin server would ask for no secret: give --admin-secret-file or --secret-file, use a loopback address, or --insecure if the network is closed", c.Admin)
		}
		c.Warnings = append(c.Warnings, "INSECURE: the admin server at "+c.Admin+" is reachable from other machines and asks for no secret: whoever reaches it sees all keys and clients")
	}
	if !loopback(listen) && len(c.Secrets) == 0 && c.TLSClientCA == "" {
		if !c.Insecure {
			return fmt.Errorf("--listen %s is reachable from other machines, and neither a secret nor a certificate is asked: give --secret-file or --tls-client-ca, or --insecure if the network is closed", c.Listen)
		}
		c.Warnings = append(c.Warnings, "INSECURE: "+c.Listen+" is reachable from other machines and asks for no secret and no certificate")
	}
	if err := c.checkCluster(listen); err != nil {
		return err
	}
	return c.openTLS()
}

// address checks a host:port to listen on and returns its host.
func address(flag, addr string) (host string, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%s %q is not an address: want host:port, :port or [ipv6]:port", flag, addr)
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return "", fmt.Errorf("%s %q has no valid port: want 0 to 65535", flag, addr)
	}
	if host != "" {
		if _, err := net.LookupIP(host); err != nil {
			return "", fmt.Errorf("%s %q names no address of this machine: %w", flag, addr, err)
		}
	}
	return host, nil
}

// loopback reports whether the host is this machine only, whatever it may
// resolve to.
func loopback(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback()
	}
	if host == "" {
		return false
	}
	ips, err := net.LookupIP(host)
	if err != nil || len(ips) == 0 {
		return false
	}
	for _, ip := range ips {
		if !ip.IsLoopback() {
			return false
		}
	}
	return true
}
