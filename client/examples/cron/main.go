// Cron runs a command once for each time that the cron of many machines starts
// it, on one of them. The others wait, and the next in line runs it if it fails
// or takes too long, or if its machine dies.
//
//	0 3 * * *  cron -job nightly -limit 10m /usr/local/bin/nightly
//
// Clocks and starts must be less than half a minute apart. A single node that is
// restarted meanwhile forgets what ran, a cluster does not. A run that takes
// longer than the interval overlaps the next. A command whose cron was killed by
// force goes on beside the next try: let what it writes to look at the token.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
)

func main() {
	stile := flag.String("stile", "127.0.0.1:5625", "addresses of the lock servers")
	job := flag.String("job", "", "the job's name, the same on all machines")
	// Cron starts at full minutes: clocks that are a little apart name the same.
	run := flag.String("run", time.Now().UTC().Round(time.Minute).Format("2006-01-02T15:04"), "the run's name, the same on all machines")
	limit := flag.Duration("limit", 10*time.Minute, "how long a run takes at most")
	lease := flag.Duration("lease", 30*time.Second, "how long after a machine's death the next one runs it")
	flag.Parse()
	if *job == "" || flag.NArg() == 0 {
		log.Fatal("usage: cron -job NAME [options] COMMAND [ARGUMENTS]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := client.Dial(ctx, *stile, client.RetryFor(5*time.Second))
	if err == nil {
		key := fmt.Sprintf("cron/%s/%s", *job, *run)
		err = c.Do(ctx, key, func(ctx context.Context, lock *client.Lock) error { return once(ctx, c, lock, *limit) }, client.Lease(*lease))
		c.Close()
	}
	if err != nil {
		log.Fatalf("%s, run %s: %v", *job, *run, err)
	}
}

// once runs the command if nobody has. That it is done is a key of its own.
func once(ctx context.Context, c *client.Client, lock *client.Lock, limit time.Duration) error {
	done := lock.Key() + "/done"
	switch err := c.Do(ctx, done, func(context.Context, *client.Lock) error { return nil }, client.Wait(-1)); {
	case errors.Is(err, client.ErrTimeout):
		fmt.Println(lock.Key(), "is done elsewhere")
		return nil
	case err != nil:
		return err
	}
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(timed, flag.Arg(0), flag.Args()[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "FENCING_TOKEN="+fence.FormatGrant(lock)) // for what it writes to
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                    // all that it has started ends with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		return err // the next in line tries
	}
	//stile:kept to the end of its lease, until all others have looked
	if _, err := c.Acquire(ctx, done, client.Lease(2*time.Minute), client.Wait(-1)); err != nil {
		return fmt.Errorf("done, but another machine may run it, too: %w", err)
	}
	fmt.Println(lock.Key(), "is done here, with token", lock.Token())
	return nil
}
