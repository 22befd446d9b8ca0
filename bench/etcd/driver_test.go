package etcd

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/proc"
)

// TestLoad is about the real etcd, where there is one.
func TestLoad(t *testing.T) {
	path, err := proc.Find("etcd")
	if err != nil {
		t.Skip(err)
	}
	s, err := proc.StartEtcd(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for name, p := range map[string]load.Plan{
		"apart":    {Connections: 4, Keys: 100},
		"shared":   {Connections: 4, Keys: 2, Shared: true},
		"given up": {Connections: 4, Keys: 1, Shared: true, Hold: 5 * time.Millisecond, Cancel: 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			p.Duration = 200 * time.Millisecond
			for {
				r, err := Driver{Addr: s.Addr}.Run(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				if r.Driver != "etcd" || r.Target != s.Addr {
					t.Errorf("%+v", r)
				}
				if r.Pairs > 0 && (r.Cancelled > 0) == (p.Cancel > 0) {
					return
				}
				// Nothing has come about: a disk may be this slow.
				if p.Duration *= 2; p.Duration > time.Minute {
					t.Fatalf("%+v", r)
				}
			}
		})
	}
}

func TestNoEtcd(t *testing.T) {
	defer func(was time.Duration) { patience = was }(patience)
	patience = 50 * time.Millisecond
	_, err := Driver{Addr: "127.0.0.1:1"}.Run(t.Context(), load.Plan{})
	if err == nil || !strings.Contains(err.Error(), "no etcd answers at 127.0.0.1:1") {
		t.Errorf("the error is %v", err)
	}
	if _, err := (Driver{}).Run(context.Background(), load.Plan{Depth: -1}); err == nil || !strings.Contains(err.Error(), "a depth of -1") {
		t.Errorf("the error is %v", err)
	}
}
