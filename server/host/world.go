package host

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stile-lock/stile/server/fencing"
	"github.com/stile-lock/stile/server/replica"
)

// world is the host as its member sees it. Only the loop calls it.
type world Host

func (w *world) Dial(peer uint8)                 { w.mesh.Dial(peer) }
func (w *world) Cut(peer uint8)                  { w.mesh.Cut(peer) }
func (w *world) Ban(boot uint64)                 { w.mesh.Ban(boot) }
func (w *world) Send(peer uint8, payload []byte) { w.mesh.Send(peer, payload) }
func (w *world) Kick(peer uint8)                 { w.mesh.Kick(peer) }

// StoreEpoch and TakeEpoch leave the disk to a goroutine: the loop goes on,
// and with it the heartbeats.
func (w *world) StoreEpoch(e replica.Epoch) {
	h := (*Host)(w)
	go func() {
		err := h.cfg.Store.Remember(context.Background(), fencing.Pair(e))
		h.post(func(now time.Duration) { h.member.StoredEpoch(now, e, err) })
	}()
}

func (w *world) TakeEpoch(op uint64, above uint32, clock bool) {
	h := (*Host)(w)
	self := h.cfg.Peers[h.cfg.Self].ID
	go func() {
		c, err := fencing.Choose(above, h.cfg.Wall())
		if clock && !c.FromClock {
			h.post(func(now time.Duration) { h.member.TookEpoch(now, op, replica.Epoch{}, 0, nil) })
			return
		}
		e := replica.Epoch{N: c.Epoch, Node: self}
		if err == nil {
			if c.Warning != "" {
				h.log.Warn("clock and epochs disagree", slog.String("detail", c.Warning))
			}
			err = h.cfg.Store.Put(context.Background(), fencing.Pair(e))
		}
		h.post(func(now time.Duration) { h.member.TookEpoch(now, op, e, c.Start, err) })
	}()
}

func (w *world) Log(level slog.Level, text string, attrs []slog.Attr) {
	w.log.LogAttrs(context.Background(), level, text, attrs...)
}

func (w *world) Fail(reason string) {
	select {
	case w.failed <- errors.New(reason):
	default:
	}
}

func (w *world) Done() { close(w.done) }
