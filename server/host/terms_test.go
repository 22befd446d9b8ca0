package host

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stile-lock/stile/server/fencing"
	"github.com/stile-lock/stile/server/history"
	"github.com/stile-lock/stile/server/node"
	"github.com/stile-lock/stile/server/peers"
)

// patience is for busy machines; nothing depends on it but how long a failing
// test takes.
const patience = 20 * time.Second

func set(secrets ...string) (all [][]byte) {
	for _, s := range secrets {
		all = append(all, []byte(s))
	}
	return all
}

func TestDiffer(t *testing.T) {
	const there, here = 7, 9
	for _, tt := range []struct {
		name                string
		ours, theirs        [][]byte
		oursTLS, theirsTLS  bool
		want                string
		fromOther, toOthers uint64 // of theirs, where they are of other processes
	}{
		{name: "none"},
		{name: "the same", ours: set("a"), theirs: set("a")},
		{name: "ours changes", ours: set("a", "b"), theirs: set("a")},
		{name: "both change", ours: set("b", "a"), theirs: set("a", "c")},
		{name: "certificates", ours: set("a"), theirs: set("a"), oursTLS: true, theirsTLS: true},
		{name: "others", ours: set("a"), theirs: set("b"), want: "another secret"},
		{name: "others twice", ours: set("a", "b"), theirs: set("c", "d"), want: "another secret"},
		{name: "none there", ours: set("a"), want: "for no secret"},
		{name: "none here", theirs: set("a"), want: "for a secret"},
		{name: "a certificate there", theirsTLS: true, want: "for a certificate"},
		{name: "a certificate here", ours: set("a"), theirs: set("a"), oursTLS: true, want: "for no certificate"},
		// What one process was told is of no use to another.
		{name: "replayed", ours: set("a"), theirs: set("a"), fromOther: 1, want: "another secret"},
		{name: "sent on", ours: set("a"), theirs: set("a"), toOthers: 1, want: "another secret"},
	} {
		sent := termsOf(tt.theirs, tt.theirsTLS, there+tt.fromOther, here+tt.toOthers).append(nil)
		got, ok := readTerms(sent)
		if !ok {
			t.Fatalf("%s: %x can't be read", tt.name, sent)
		}
		said := differ(termsOf(tt.ours, tt.oursTLS, there, here), got)
		if (said == "") != (tt.want == "") || !strings.Contains(said, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, said, tt.want)
		}
		for _, secret := range append(tt.ours, tt.theirs...) {
			if len(secret) > 1 && bytes.Contains(sent, secret) {
				t.Errorf("%s: the secret is in %x", tt.name, sent)
			}
		}
	}
	good := termsOf(set("a"), true, there, here).append(nil)
	for _, bad := range [][]byte{nil, good[:1], good[:len(good)-1], {termsFrame, 2}, append(good, make([]byte, 8*maxProofs)...)} {
		if _, ok := readTerms(bad); ok {
			t.Errorf("%x is read", bad)
		}
	}
}

// lines is a log that may be read while it is written.
type lines struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.out.String(), text)
}

// Nodes that ask different things of clients say so, once, while they differ, and
// not any more when the secrets have one in common.
func TestTermsOfPeers(t *testing.T) {
	var listeners []net.Listener
	var list peers.List
	for id := range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		list = append(list, peers.Peer{ID: uint8(id), Addr: l.Addr().String()})
	}
	var logs [2]lines
	var hosts [2]*Host
	start := func(id int, secrets [][]byte) {
		store, err := fencing.OpenStore(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.NewTextHandler(&logs[id], nil))
		h := New(Config{
			Node: node.Config{Secrets: secrets, Log: log}, Peers: list, Self: id, Secret: []byte("of the cluster"),
			Heartbeat: 200 * time.Millisecond, FailureTimeout: 5 * time.Second, BootGrace: time.Second,
			StopTimeout: time.Second, Takeback: time.Second, SyncTimeout: time.Second,
			Store: store, Wall: time.Now, Log: log, History: new(history.Log),
		})
		hosts[id] = h
		go h.Node().Serve(listeners[id])
		t.Cleanup(func() {
			h.Close()
			h.Node().Shutdown(t.Context())
			store.Close()
		})
	}
	start(0, set("old"))
	start(1, set("new"))
	until := func(what string, ok func() bool) {
		t.Helper()
		for begin := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Since(begin) > patience {
				t.Fatalf("not within %v: %s\n%s\n%s", patience, what, &logs[0].out, &logs[1].out)
			}
		}
	}
	const differs, again = "a peer asks something else of clients", "a peer asks the same of clients again"
	see := func(problem string) {
		t.Helper()
		for _, h := range hosts {
			until("problem "+problem, func() bool {
				p := h.Status().PeerViews[0]
				said := strings.Join(p.Differs, "")
				return p.Reached && p.Problem == "" && (said == "") == (problem == "") && strings.Contains(said, problem)
			})
		}
	}
	see("another secret")
	hosts[0].SetClientSecrets(set("old", "new"))
	see("")
	hosts[1].SetClientSecrets(set("new", "newer"))
	see("")
	hosts[0].SetClientSecrets(nil)
	until("one asks for none", func() bool {
		return strings.Contains(strings.Join(hosts[1].Status().PeerViews[0].Differs, ""), "for no secret")
	})
	hosts[0].SetClientSecrets(set("newer"))
	see("")
	for id := range logs {
		until("both are logged", func() bool { return logs[id].count(again) == 2 })
		if n := logs[id].count(differs); n != 2 {
			t.Errorf("node %d logged %d differences, want 2:\n%s", id, n, &logs[id].out)
		}
	}
}
