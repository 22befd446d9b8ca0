package testee

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type nobody struct{}

func (nobody) Sent(string, string)         {}
func (nobody) Received(string, string)     {}
func (nobody) Note(string, string, ...any) {}

const hello = `echo '{"stile_testee":1,"client":"sh","version":"0","profiles":["core"]}'; `

func open(t *testing.T, script string) *Session {
	t.Helper()
	s, err := Open(t.Context(), Command(hello+script), nobody{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func call(t *testing.T, s *Session, do string) *Call {
	t.Helper()
	c, err := s.Send(Request{Do: do})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wait waits for the end of the session or of the call.
func wait(t *testing.T, s *Session, c *Call) error {
	t.Helper()
	select {
	case <-c.Done():
		return nil
	case <-s.Ended():
		return s.Err()
	case <-time.After(10 * time.Second):
		t.Fatal("nothing in 10 s")
		return nil
	}
}

func TestRepliesInAnyOrder(t *testing.T) {
	s := open(t, `read a; read b; echo '{"id":2,"ok":true}'; echo '{"event":"lost","lock":1}'; echo '{"id":1,"error":"timeout","outcome":"no"}'; read c`)
	first, second := call(t, s, "acquire"), call(t, s, "release")
	if err := wait(t, s, first); err != nil {
		t.Fatal(err)
	}
	if err := wait(t, s, second); err != nil {
		t.Fatal(err)
	}
	if r, _ := first.Reply(); r.Error != "timeout" || r.Outcome != "no" {
		t.Errorf("%+v", r)
	}
	if _, lost, _ := s.Lost(1); !lost {
		t.Error("the event was not noted")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestBadHandshakes(t *testing.T) {
	for script, want := range map[string]string{
		`echo starting`:                          "log to stderr",
		`echo '{"client":"x"}'`:                  "without the field",
		`echo '{"stile_testee":9}'`:              "version 9",
		`echo '{"stile_testee":1}'`:              "does not name the client",
		`echo '{"stile_testee":1,"client":"x"}'`: "profile core",
		`echo no such library >&2; exit 3`:       "status 3\nthe last lines of its stderr:\nno such library",
		`kill -9 $$`:                             "by a signal: killed",
		`printf '{"stile_testee":1'`:             "17 bytes of a line without its end",
	} {
		_, err := Open(t.Context(), Command(script), nobody{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", script, err, want)
		}
	}
}

func TestLies(t *testing.T) {
	for script, want := range map[string]string{
		`echo hello`: "log to stderr",
		`echo`:       "one line end too many",
		`echo '{"id":1,"ok":true}{"id":2,"ok":true}'`: "two objects",
		`echo '{"id":1,'`:                                  "ends too early",
		`echo '{"id":7,"ok":true}'`:                        "which it was not asked",
		`echo '{"ok":true}'`:                               "without the id",
		`echo '{"id":1,"ok":true,"error":"timeout"}'`:      "exactly one of",
		`echo '{"id":1}'`:                                  "this one has 0",
		`echo '{"id":1,"error":"went wrong"}'`:             "no error kind",
		`echo '{"id":1,"error":"timeout"}'`:                `needs an "outcome"`,
		`echo '{"id":1,"error":"refused","outcome":"no"}'`: `needs the "code"`,
		`echo '{"event":"found","lock":1}'`:                "the one event there is",
	} {
		s := open(t, "read a; "+script+"; sleep 5")
		c := call(t, s, "acquire")
		if err := wait(t, s, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", script, err, want)
		}
	}
}

func TestSecondReplyIsFatal(t *testing.T) {
	s := open(t, `read a; echo '{"id":1,"ok":true}'; echo '{"id":1,"ok":true}'; sleep 5`)
	call(t, s, "dial")
	<-s.Ended()
	if err := s.Err(); !strings.Contains(err.Error(), "a second time") {
		t.Error(err)
	}
	if _, err := s.Send(Request{Do: "close"}); err == nil {
		t.Error("a session that is over takes requests")
	}
}

func TestDeath(t *testing.T) {
	s := open(t, `read a; echo out of memory >&2; exit 4`)
	c := call(t, s, "acquire")
	err := wait(t, s, c)
	var died Died
	if !errors.As(err, &died) || !strings.Contains(err.Error(), "status 4") || !strings.Contains(err.Error(), "out of memory") {
		t.Error(err)
	}
}

// What never ends is not kept for ever.
func TestEndlessOutput(t *testing.T) {
	s := open(t, `exec cat /dev/zero`)
	c := call(t, s, "acquire")
	var died Died
	if err := wait(t, s, c); !errors.As(err, &died) || !strings.Contains(err.Error(), "more than") || len(err.Error()) > 10_000 {
		t.Errorf("%.300v", err)
	}
}

func TestHangIsEndedWithItsChildren(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "quit")
	s := open(t, `trap 'echo asked > `+mark+`; sleep 100' QUIT; sleep 100 & while :; do sleep 0.1; done`)
	c := call(t, s, "acquire")
	if text := s.Hung(c, time.Second); !strings.Contains(text, "request 1 (acquire)") {
		t.Error(text)
	}
	began := time.Now()
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "did not exit") {
		t.Error(err)
	}
	if d := time.Since(began); d > exitLimit+3*time.Second {
		t.Errorf("closing took %v", d)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error("no SIGQUIT came before the end")
	}
}

func TestPartialLineIsTold(t *testing.T) {
	s := open(t, `read a; printf '{"id":1,"ok"'; sleep 5`)
	c := call(t, s, "acquire")
	for range 100 {
		if strings.Contains(s.Hung(c, time.Second), "12 bytes of a line") {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error(s.Hung(c, time.Second))
}

func TestInterruptWhileStarting(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, Command("sleep 30"), nobody{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestTail(t *testing.T) {
	var tail Tail
	for range 100 {
		tail.Write([]byte("li"))
		tail.Write([]byte("ne\nlast"))
		tail.Write([]byte("\n"))
	}
	if n := strings.Count(tail.String(), "\n"); n != tailLines-1 {
		t.Errorf("%d lines", n+1)
	}
	if !strings.HasSuffix(tail.String(), "line\nlast") {
		t.Error(tail.String())
	}
}

// TestPageIsWhole: TESTEE.md has every error kind and outcome, and its example
// session is one.
func TestPageIsWhole(t *testing.T) {
	page, err := os.ReadFile("../TESTEE.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind, meaning := range Errors {
		if row := "| `" + kind + "` | "; !strings.Contains(string(page), row) {
			t.Errorf("no row for %s: %s", kind, meaning)
		}
	}
	for outcome := range Outcomes {
		if !strings.Contains(string(page), "`"+outcome+"`") {
			t.Errorf("nothing about the outcome %s", outcome)
		}
	}
	lines := 0
	for _, line := range strings.Split(string(page), "\n") {
		if json, ok := strings.CutPrefix(line, "testee  {"); ok {
			lines++
			parse := func() (err error) { _, err = parseReply("{" + json); return err }
			if lines == 1 {
				parse = func() (err error) { _, err = parseHello("{" + json); return err }
			}
			if err := parse(); err != nil {
				t.Error(err)
			}
		}
	}
	if lines < 5 {
		t.Errorf("the example has %d lines of the testee", lines)
	}
}
