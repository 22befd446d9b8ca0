// Stile-bench puts load on a lock server, checks every answer, and measures.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stile-lock/stile/bench/echo"
	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/redis"
	"github.com/stile-lock/stile/bench/report"
	"github.com/stile-lock/stile/bench/stile"
)

type program struct {
	Load       loadCommand `cmd:"" default:"withargs" help:"Load a server that runs already, and check what it answers. This is the default command."`
	EchoServer echoServer  `cmd:"" help:"Run an echo server, the ceiling that the load can reach."`
}

type loadCommand struct {
	Addr       string `default:"127.0.0.1:5625" placeholder:"HOST:PORT" help:"The server (${default}); of a cluster the active node, or for the Go client all nodes."`
	Driver     string `enum:"raw,nonce,client,echo,redis" default:"raw" help:"raw: Stile, as a core client speaks. nonce: with nonces, as the Go client does. client: through the Go client itself. echo: an echo server. redis: SET NX PX and a script."`
	SecretFile string `type:"existingfile" placeholder:"FILE" help:"File with the secret that the node asks for."`

	Connections int           `short:"c" default:"64" help:"Connections (${default}). The Go client makes its own; it gets as many goroutines as requests could be under way."`
	Depth       int           `short:"d" default:"1" help:"Requests under way on each connection (${default})."`
	Duration    time.Duration `default:"10s" help:"How long to measure (${default})."`
	Warmup      time.Duration `default:"2s" help:"How long to load before (${default})."`
	Rate        float64       `help:"Open loop: this many pairs are due in a second. Default: closed loop, each pair begins when another has ended."`
	Poisson     bool          `help:"Open loop: due at random instants, not evenly."`

	Keys      int     `help:"How many keys (100000)."`
	KeyLength int     `default:"24" help:"Bytes of a key (${default})."`
	Skew      float64 `help:"Exponent of Zipf's law by which keys are chosen; they are shared then. 0: all alike."`
	Shared    bool    `help:"Any request may take any key. Default: each has keys of its own, and nobody waits."`
	Contended float64 `help:"Share of the pairs, 0 to 1, that take one of --hot-keys further keys, which are shared."`
	HotKeys   int     `default:"16" help:"How many keys those are (${default})."`

	Lease       time.Duration `default:"30s" help:"Lease asked for (${default})."`
	Hold        time.Duration `help:"How long a key is held (0s)."`
	Cancel      float64       `help:"Share, 0 to 1, of the acquires of shared keys that are given up if they wait for longer than --cancel-after."`
	CancelAfter time.Duration `default:"1ms" help:"How long such an acquire waits before (${default})."`
	Drain       time.Duration `default:"10s" help:"How long to wait at the end for what is under way; an answer that is missing then is a wrong one (${default})."`
	Seed        uint64        `default:"1" help:"Of everything that is drawn (${default})."`

	JSON string `type:"path" placeholder:"FILE" help:"Write the result as JSON, too; - is the standard output, instead of the text."`
	HTML string `type:"path" placeholder:"FILE" help:"Write a page with a plot of throughput and latency, too."`
	SVG  string `type:"path" placeholder:"FILE" help:"Write just the plot, too."`

	CPUProfile string `name:"cpuprofile" type:"path" placeholder:"FILE" help:"Write a processor profile of the load generator itself."`
}

func (c *loadCommand) plan() load.Plan {
	return load.Plan{
		Connections: c.Connections, Depth: c.Depth, Duration: c.Duration, Warmup: c.Warmup,
		Rate: c.Rate, Poisson: c.Poisson,
		Keys: c.Keys, KeyLength: c.KeyLength, Skew: c.Skew, Shared: c.Shared, Contended: c.Contended, HotKeys: c.HotKeys,
		Lease: c.Lease, Hold: c.Hold, Cancel: c.Cancel, CancelAfter: c.CancelAfter, Drain: c.Drain, Seed: c.Seed,
	}
}

func (c *loadCommand) driver() (load.Driver, error) {
	secret := ""
	if c.SecretFile != "" {
		content, err := os.ReadFile(c.SecretFile)
		if err != nil {
			return nil, err
		}
		secret = strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	}
	switch c.Driver {
	case "client":
		return stile.Client{Addr: c.Addr, Secret: secret}, nil
	case "echo":
		return echo.Driver{Addr: c.Addr}, nil
	case "redis":
		return redis.Driver{Addr: c.Addr}, nil
	}
	return stile.Raw{Addr: c.Addr, Nonces: c.Driver == "nonce", Secret: secret}, nil
}

// Run is called by kong.
func (c *loadCommand) Run(ctx context.Context) error {
	d, err := c.driver()
	if err != nil {
		return err
	}
	if c.CPUProfile != "" {
		f, err := os.Create(c.CPUProfile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	res, err := d.Run(ctx, c.plan())
	if err != nil {
		return err
	}
	if c.JSON != "-" {
		report.Text(os.Stdout, res)
	}
	return errors.Join(
		write(c.JSON, func(w io.Writer) error { return report.JSON(w, res) }),
		write(c.HTML, func(w io.Writer) error { return report.HTML(w, res) }),
		write(c.SVG, func(w io.Writer) error { return report.SVG(w, res) }))
}

func write(file string, content func(io.Writer) error) error {
	switch file {
	case "":
		return nil
	case "-":
		return content(os.Stdout)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(content(f), f.Close())
}

type echoServer struct {
	Listen string `default:"127.0.0.1:5627" placeholder:"HOST:PORT" help:"Address to listen on (${default}). Port 0 takes a free one."`
}

// Run is called by kong.
func (c *echoServer) Run(ctx context.Context) error {
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	fmt.Printf("listening on %s\n", l.Addr())
	return echo.Serve(l)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var p program
	k := kong.Parse(&p, kong.Name("stile-bench"), kong.UsageOnError(), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Description("Load for Stile, the lock server, and for what it is compared with. Every answer is checked: a wrong one, or a missing one, ends the run with status 1."))
	if err := k.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "stile-bench: %v\n", err)
		os.Exit(1)
	}
}
