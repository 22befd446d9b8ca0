package testee

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/stile-lock/stile/conformance/lines"
)

// Times that the contract gives a testee.
const (
	startLimit = 20 * time.Second // for the handshake: a virtual machine may have to start
	// exitLimit is counted from the end of its input. The contract says 2 s;
	// the rest is for a machine that is busy.
	exitLimit = 5 * time.Second
)

// Recorder takes the lines of a session for a transcript.
type Recorder interface {
	Sent(conn, line string)
	Received(conn, line string)
	Note(conn, format string, args ...any)
}

// Session is a testee that runs.
type Session struct {
	Hello Hello
	rec   Recorder
	pipes *Pipes

	writing sync.Mutex

	mu      sync.Mutex
	next    int
	pending map[int]*Call
	done    map[int]bool
	lost    map[int]time.Time // when the event "lost" of a lock came
	partial int               // bytes of a line that has not ended
	err     error             // why nothing more will come
	ended   chan struct{}     // closed with err
	changed chan struct{}     // closed and made anew at each event
	closing bool
}

// Call is a request that was sent.
type Call struct {
	Request Request
	SentAt  time.Time

	done  chan struct{}
	reply Reply
	at    time.Time
}

// Done is closed when the reply is there.
func (c *Call) Done() <-chan struct{} { return c.done }

// Reply is the reply and when it came, once Done is closed.
func (c *Call) Reply() (Reply, time.Time) { return c.reply, c.at }

// Open starts a testee and waits for its handshake.
func Open(ctx context.Context, p Program, rec Recorder) (*Session, error) {
	pipes, err := p.Start()
	if err != nil {
		return nil, fmt.Errorf("the testee could not be started: %w", err)
	}
	s := &Session{
		rec: rec, pipes: pipes, pending: map[int]*Call{}, done: map[int]bool{}, lost: map[int]time.Time{},
		ended: make(chan struct{}), changed: make(chan struct{}),
	}
	hello := make(chan string, 1)
	go s.read(hello)
	timer := time.NewTimer(startLimit)
	defer timer.Stop()
	select {
	case line := <-hello:
		if s.Hello, err = parseHello(line); err == nil {
			return s, nil
		}
	case <-s.ended:
		err = s.Err()
	case <-timer.C:
		err = fmt.Errorf("no handshake from the testee within %v%s", startLimit, s.progress())
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.kill()
	return nil, s.withStderr(err)
}

func (s *Session) read(hello chan<- string) {
	in := bufio.NewReader(countPartial{lines.Bounded(s.pipes.Out, lines.MaxRead), s})
	for first := true; ; first = false {
		line, err := in.ReadString('\n')
		now := time.Now()
		s.mu.Lock()
		s.partial = in.Buffered()
		s.mu.Unlock()
		if err != nil {
			s.fail(s.endOfOutput(line, err))
			return
		}
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if first {
			hello <- line
			continue
		}
		s.rec.Received("testee", line)
		r, err := parseReply(line)
		if err == nil {
			err = s.take(r, now, line)
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

// countPartial counts what came of a line that has not ended.
type countPartial struct {
	io.Reader
	s *Session
}

func (c countPartial) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.s.mu.Lock()
	c.s.partial += n
	c.s.mu.Unlock()
	return n, err
}

func (s *Session) endOfOutput(rest string, err error) error {
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	if closing {
		return errors.New("the testee was told to end")
	}
	how := "the testee closed its stdout"
	if status := s.pipes.Status(500 * time.Millisecond); status != "" {
		how = "the testee ended: " + status
	}
	if !errors.Is(err, io.EOF) {
		how = "the testee's stdout can't be read on: " + err.Error()
	}
	if rest != "" {
		how += fmt.Sprintf(", after %d bytes of a line without its end: %s", len(rest), quote(rest))
	}
	return Died{s.withStderr(errors.New(how)).Error()}
}

// Died is the error of a testee that ended while it was needed.
type Died struct{ How string }

func (d Died) Error() string { return d.How }

func (s *Session) take(r Reply, now time.Time, line string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Event != "" {
		if _, ok := s.lost[r.Lock]; !ok {
			s.lost[r.Lock] = now
		}
		close(s.changed)
		s.changed = make(chan struct{})
		return nil
	}
	c := s.pending[r.ID]
	switch {
	case c == nil && s.done[r.ID]:
		return fmt.Errorf("the testee replied to %d a second time: %s", r.ID, quote(line))
	case c == nil:
		return fmt.Errorf("the testee replied to %d, which it was not asked: %s", r.ID, quote(line))
	}
	delete(s.pending, r.ID)
	s.done[r.ID] = true
	c.reply, c.at = r, now
	close(c.done)
	return nil
}

func (s *Session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.ended)
	}
}

// Err is why the session is over: a Died, or what the testee wrote that is
// against the contract.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Ended is closed when the session is over.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// Send sends a request. Its id is given here, and is known before a reply can
// come.
func (s *Session) Send(r Request) (*Call, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return nil, s.err
	}
	s.next++
	r.ID = s.next
	c := &Call{Request: r, done: make(chan struct{})}
	s.pending[r.ID] = c
	s.mu.Unlock()
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	s.rec.Sent("testee", string(line))
	c.SentAt = time.Now()
	written := make(chan error, 1)
	go func() {
		_, err := s.pipes.In.Write(append(line, '\n'))
		written <- err
	}()
	select {
	case err = <-written:
	case <-time.After(5 * time.Second):
		err = errors.New("it does not read its stdin")
	}
	if err != nil {
		select {
		case <-s.ended: // the better reason
			return nil, s.Err()
		case <-time.After(time.Second):
		}
		return nil, Died{s.withStderr(fmt.Errorf("the testee could not be told %s: %w", line, err)).Error()}
	}
	return c, nil
}

// Lost returns when the testee said that a lock was lost, and a channel that
// is closed when it may have said so since.
func (s *Session) Lost(lock int) (at time.Time, lost bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, lost = s.lost[lock]
	return at, lost, s.changed
}

// Progress says, for a reply that did not come, what came instead.
func (s *Session) progress() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.partial > 0 {
		return fmt.Sprintf(" (%d bytes of a line had arrived, without its end: is stdout flushed after each line?)", s.partial)
	}
	return ""
}

// Hung makes the error of a reply that did not come.
func (s *Session) Hung(c *Call, after time.Duration) string {
	return fmt.Sprintf("no reply to request %d (%s) within %v%s", c.Request.ID, c.Request.Do, after.Round(10*time.Millisecond), s.progress())
}

// Close ends the testee: end of input first; if it does not exit, a signal on
// which many runtimes print their stacks, then the end of its process group.
// The error says that it had to be forced.
func (s *Session) Close() error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.pipes.In.Close()
	status := s.pipes.Status(exitLimit)
	s.fail(errors.New("the testee was told to end"))
	if status != "" {
		return nil
	}
	s.kill()
	err := s.withStderr(fmt.Errorf("the testee did not exit within %v after the end of its input", exitLimit))
	s.rec.Note("testee", "%v", err)
	return err
}

func (s *Session) kill() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.pipes.In.Close()
	if s.pipes.Status(0) == "" {
		s.pipes.Quit()
		if s.pipes.Status(500*time.Millisecond) == "" {
			s.pipes.Kill()
			s.pipes.Status(time.Second)
		}
	}
}

// withStderr adds the end of the testee's stderr to an error.
func (s *Session) withStderr(err error) error {
	if err == nil {
		return nil
	}
	if tail := s.pipes.Stderr(); tail != "" {
		return fmt.Errorf("%w\nthe last lines of its stderr:\n%s", err, tail)
	}
	return err
}
