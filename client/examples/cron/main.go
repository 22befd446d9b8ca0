// Cron runs a command once for each time that the cron of many machines starts
// it, on one of them. If that machine dies, or the command fails, another one
// of them runs it.
//
//	0 3 * * *  cron -job nightly -limit 10m /usr/local/bin/nightly
//
// The clocks of the machines must agree to less than half a minute.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"time"

	"github.com/stile-lock/stile/client"
)

func main() {
	stile := flag.String("stile", "127.0.0.1:5625", "addresses of the lock servers")
	job := flag.String("job", "", "the job's name, the same on all machines")
	// Cron starts at full minutes: clocks that are a little apart name the same.
	run := flag.String("run", time.Now().UTC().Round(time.Minute).Format("2006-01-02T15:04"), "the run's name, the same on all machines")
	limit := flag.Duration("limit", 10*time.Minute, "how long a run takes at most")
	flag.Parse()
	if *job == "" || flag.NArg() == 0 {
		log.Fatal("usage: cron -job NAME [options] COMMAND [ARGUMENTS]")
	}
	ctx := context.Background()
	c, err := client.Dial(ctx, *stile, client.RetryFor(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// Each run has a key of its own.
	key := fmt.Sprintf("cron/%s/%s", *job, *run)

	// All wait in line behind the one that came first: for as long as it may
	// take, should it die.
	lock, err := c.Acquire(ctx, key, client.Lease(*limit), client.Wait(*limit+*limit/10))
	switch {
	case errors.Is(err, client.ErrTimeout):
		fmt.Println(key, "is done elsewhere")
		return
	case err != nil:
		log.Fatal(err)
	}
	cmd := exec.CommandContext(lock.Context(), flag.Arg(0), flag.Args()[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), fmt.Sprint("FENCING_TOKEN=", lock.Token())) // for what it writes to
	if err := cmd.Run(); err != nil {
		lock.Release(ctx) // the next in line tries
		c.Close()
		log.Fatalf("%s: %v", key, err)
	}
	// Done, and not given back: the waits of the others, also of one whose clock
	// is late, end before this does.
	//stile:kept until the lease ends, so that no other machine runs it again
	if err := lock.Keep(ctx, 2**limit+time.Minute); err != nil {
		log.Fatalf("%s: done, but another machine may run it, too: %v", key, err)
	}
	fmt.Println(key, "is done here, with token", lock.Token())
}
