package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stile-lock/stile/server/internal/testca"
)

func TestEnds(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	authority := func(after time.Duration) *x509.Certificate {
		return &x509.Certificate{NotAfter: now.Add(after)}
	}
	for _, tt := range []struct {
		name  string
		files [][]*x509.Certificate
		want  time.Duration // the first end
		shut  time.Duration // the last one of the first file
	}{
		{"one", [][]*x509.Certificate{{authority(time.Hour)}}, time.Hour, time.Hour},
		{"the first", [][]*x509.Certificate{{authority(3 * time.Hour), authority(time.Hour), authority(2 * time.Hour)}}, time.Hour, 3 * time.Hour},
		{"of two files", [][]*x509.Certificate{{authority(3 * time.Hour)}, {authority(time.Hour)}}, time.Hour, 3 * time.Hour},
		{"of two files, turned round", [][]*x509.Certificate{{authority(time.Hour)}, {authority(3 * time.Hour)}}, time.Hour, time.Hour},
		{"one that is over already", [][]*x509.Certificate{{authority(-time.Hour), authority(time.Hour), authority(-time.Minute)}}, time.Hour, time.Hour},
		{"all are over", [][]*x509.Certificate{{authority(-2 * time.Hour), authority(-time.Hour)}}, -time.Hour, -time.Hour},
	} {
		ends := []End{{Which: Node}}
		for i, file := range tt.files {
			ends = firstEnd(ends, []string{clientCA, "--tls-ca"}[i], string(rune('a'+i)), file, now)
		}
		if len(ends) != 2 || ends[1].Which != Authority || !ends[1].At.Equal(now.Add(tt.want)) || !ends[1].Shut.Equal(now.Add(tt.shut)) {
			t.Errorf("%s: %+v, want %v from now, and %v", tt.name, ends, tt.want, tt.shut)
		}
		if e := ends[1]; e.Shuts(e.Shut) || !e.Shuts(e.Shut.Add(1)) || !strings.Contains(e.Problem(e.Shut.Add(1)), "all authorities in --tls-client-ca have ended") {
			t.Errorf("%s: %q", tt.name, e.Problem(e.Shut.Add(1)))
		}
	}
	if ends := firstEnd([]End{{Which: Node}}, "--tls-ca", "a", []*x509.Certificate{authority(time.Hour)}, now); ends[1].Shuts(now.Add(2*time.Hour)) || ends[1].Problem(now.Add(2*time.Hour)) == "" {
		t.Errorf("an authority of peers: %+v", ends)
	}

	end := now.Add(1000 * time.Hour)
	for _, which := range []string{Node, Authority} {
		e := End{Which: which, Flag: "--flag", File: "x.pem", At: end}
		for _, tt := range []struct {
			now  time.Time
			want string
		}{
			{end.Add(-endsSoon), ""},
			{end.Add(-endsSoon + time.Second), " ends at "},
			{end, " ends at "},
			{end.Add(time.Second), " has ended at "},
		} {
			if got := e.Problem(tt.now); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("%s, %v before its end: %q", which, end.Sub(tt.now), got)
			}
		}
	}
}

// logged is a log that may be read while it is written.
type logged struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}

// take returns what was logged since the last time.
func (l *logged) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.out.Reset()
	return l.out.String()
}

// The log warns a day from two weeks before, says at the moment that a certificate
// has ended, and is quiet after a new one.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := testca.New(t, "ours") // for a thousand hours
		start := time.Now()
		issue := func(lasts time.Duration) (cert, key string) {
			return ca.Issue("node", nil, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(lasts) })
		}
		cert, key := issue(20 * 24 * time.Hour)
		c := open(t, Files{Cert: cert, Key: key, ClientCA: ca.File})
		var out logged
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			c.Watch(ctx, slog.New(slog.NewTextHandler(&out, nil)))
			close(ended)
		}()
		says := func(at time.Duration, warnings, errors int) {
			t.Helper()
			time.Sleep(start.Add(at).Sub(time.Now()))
			synctest.Wait()
			text := out.take()
			if w, e := strings.Count(text, "level=WARN"), strings.Count(text, "level=ERROR"); w != warnings || e != errors {
				t.Fatalf("after %v: %d warnings, %d errors, want %d and %d:\n%s", at, w, e, warnings, errors, text)
			}
		}
		const day = 24 * time.Hour
		says(6*day-time.Second, 0, 0)
		says(6*day+2*time.Hour, 1, 0)
		says(7*day, 0, 0)
		says(20*day-time.Minute, 13, 0)
		says(20*day+5*time.Second, 0, 1) // at the moment
		says(22*day, 0, 1)
		issue(30 * day)
		if err := c.Reload(); err != nil {
			t.Fatal(err)
		}
		says(22*day+time.Minute, 0, 0)
		issue(3 * day)
		if err := c.Reload(); err != nil {
			t.Fatal(err)
		}
		says(22*day+2*time.Minute, 1, 0) // at once
		// A broken file changes nothing.
		if err := os.WriteFile(key, []byte("broken"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Reload(); err == nil {
			t.Fatal("a broken key is taken")
		}
		says(22*day+2*time.Hour, 0, 0)
		cancel()
		<-ended
	})
}
