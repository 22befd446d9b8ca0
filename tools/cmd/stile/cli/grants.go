package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/tools/cmd/stile/job"
)

// waiting is how lock and acquire wait.
type waiting struct {
	Wait   *time.Duration `short:"w" placeholder:"DURATION" help:"Wait this long at most, like 10s. Without it: without limit."`
	NoWait bool           `short:"n" help:"Do not wait at all: obtain KEY at once, or fail."`
}

// leasing is the lease that they ask for.
type leasing struct {
	Lease time.Duration `short:"l" default:"30s" help:"The lease (${default}): when its holder dies, KEY is free this long after the last renewal."`
}

// check refuses what can be read in two ways.
func (w *waiting) check() error {
	switch {
	case w.Wait == nil:
	case w.NoWait:
		return failed(ExitFailure, "--wait and --no-wait exclude each other: give one of them")
	case *w.Wait == 0:
		return failed(ExitFailure, "--wait 0s can be read in two ways: give --no-wait to obtain KEY at once or fail, or leave --wait out to wait without limit")
	case *w.Wait < 0:
		return failed(ExitFailure, "--wait %v is below 0: give a duration like 10s, or --no-wait", *w.Wait)
	}
	return nil
}

// limit is the wait as the client takes it: 0 is none.
func (w *waiting) limit() time.Duration {
	if w.Wait == nil {
		return 0
	}
	return *w.Wait
}

func checkLease(d time.Duration) error {
	if d < time.Millisecond {
		return failed(ExitFailure, "--lease %v is too short: give a duration like 30s", d)
	}
	return nil
}

// giveBack releases a lock. After the end of its lease there is nothing left
// to give back, so it is tried no longer than that; the error is then
// context.DeadlineExceeded.
func giveBack(ctx context.Context, lock *client.Lock) error {
	ctx, cancel := context.WithDeadline(ctx, lock.Expires())
	defer cancel()
	return lock.Release(ctx)
}

// acquire takes the key, or tells in an error why not. A signal ends it.
func (a *app) acquire(c *client.Client, key string, w waiting, lease time.Duration, signals <-chan os.Signal) (*client.Lock, error) {
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	var got os.Signal
	granted, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case got = <-signals:
			cancel()
		case <-granted:
		}
	}()
	var lock *client.Lock
	var err error
	if w.NoWait {
		lock, err = c.TryAcquire(ctx, key, client.Lease(lease))
	} else {
		lock, err = c.Acquire(ctx, key, client.Wait(w.limit()), client.Lease(lease))
	}
	close(granted)
	<-watched
	if got != nil {
		if err == nil {
			giveBack(a.ctx, lock)
		}
		return nil, &exitError{status: job.Status(got), interrupted: got == os.Interrupt}
	}
	var e *client.Error
	if errors.Is(err, client.ErrTimeout) && !(errors.As(err, &e) && e.Unserved) {
		how := "at once"
		if !w.NoWait {
			how = "within " + w.limit().String()
		}
		return nil, failed(ExitNotObtained, "%q was not obtained %s: others have it, or wait for it; `stile keys` tells who", key, how)
	}
	if err == nil {
		a.warnIfCut(lock, lease)
	}
	return lock, err
}

// grant is what acquire and keep print. A token can be greater than what
// programs keep exactly that read every number as a double, so it is there as
// text, too.
type grant struct {
	Key       string    `json:"key"`
	Token     uint64    `json:"token"`
	TokenText string    `json:"token_text"`
	Lease     float64   `json:"lease_s"` // what is left of it
	Expires   time.Time `json:"expires"`
}

func grantOf(l *client.Lock) grant {
	left := time.Until(l.Expires())
	return grant{
		Key: l.Key(), Token: l.Token(), TokenText: strconv.FormatUint(l.Token(), 10),
		Lease: left.Truncate(time.Millisecond).Seconds(), Expires: time.Now().Add(left).UTC(),
	}
}

type acquireCommand struct {
	Key string `arg:"" help:"The key: 1 to 255 bytes without spaces."`
	waiting
	leasing
	JSON bool `help:"Print key, token and the end of the lease as JSON."`
}

// Help is shown by --help, and in the man page.
func (*acquireCommand) Help() string {
	return `The lock outlives the command: keep renews it and release gives it back, both by KEY and token, on any machine. If neither comes, it ends with its lease.

    token=$(stile acquire backup --wait 1m --lease 10m) || exit
    tar cf /backup/new.tar /data
    stile release backup --token "$token"

If the token can't be printed, the lock is given back, and the exit status is 125.`
}

func (k *acquireCommand) Run(a *app) error {
	if err := k.check(); err != nil {
		return err
	}
	if err := checkLease(k.Lease); err != nil {
		return err
	}
	// Before the wait: the token would be lost, and the key held by nobody.
	if f := fileOf(a.Out); f != nil && isClosed(f) {
		return failed(ExitFailure, "standard output is closed, so that nobody would have the token: nothing was acquired. Who needs no token can give >/dev/null")
	}
	signals := make(chan os.Signal, 8)
	job.Catch(signals)
	defer signal.Stop(signals)
	// A closed standard output must come back as an error.
	signal.Ignore(syscall.SIGPIPE)
	c, err := a.connect(a.ctx)
	if err != nil {
		return err
	}
	defer c.Close() // which releases nothing
	lock, err := a.acquire(c, k.Key, k.waiting, k.Lease, signals)
	if err != nil {
		return err
	}
	g := grantOf(lock)
	if k.JSON {
		err = a.json(g)
	} else {
		_, err = fmt.Fprintln(a.Out, g.Token)
	}
	if err != nil {
		giveBack(a.ctx, lock)
		return failed(ExitFailure, "the token could not be printed, so the lock was given back: %w", err)
	}
	return nil
}

// named is a grant as keep and release are told of it.
type named struct {
	Key   string `arg:"" help:"The key."`
	Token uint64 `type:"token" short:"t" required:"" env:"STILE_TOKEN" placeholder:"N" help:"The token, as acquire printed it."`
}

type keepCommand struct {
	named
	leasing
	JSON bool `help:"Print key, token and the end of the lease as JSON."`
}

// Help is shown by --help, and in the man page.
func (*keepCommand) Help() string {
	return `The lease of KEY ends --lease from now, whatever was left of it. A lease that has ended never revives: then the exit status is 123.`
}

func (k *keepCommand) Run(a *app) error {
	if err := checkLease(k.Lease); err != nil {
		return err
	}
	c, err := a.connect(a.ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	// It stays with whoever has the token: this only makes its lease longer.
	lock, err := c.Adopt(a.ctx, k.Key, k.Token, k.Lease)
	if err != nil {
		return err
	}
	a.warnIfCut(lock, k.Lease)
	if k.JSON {
		return a.json(grantOf(lock))
	}
	return nil
}

type releaseCommand struct {
	named
	JSON bool `help:"Print key and token as JSON."`
}

// Help is shown by --help, and in the man page.
func (*releaseCommand) Help() string {
	return `The first in line has KEY at once. Exit status 123 says that it was not held any more: the lease had ended, and what was done last was possibly not protected.`
}

func (k *releaseCommand) Run(a *app) error {
	c, err := a.connect(a.ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Release(a.ctx, k.Key, k.Token); err != nil {
		return err
	}
	if k.JSON {
		return a.json(struct {
			Key       string `json:"key"`
			Token     uint64 `json:"token"`
			TokenText string `json:"token_text"`
		}{k.Key, k.Token, strconv.FormatUint(k.Token, 10)})
	}
	return nil
}

func (a *app) json(v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.Out.Write(plain(text.Bytes()))
	return err
}

// plain escapes what is left of control characters in JSON, U+0080 to U+009F:
// a terminal may do what they say.
func plain(text []byte) (out []byte) {
	for i, r := range string(text) {
		if r >= 0x80 && r < 0xa0 {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, text[i:i+utf8.RuneLen(r)]...)
		}
	}
	return out
}
