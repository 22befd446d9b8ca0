package lost

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
	"github.com/stile-lock/stile/client/fence/fencetest/servers"
)

// What a sleeper writes.
const (
	sleeperRead    = "read"    // it has read the counter, and is about to write
	sleeperWrote   = "wrote"   // and it was accepted
	sleeperRefused = "refused" // as stale
)

// Sleeper is the main function of the process that is paused. For each line of
// in it adds one to the counter, and tells what it is at: it is paused after
// [sleeperRead], and waits for another line to write. So it is never paused
// within a transaction, where it would hold the guard's row. It ends with in.
func Sleeper(ctx context.Context, name, addrs, url string, in io.Reader, out io.Writer) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := client.Dial(ctx, addrs, client.RetryFor(patience))
	if err != nil {
		return err
	}
	defer c.Close()
	count := &counter{name: name, db: db}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		lock, err := c.Acquire(ctx, name, client.Wait(patience), client.Lease(lease))
		if err != nil {
			return err
		}
		err = count.add(ctx, lock, func() {
			// Even one that looks at its lease right before it writes can be
			// paused in between.
			fmt.Fprintln(out, sleeperRead)
			lines.Scan()
		})
		lock.Release(ctx) // it may be over
		switch {
		case err == nil:
			fmt.Fprintln(out, sleeperWrote)
		case errors.Is(err, fence.ErrStale):
			fmt.Fprintln(out, sleeperRefused)
		default:
			return err
		}
	}
	return nil
}

// sleeper is such a process.
type sleeper struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out chan string
	err strings.Builder
}

func startSleeper(command []string, name, addrs, url string) (*sleeper, error) {
	s := &sleeper{cmd: exec.Command(command[0], append(command[1:], name, addrs, url)...), out: make(chan string, 10)}
	s.cmd.SysProcAttr = servers.Child(syscall.SIGKILL)
	s.cmd.Stderr = &s.err
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.out)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.out <- lines.Text()
		}
	}()
	return s, nil
}

// tell gives it the line that it waits for.
func (s *sleeper) tell(line string) error {
	_, err := io.WriteString(s.in, line+"\n")
	return err
}

// says waits for what it writes next.
func (s *sleeper) says(ctx context.Context) (string, error) {
	select {
	case line, ok := <-s.out:
		if !ok {
			s.cmd.Wait()
			return "", fmt.Errorf("the holder that sleeps has ended: %s", s.err.String())
		}
		return line, nil
	case <-time.After(2 * patience):
		return "", errors.New("the holder that sleeps says nothing")
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (s *sleeper) signal(sig syscall.Signal) error { return s.cmd.Process.Signal(sig) }

func (s *sleeper) close() {
	s.in.Close()
	s.cmd.Process.Kill()
	for range s.out {
	}
	s.cmd.Wait()
}
