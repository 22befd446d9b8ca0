// Package cli is the command line of `stile`: its flags, what each command
// does, what is printed, and the exit statuses.
package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/tools/cmd/stile/adminapi"
	"github.com/stile-lock/stile/tools/cmd/stile/job"
)

// Exit statuses of all commands. Those of `stile lock` are few of the many
// that commands use themselves: 1 and 2 are left to them, 124 to timeout(1),
// 126 and 127 mean what they mean in a shell.
const (
	ExitOK          = 0
	ExitUnwell      = 1   // status: something is wrong with the cluster
	ExitUncertain   = 1   // break: done, but the standbys do not know yet
	ExitNotObtained = 121 // somebody else has the key
	ExitNoServer    = 122 // no server answered, or none serves
	ExitLost        = 123 // the lock is not held (any more)
	ExitFailure     = 125 // stile itself: wrong usage, settings; a secret or certificate that is refused
	ExitCannotRun   = 126 // the command was found and can't be started
	ExitNotFound    = 127 // the command was not found
)

// Streams are the standard ones of the process.
type Streams struct {
	In       *os.File
	Out, Err io.Writer
}

// CLI is the commands and flags. Help, man page and completions are made
// from it.
type CLI struct {
	Lock    lockCommand    `cmd:"" help:"Run a command while holding KEY, like flock(1) across machines."`
	Acquire acquireCommand `cmd:"" help:"Take KEY and print the token. It is held until release, or the end of the lease."`
	Keep    keepCommand    `cmd:"" help:"Renew the lease of KEY."`
	Release releaseCommand `cmd:"" help:"Give KEY back."`

	Status statusCommand `cmd:"" help:"Show the cluster, as each node sees it."`
	Keys   keysCommand   `cmd:"" help:"Show who holds which keys, and who waits."`
	Break  breakCommand  `cmd:"" help:"Take KEY from its holder, by hand."`
	Top    topCommand    `cmd:"" help:"Watch nodes and keys in the terminal, live."`
	Bench  benchCommand  `cmd:"" help:"Put load on the servers, check every answer, and measure."`

	Completion completionCommand `cmd:"" help:"Print the completions for a shell."`
	Man        manCommand        `cmd:"" help:"Print the man page, as roff."`

	Globals
}

// Globals are the flags of every command.
type Globals struct {
	Addrs    string        `default:"127.0.0.1:5625" env:"STILE_ADDRS" placeholder:"HOST:PORT,…" group:"Servers" help:"The servers (${default})."`
	RetryFor time.Duration `default:"5s" env:"STILE_RETRY_FOR" group:"Servers" help:"How long an acquire looks for a server that serves before it gives up (${default})."`
	Name     string        `env:"STILE_NAME" placeholder:"NAME" group:"Servers" help:"How this client appears to operators: 1 to 64 bytes without spaces (stile@HOST:PID)."`
	Admin    string        `default:"127.0.0.1:5626" env:"STILE_ADMIN_ADDRS" placeholder:"HOST:PORT,…" group:"Servers" help:"The admin addresses of all nodes, for status, keys, break and top (${default})."`

	SecretFile      string `env:"STILE_SECRET_FILE" placeholder:"FILE" group:"Security" help:"File with the secret that the servers ask for."`
	AdminSecretFile string `env:"STILE_ADMIN_SECRET_FILE" placeholder:"FILE" group:"Security" help:"File with the secret of the admin servers (that of --secret-file)."`
	TLS             bool   `env:"STILE_TLS" group:"Security" help:"Speak TLS, with the authorities that this machine trusts. The next ones imply it."`
	TLSCA           string `name:"tls-ca" env:"STILE_TLS_CA" placeholder:"FILE" group:"Security" help:"PEM file with the authorities that server certificates must come from."`
	TLSCert         string `env:"STILE_TLS_CERT" placeholder:"FILE" group:"Security" help:"PEM file with the certificate that this client shows. Needs --tls-key."`
	TLSKey          string `env:"STILE_TLS_KEY" placeholder:"FILE" group:"Security" help:"PEM file with its private key."`

	Verbose bool             `short:"v" help:"Tell what goes on with the connections."`
	Version kong.VersionFlag `help:"Print the version and exit."`
}

// app is what commands work with.
type app struct {
	Globals
	Streams
	line   []string // the command line
	ctx    context.Context
	styles styles
	model  *kong.Application
	exit   func(int) // at once
}

// exitError ends with a status. Its error may be nil.
type exitError struct {
	status int
	err    error

	// The process ends by SIGINT, where it can: it, or its command, got one.
	interrupted bool
	ofTerminal  bool // so did all of the terminal's job
}

func (e *exitError) Error() string { return fmt.Sprint(e.err) }
func (e *exitError) Unwrap() error { return e.err }

func failed(status int, format string, args ...any) error {
	return &exitError{status: status, err: fmt.Errorf(format, args...)}
}

const description = `The command line of Stile, a lock server: fair (FIFO) locks with leases and fencing tokens.

STILE_ADDRS names the servers, STILE_ADMIN_ADDRS their admin addresses; every setting of this kind is a flag, too, and the flag wins.

Exit statuses of all commands: 121 not obtained in time, 122 no server, 123 the lock is not held or was lost, 125 anything else that stile could not do, such as wrong usage, a secret or a certificate that is refused.`

// New makes the parser of the command line.
func New(c *CLI, opts ...kong.Option) (*kong.Kong, error) {
	return kong.New(c, append([]kong.Option{
		kong.Name("stile"),
		kong.Description(description),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Vars{"version": version()},
		kong.KindMapper(reflect.String, kong.MapperFunc(asGiven)),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(duration)),
		kong.NamedMapper("token", kong.MapperFunc(token)),
		kong.ExplicitGroups([]kong.Group{{Key: "Servers", Title: "Servers:"}, {Key: "Security", Title: "Security:"}}),
	}, opts...)...)
}

// asGiven takes a text byte by byte: keys, files and the arguments of commands
// need not be UTF-8. The mapper of kong turns what is none into U+FFFD.
func asGiven(ctx *kong.DecodeContext, target reflect.Value) error {
	t, err := ctx.Scan.PopValue("string")
	if err == nil {
		target.SetString(fmt.Sprint(t.Value))
	}
	return err
}

// duration takes a duration, and says how one is written.
func duration(ctx *kong.DecodeContext, target reflect.Value) error {
	// The parser would take it for a flag.
	if next := ctx.Scan.Peek(); next.InferredType().IsAny(kong.FlagToken, kong.ShortFlagToken) {
		text := fmt.Sprint(next.Value)
		if _, err := time.ParseDuration(text); err == nil {
			return fmt.Errorf("%s is below 0: give a duration like 10s", text)
		}
	}
	t, err := ctx.Scan.PopValue("duration")
	if err != nil {
		return err
	}
	text := fmt.Sprint(t.Value)
	d, err := time.ParseDuration(text)
	if err != nil {
		if text != "" && strings.Trim(text, "0123456789") == "" {
			return fmt.Errorf("%q has no unit: write %ss for seconds, or ms, m and h", text, text)
		}
		return fmt.Errorf("%q is no duration: that is a number with a unit, like 500ms, 10s, 1m30s or 1h", text)
	}
	target.SetInt(int64(d))
	return nil
}

// token takes a fencing token, which is decimal: 010 is 10.
func token(ctx *kong.DecodeContext, target reflect.Value) error {
	t, err := ctx.Scan.PopValue("token")
	if err != nil {
		return err
	}
	text := fmt.Sprint(t.Value)
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is no token: that is a whole number from 1 on, as acquire and keys print it", text)
	}
	target.SetUint(n)
	return nil
}

// Run runs the command line and returns the exit status.
func Run(args []string, s Streams) int {
	out := &output{to: s.Out}
	s.Out = out
	status, err := run(args, s)
	if out.err != nil && !errors.Is(err, out.err) && !nobodyReads(out.err) {
		fmt.Fprintf(s.Err, "stile: the output could not be written: %v\n", out.err)
		status = ExitFailure
	}
	var e *exitError
	if errors.As(err, &e) && e.interrupted {
		job.Interrupt(e.ofTerminal)
	}
	return status
}

// run does what the command line says. It has told the user of the error.
func run(args []string, s Streams) (status int, err error) {
	var c CLI
	done := -1
	parser, err := New(&c, kong.Writers(s.Out, s.Err), kong.Exit(func(code int) { done = code }))
	if err != nil {
		panic(err) // the tags are wrong
	}
	command, err := parser.Parse(args)
	if done >= 0 {
		return done, nil // help or version was printed
	}
	// These print what has nothing to do with any setting, for shells that
	// start and for packages.
	if err == nil && command.Command() != "man" && !strings.HasPrefix(command.Command(), "completion") {
		err = checkEnviron(parser.Model, os.Environ())
	}
	if out, ok := s.Out.(*output); ok && out.err != nil {
		return ExitFailure, nil // Run tells
	}
	if err != nil {
		fmt.Fprintf(s.Err, "stile: %v\n", err)
		var parse *kong.ParseError
		help := "stile --help"
		if errors.As(err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
			help = parse.Context.Selected().FullPath() + " --help"
		}
		fmt.Fprintf(s.Err, "See %s.\n", help)
		return ExitFailure, err
	}
	a := &app{Globals: c.Globals, Streams: s, line: args, ctx: context.Background(), styles: stylesFor(s.Out), model: parser.Model, exit: os.Exit}
	err = command.Run(a)
	if err == nil {
		return ExitOK, nil
	}
	status, text := explain(err)
	if text != "" {
		fmt.Fprintf(s.Err, "stile: %s\n", text)
	}
	return status, err
}

// warn tells the user something that is no failure.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintf(a.Err, "stile: %s\n", fmt.Sprintf(format, args...))
}

// explain returns the exit status for an error, and what to tell the user:
// what went wrong, and what to do.
func explain(err error) (status int, text string) {
	var e *exitError
	if errors.As(err, &e) {
		if e.err == nil {
			return e.status, ""
		}
		return e.status, e.err.Error()
	}
	text = strings.TrimPrefix(err.Error(), "stile: ")
	var ofClient *client.Error
	var ofServer *client.ServerError
	switch {
	case errors.Is(err, client.ErrTimeout) && errors.As(err, &ofClient) && ofClient.Unserved:
		return noServer(worded(ofClient, "no server served in time"), ofClient)
	case errors.Is(err, client.ErrTimeout):
		return ExitNotObtained, text
	case (errors.Is(err, client.ErrNoConnection) || errors.Is(err, client.ErrUndelivered)) && errors.As(err, &ofClient):
		return noServer(text, ofClient)
	case errors.Is(err, client.ErrNoActive):
		return ExitNoServer, text + "\n" + waitsHint + "; --retry-for waits longer for them."
	case errors.Is(err, client.ErrLeaseLost):
		return ExitLost, text
	case errors.Is(err, client.ErrNotHeld) && errors.As(err, &ofClient):
		text := worded(ofClient, "not held under this token (any more): the lease has ended, the lock was released or broken, or key and token do not belong together")
		if ofClient.Op == "release" && ofClient.Outcome == client.MayHaveHappened {
			text += "\nWhich of these, nobody can say: an earlier try of this command may have released it, with its answer lost."
		}
		return ExitLost, text
	case errors.As(err, &ofServer) && ofServer.Code == protocol.CodeUnauthorized:
		return ExitFailure, text + "\n" + secretHint
	}
	return ExitFailure, text
}

const waitsHint = "`stile status` tells what the nodes wait for"

const secretHint = "The servers ask for a secret: give the right one with --secret-file or STILE_SECRET_FILE."

// worded is the text of an error with another reason than its own, for what
// the client's words leave open.
func worded(e *client.Error, reason string) string {
	other := *e
	other.Err, other.Outcome = errors.New(reason), client.DidNotHappen
	return strings.TrimPrefix(other.Error(), "stile: ")
}

// noServer tells apart why there was none. One that refuses this client, or
// that this client refuses, is there: to wait for it changes nothing, so the
// status is that of wrong settings.
func noServer(text string, e *client.Error) (int, string) {
	for _, a := range e.Addrs {
		var refused *client.ServerError
		var certificate *tls.CertificateVerificationError
		var notTLS tls.RecordHeaderError
		var op *net.OpError
		switch {
		case errors.As(a.Err, &refused) && refused.Code == protocol.CodeUnauthorized:
			return ExitFailure, text + "\n" + secretHint
		case errors.As(a.Err, &refused) && refused.Code == protocol.CodeBadRequest: // and a hello is none
			return ExitFailure, text + "\nTo servers that speak TLS, --tls or --tls-ca is needed."
		case errors.As(a.Err, &certificate):
			return ExitFailure, text + "\n" + certificateHint(certificate, "the servers' certificates", "--addrs")
		case errors.As(a.Err, &notTLS):
			return ExitFailure, text + "\nThe servers do not speak TLS: leave out --tls and --tls-ca, or use the address where they do."
		case errors.As(a.Err, &op) && op.Op == "remote error": // an alert of TLS
			return ExitFailure, text + "\nThe servers refuse this client: give a certificate that they take with --tls-cert and --tls-key."
		}
	}
	if slices.ContainsFunc(e.Addrs, isThere) {
		return ExitNoServer, text + "\n" + waitsHint + "."
	}
	return ExitNoServer, text + "\nIs a node running (stiled), and are --addrs or STILE_ADDRS right? One that asks for TLS needs --tls or --tls-ca."
}

// isThere reports whether a server takes this client, and so has only not served
// it. One that is "connected, but" silent has not said so.
func isThere(a client.AddrError) bool {
	return a.Reason == "connected" || a.Reason == "connected; redirects" || strings.HasPrefix(a.Reason, "answered ")
}

// certificateHint says what to do about a certificate that is not taken.
func certificateHint(e *tls.CertificateVerificationError, whose, flag string) string {
	var invalid x509.CertificateInvalidError
	if errors.As(e, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil {
		const clock = " (Or is the clock of this machine wrong?)"
		switch {
		case time.Now().Before(invalid.Cert.NotBefore):
			return "The certificate is not valid yet." + clock
		case invalid.Cert.IsCA:
			return "An authority's certificate has expired: the nodes need certificates of its successor, which --tls-ca must have." + clock
		}
		return "The certificate has expired: renew it on the node, and send SIGHUP there." + clock
	}
	return "Is --tls-ca the authority of " + whose + ", and are these for the hosts in " + flag + "?"
}

// connect makes a client of the servers.
func (a *app) connect(ctx context.Context) (*client.Client, error) {
	name := a.Name
	if name == "" {
		name = defaultName()
	}
	opts := []client.Option{client.Name(name), client.RetryFor(a.RetryFor)}
	if a.Verbose {
		opts = append(opts, client.Logger(slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	}
	secret, err := a.secret("--secret-file", a.SecretFile)
	if err != nil {
		return nil, err
	}
	if secret != "" {
		opts = append(opts, client.Secret(secret))
	}
	cfg, err := a.tls()
	if err != nil {
		return nil, err
	}
	if cfg != nil {
		opts = append(opts, client.TLS(cfg))
	}
	return client.Dial(ctx, a.Addrs, opts...)
}

// admin makes a client of the admin servers.
func (a *app) admin() (*adminapi.Client, error) {
	flag, file := "--admin-secret-file", a.AdminSecretFile
	if file == "" {
		flag, file = "--secret-file", a.SecretFile
	}
	secret, err := a.secret(flag, file)
	if err != nil {
		return nil, err
	}
	cfg, err := a.tls()
	if err != nil {
		return nil, err
	}
	c := &adminapi.Client{Secret: secret, TLS: cfg}
	for addr := range strings.SplitSeq(a.Admin, ",") {
		if addr = strings.TrimSpace(addr); addr != "" {
			c.Addrs = append(c.Addrs, addr)
		}
	}
	if len(c.Addrs) == 0 {
		return nil, failed(ExitFailure, "no admin address: give --admin or STILE_ADMIN_ADDRS, like 10.0.0.1:5626,10.0.0.2:5626")
	}
	return c, nil
}

// defaultName tells operators where to look for a holder.
func defaultName() string {
	host, err := os.Hostname()
	if err != nil || !protocol.ValidName([]byte(host)) {
		host = "unknown"
	}
	pid := fmt.Sprintf(":%d", os.Getpid())
	const most = 64
	if left := most - len("stile@") - len(pid); len(host) > left {
		host = host[:left]
	}
	return "stile@" + host + pid
}

// The linker sets these in what is not built as a module by go install.
var release, commit string

func version() string {
	v, rev := cmp.Or(release, "devel"), commit
	if info, ok := debug.ReadBuildInfo(); ok {
		if release == "" && info.Main.Version != "" && info.Main.Version != "(devel)" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && rev == "" {
				rev = s.Value[:min(12, len(s.Value))]
			}
		}
	}
	if rev != "" {
		rev = " (commit " + rev + ")"
	}
	return "stile " + v + rev
}
