package certs

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// End is when a certificate that this node needs is over.
type End struct {
	Which string // see Node and Authority
	Flag  string // which names its file
	File  string
	At    time.Time
	// Shut is when nobody can connect any more: of Node, when it ends; of
	// Authority, when the last one in --tls-client-ca ends. Zero: nobody has to
	// show a certificate.
	Shut time.Time
}

// What an End is of.
const (
	// Node is the node's own certificate, by which clients and peers know it.
	Node = "node"
	// Authority is one by which this node knows clients and peers: of all that it
	// has, the one that ends first.
	Authority = "authority"
)

// clientCA is the flag whose authorities clients have to come from.
const clientCA = "--tls-client-ca"

const (
	// endsSoon is how long before its end a certificate is warned of.
	endsSoon = 14 * 24 * time.Hour
	// lookEvery is how often the ends are looked at, and sayEvery how often one is
	// logged.
	lookEvery = time.Hour
	sayEvery  = 24 * time.Hour
)

// Problem says what is to be done, once there is something to do.
func (e End) Problem(now time.Time) string {
	at := e.At.UTC().Format(time.RFC3339)
	switch soon := e.At.Sub(now) < endsSoon; {
	case !soon:
		return ""
	case e.Which == Node && e.over(now):
		return fmt.Sprintf("the certificate in %s has ended at %s: clients and peers refuse new connections; put a new one there and send SIGHUP", e.File, at)
	case e.Which == Node:
		return fmt.Sprintf("the certificate in %s ends at %s: put a new one there and send SIGHUP", e.File, at)
	case e.Shuts(now):
		return fmt.Sprintf("all authorities in --tls-client-ca have ended, the last at %s: no client can connect; put a successor there and send SIGHUP", e.Shut.UTC().Format(time.RFC3339))
	case e.over(now):
		return fmt.Sprintf("an authority in %s (%s) has ended at %s: whoever has a certificate of it is refused; put its successor there, or remove it, and send SIGHUP", e.File, e.Flag, at)
	}
	return fmt.Sprintf("an authority in %s (%s) ends at %s: give out certificates of its successor, put that there beside it or in its place, and send SIGHUP", e.File, e.Flag, at)
}

func (e End) over(now time.Time) bool { return now.After(e.At) }

// Shuts reports whether nobody can connect any more.
func (e End) Shuts(now time.Time) bool { return !e.Shut.IsZero() && now.After(e.Shut) }

// Ends are those of the latest files, the node's own first.
func (c *Certs) Ends() []End { return c.now.Load().ends }

// firstEnd adds the end of the authority that ends first. Those that are over when
// the file is read vouch for nobody and are in nobody's way, unless there are no
// others.
func firstEnd(ends []End, flag, file string, authorities []*x509.Certificate, now time.Time) []End {
	first := End{Which: Authority, Flag: flag, File: file}
	for _, a := range authorities {
		switch e := a.NotAfter; {
		case first.At.IsZero(), first.over(now) && e.After(first.At), now.Before(e) && e.Before(first.At):
			first.At = e
		}
	}
	if flag == clientCA {
		first.Shut = slices.MaxFunc(authorities, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
	}
	for i, e := range ends {
		if e.Which == Authority {
			if first.At.Before(e.At) {
				first.Shut = e.Shut // that file has been read before
				ends[i] = first
			}
			return ends
		}
	}
	return append(ends, first)
}

// Watch logs the ends of certificates until ctx ends: a warning a day from two
// weeks before, an error a day from the end on. After a Reload it looks at once.
func (c *Certs) Watch(ctx context.Context, log *slog.Logger) {
	type said struct {
		at   time.Time
		over bool
	}
	last := map[End]said{}
	for {
		now, next := time.Now(), lookEvery
		for _, e := range c.Ends() {
			if left := e.At.Sub(now) + time.Second; left > 0 {
				next = min(next, left) // when it is over
			}
			problem, was := e.Problem(now), last[e]
			if problem == "" || e.over(now) == was.over && now.Sub(was.at) < sayEvery {
				continue
			}
			last[e] = said{now, e.over(now)}
			level := slog.LevelWarn
			if e.over(now) {
				level = slog.LevelError
			}
			log.Log(ctx, level, problem)
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-c.reloaded:
			clear(last)
		case <-timer.C:
		}
		timer.Stop()
	}
}
