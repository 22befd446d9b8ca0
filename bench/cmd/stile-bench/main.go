// Stile-bench puts load on a lock server, checks every answer, and measures.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/stile-lock/stile/bench/echo"
	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/loadflags"
	"github.com/stile-lock/stile/bench/redis"
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

	loadflags.Flags

	CPUProfile string `name:"cpuprofile" type:"path" placeholder:"FILE" help:"Write a processor profile of the load generator itself."`
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
	res, err := d.Run(ctx, c.Plan())
	if res != nil { // also of a run that ended early
		if writing := c.Write(os.Stdout, res); err == nil {
			err = writing
		}
	}
	return err
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
