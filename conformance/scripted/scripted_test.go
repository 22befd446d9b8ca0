package scripted

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cucumber/godog"

	"github.com/stile-lock/stile/conformance/report"
	"github.com/stile-lock/stile/conformance/suite"
)

// inScenario calls f within a scenario, as a World is only there in one. What
// f returns is the scenario's failure.
func inScenario(t *testing.T, f func(*suite.World) error) *report.Scenario {
	t.Helper()
	files := fstest.MapFS{"x.feature": {Data: []byte("Feature: F\n\n  Rule: 1.1 R\n\n    @C-1.1-x @core @must\n    Scenario: S\n      Given it\n")}}
	run, err := suite.Run(t.Context(), suite.Half{
		FS:      files,
		Prepare: func(context.Context) (suite.Target, error) { return suite.Target{Judged: []string{"core"}}, nil },
		Register: func(sc *godog.ScenarioContext, w *suite.World) {
			sc.Step("^it$", func() error { return f(w) })
		},
	}, suite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return run.Scenarios[0]
}

type peer struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, s *Server) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(5 * time.Second))
	return &peer{nc, bufio.NewReader(nc)}
}

func (p *peer) ask(t *testing.T, line string) string {
	t.Helper()
	p.Write([]byte(line + "\n"))
	answer, err := p.in.ReadString('\n')
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
	return strings.TrimSuffix(answer, "\n")
}

func TestServes(t *testing.T) {
	s := inScenario(t, func(w *suite.World) error {
		n := New(w)
		one, _ := n.NewServer()
		two, _ := n.NewServer()
		p := dial(t, one)
		for line, want := range map[string]string{
			"H 1 me":        "H 1 " + one.Addr + " keep,ping,hello,resume",
			"P word":        "P word",
			"R door 7":      "R door 7",
			"K door 7 2.50": "K door 7 2.5",
			"C door n1":     "C door n1",
			"A door 0 0 n1": "A door 101 30",
		} {
			if got := p.ask(t, line); got != want {
				t.Errorf("%s: %s; want %s", line, got, want)
			}
		}
		if got := dial(t, two).ask(t, "A door -1 5"); got != "A door 102 5" {
			t.Error(got)
		}
		one.On("A", 1, Say("M A KEY ADDR2", 0))
		one.On("A", 1, Say("M A KEY 0.0.0.0:PORT2", 0))
		_, port, _ := net.SplitHostPort(two.Addr)
		if got := p.ask(t, "A door 0 0"); got != "M A door 0.0.0.0:"+port {
			t.Error(got)
		}
		if got := p.ask(t, "A door 0 0"); got != "M A door "+two.Addr {
			t.Error(got)
		}
		if got := p.ask(t, "A door 0 0"); got != "A door 103 30" {
			t.Error(got)
		}
		one.Core()
		if got := p.ask(t, "C door n1"); got != "E C door unknown-op" {
			t.Error(got)
		}
		return nil
	})
	if s.Outcome != report.Passed {
		t.Error(s.Failure, s.Reason)
	}
}

func TestJudgesEveryLine(t *testing.T) {
	s := inScenario(t, func(w *suite.World) error {
		v, _ := New(w).NewServer()
		dial(t, v).ask(t, "A door 5. 30")
		return nil
	})
	if s.Outcome != report.Failed || !strings.Contains(s.Failure.Seen, `"A door 5. 30", which is bad-request`) {
		t.Error(s.Outcome, s.Failure)
	}
}

func TestEndsOfConnections(t *testing.T) {
	s := inScenario(t, func(w *suite.World) error {
		n := New(w)
		v, _ := n.NewServer()
		v.On("A", 0, ResetOn)
		p := dial(t, v)
		p.Write([]byte("A door 0 0\n"))
		if _, err := p.in.ReadString('\n'); !errors.Is(err, syscall.ECONNRESET) {
			t.Error("a reset before the answer:", err)
		}
		ends := func(text string) {
			t.Helper()
			ok, _ := n.Wait(5*time.Second, func() bool {
				return len(n.Entries(func(e *Entry) bool { return e.Kind == End && e.Text == text })) > 0
			})
			if !ok {
				t.Error("not seen: " + text)
			}
		}
		dial(t, v).Close()
		ends("the client closed the connection")
		q := dial(t, v)
		q.ask(t, "P x")
		q.Conn.(*net.TCPConn).SetLinger(0)
		q.Close()
		ends("the client reset the connection")

		v.Down()
		if _, err := net.Dial("tcp", v.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error("down:", err)
		}
		if err := v.Up(); err != nil {
			t.Error(err)
		}
		dial(t, v).ask(t, "P x")
		v.HangUp(true)
		// The reset may come before the client has seen that it is connected.
		r, err := net.Dial("tcp", v.Addr)
		if err == nil {
			r.SetDeadline(time.Now().Add(5 * time.Second))
			_, err = r.Read(make([]byte, 1))
			r.Close()
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Error("hung up:", err)
		}
		v.HangUp(false)
		v.Silence()
		b := dial(t, v)
		b.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		b.Write([]byte("P x\n"))
		if _, err := b.in.ReadByte(); !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "timeout") {
			t.Error("silent:", err)
		}
		return nil
	})
	if s.Outcome != report.Passed {
		t.Error(s.Failure, s.Reason)
	}
}

func TestDelayKeepsTheOrder(t *testing.T) {
	inScenario(t, func(w *suite.World) error {
		v, _ := New(w).NewServer()
		p := dial(t, v)
		v.Delay(200 * time.Millisecond)
		began := time.Now()
		p.Write([]byte("P one\n"))
		w.Sleep(50 * time.Millisecond)
		v.Delay(0)
		if got := p.ask(t, "P two"); got != "P one" {
			t.Error(got)
		}
		if d := time.Since(began); d < 200*time.Millisecond {
			t.Error(d)
		}
		return nil
	})
}
