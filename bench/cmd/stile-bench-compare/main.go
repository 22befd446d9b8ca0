// Stile-bench-compare measures Stile beside a bare echo server, Redis and etcd,
// and prints the figures that the project has aims for: in one run, in turn, in
// several rounds. It starts all servers itself, on free ports of loopback, and
// stops them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stile-lock/stile/bench/proc"
	"github.com/stile-lock/stile/bench/report"
	"github.com/stile-lock/stile/bench/workload"
)

type program struct {
	Workload []string `arg:"" optional:"" help:"Workloads to measure (all): ${workloads}."`

	Rounds  int  `default:"5" help:"Rounds, each of all workloads (${default})."`
	Smoke   bool `help:"A short form of everything, in one round and within a minute, without Redis and etcd. Its figures say little: it is there to see wrong answers."`
	Install bool `help:"Install redis-server and etcd-server with apt-get, where they are missing. Needs root."`

	Duration time.Duration `help:"How long to measure each load (4s)."`
	Warmup   time.Duration `help:"How long to load before (1s)."`
	Held     int           `help:"Held leases, and leases that end within a second (1000000)."`
	Herd     int           `help:"Waiters for one key (100000)."`
	Idle     int           `help:"Idle connections (10000)."`
	Waiters  int           `help:"Waiters whose memory is measured (500000)."`
	HandOver int           `help:"Waiters of the hand-over (64)."`
	Many     int           `help:"Keys up to which the growth of cost is measured, from 1,000 (1000000)."`

	Stiled     string `default:"bin/stiled" placeholder:"FILE" help:"The node (${default})."`
	StileBench string `placeholder:"FILE" help:"stile-bench, for its echo server (beside this program)."`
	EtcdLoad   string `placeholder:"FILE" help:"stile-bench-etcd, which loads etcd (beside this program)."`
	Redis      string `default:"redis-server" placeholder:"FILE" help:"(${default})"`
	Etcd       string `default:"etcd" placeholder:"FILE" help:"(${default})"`

	JSON string `type:"path" placeholder:"FILE" help:"Write the figures as JSON, too."`
}

// Run is called by kong.
func (p *program) Run(ctx context.Context) error {
	env := &workload.Env{Size: p.size(), Log: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}}
	if p.Smoke {
		p.Rounds = 1
	}
	if p.Rounds < 1 {
		return fmt.Errorf("--rounds %d: give 1 or more", p.Rounds)
	}
	var err error
	if env.Stiled, err = proc.Find(p.Stiled); err != nil {
		return fmt.Errorf("%w: build the node first (make build), or name it with --stiled", err)
	}
	if env.StileBench, err = proc.Find(p.beside(p.StileBench, "stile-bench")); err != nil {
		return fmt.Errorf("%w: build it first, or name it with --stile-bench", err)
	}
	absent := []string{"Redis and etcd: the smoke test does without them"}
	if !p.Smoke {
		absent = p.others(ctx, env)
	}
	workloads, err := workload.Choose(env, p.Workload)
	if err != nil {
		return err
	}
	t, err := workload.Measure(ctx, env, workloads, p.Rounds)
	if err != nil {
		return err
	}
	t.Absent = append(absent, t.Absent...)
	t.About = about(ctx, env)
	report.Table(os.Stdout, t)
	if p.JSON == "" {
		return nil
	}
	f, err := os.Create(p.JSON)
	if err != nil {
		return err
	}
	return errors.Join(report.TableJSON(f, t), f.Close())
}

// about says what was measured, and on what machine.
func about(ctx context.Context, env *workload.Env) []string {
	all := []string{fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())}
	for _, path := range []string{env.Stiled, env.Redis, env.Etcd} {
		if version := proc.Version(ctx, path); version != "" {
			all = append(all, version)
		}
	}
	return all
}

// size is the size that the flags say.
func (p *program) size() workload.Size {
	size := workload.Full
	if p.Smoke {
		size = workload.Smoke
	}
	set(&size.Duration, p.Duration)
	set(&size.Warmup, p.Warmup)
	set(&size.Held, p.Held)
	set(&size.Herd, p.Herd)
	set(&size.Idle, p.Idle)
	set(&size.Waiters, p.Waiters)
	set(&size.HandOver, p.HandOver)
	set(&size.Many, p.Many)
	return size
}

// set changes what a flag was given for.
func set[T int | time.Duration](to *T, flag T) {
	if flag > 0 {
		*to = flag
	}
}

// beside is the path of a program that lies where this one does.
func (p *program) beside(given, name string) string {
	if given != "" {
		return given
	}
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}

// others finds the servers to compare with, and says which cannot be.
func (p *program) others(ctx context.Context, env *workload.Env) (absent []string) {
	find := func(name, pkg string) string {
		path, err := proc.Find(name)
		if err != nil && p.Install {
			env.Log("%s is not on this machine: installing %s", name, pkg)
			if err := install(ctx, pkg); err != nil {
				absent = append(absent, fmt.Sprintf("%s: it is not on this machine, and the package %s could not be installed: %v", name, pkg, err))
				return ""
			}
			path, err = proc.Find(name)
		}
		if err != nil {
			absent = append(absent, fmt.Sprintf("%v (on Debian the package is %s; --install installs it)", err, pkg))
			return ""
		}
		return path
	}
	env.Redis = find(p.Redis, "redis-server")
	env.Etcd = find(p.Etcd, "etcd-server")
	var err error
	if env.EtcdLoad, err = proc.Find(p.beside(p.EtcdLoad, "stile-bench-etcd")); err != nil {
		absent = append(absent, "etcd: the program that loads it is missing; build it in bench/etcd, or name it with --etcd-load")
	}
	return absent
}

// install installs a package without starting the service in it: the comparison
// starts its servers itself.
func install(ctx context.Context, pkg string) error {
	if os.Geteuid() != 0 {
		return errors.New("only root may install packages")
	}
	for _, args := range [][]string{{"update", "-q"}, {"install", "-qy", "--no-install-recommends", pkg}} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			if len(out) == 0 {
				return err
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			return fmt.Errorf("apt-get %s: %w: %s", args[0], err, lines[len(lines)-1])
		}
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var p program
	k := kong.Parse(&p, kong.Name("stile-bench-compare"), kong.UsageOnError(), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Vars{"workloads": workload.Names()},
		kong.Description(help()))
	if err := k.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "stile-bench-compare: %v\n", err)
		os.Exit(1)
	}
}

func help() string {
	var b strings.Builder
	b.WriteString("Measure Stile beside an echo server, Redis and etcd, in several rounds, and print the figures with their spread and the aims for them. " +
		"A wrong answer makes it fail with status 1; that an aim is not reached does not.\n\nThe workloads:\n\n")
	for _, w := range workload.All(&workload.Env{Size: workload.Full}) {
		fmt.Fprintf(&b, "  %s: %s\n\n", w.Name, w.Help)
	}
	return b.String()
}
