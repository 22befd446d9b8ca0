package admin

import (
	"encoding/hex"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/history"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/node"
)

// key is a key in JSON: as text, or in hex if it is no UTF-8.
type key struct {
	Key string `json:"key,omitempty"`
	Hex string `json:"key_hex,omitempty"`
}

func keyOf(b []byte) key {
	if utf8.Valid(b) {
		return key{Key: string(b)}
	}
	return key{Hex: hex.EncodeToString(b)}
}

// instant is a time as the answers have it.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// counts is what has happened since the start, as numbers by name: the
// counters of METRICS.md.
type counts struct {
	Grants      map[string]uint64 `json:"grants"`
	GrantsEnded map[string]uint64 `json:"grants_ended"`
	Timeouts    map[string]uint64 `json:"timeouts"`
	Keeps       uint64            `json:"keeps"`
	Cancels     uint64            `json:"cancels"`
	Redirects   uint64            `json:"redirects"`
	Refusals    map[string]uint64 `json:"refusals"` // those that there were
	Accepted    uint64            `json:"connections_accepted"`
	TurnedAway  uint64            `json:"connections_turned_away"`
	CutOff      uint64            `json:"connections_cut_off"`
}

func countsOf(n *node.Counts) counts {
	c := counts{
		Grants: map[string]uint64{}, GrantsEnded: map[string]uint64{}, Timeouts: map[string]uint64{}, Refusals: map[string]uint64{},
		Keeps: n.Kept, Cancels: n.Cancelled, Redirects: n.Moved,
		Accepted: n.Accepted, TurnedAway: n.TurnedAway, CutOff: n.CutOff,
	}
	for kind, v := range n.Granted {
		c.Grants[lockspace.GrantKind(kind).String()] = v
	}
	for how, v := range n.Ended {
		c.GrantsEnded[lockspace.EndKind(how).String()] = v
	}
	for kind, v := range n.TimedOut {
		c.Timeouts[lockspace.TimeoutKind(kind).String()] = v
	}
	for _, code := range protocol.Codes() {
		if v := n.Refused[code]; v > 0 {
			c.Refusals[code.String()] = v
		}
	}
	return c
}

// change is an event of the history.
type change struct {
	Time time.Time `json:"time"`
	Kind string    `json:"kind"` // role, active or break

	Role   string `json:"role,omitempty"`
	Why    string `json:"why,omitempty"`
	Active string `json:"active,omitempty"`
	Epoch  uint32 `json:"epoch,omitempty"`

	key
	Token     uint64  `json:"token,omitempty"`
	Text      uint64  `json:"token_text,omitempty,string"` // see entry
	NextToken uint64  `json:"next_token,omitempty"`
	NextText  uint64  `json:"next_token_text,omitempty,string"`
	Holder    *client `json:"holder,omitempty"`
	By        string  `json:"by,omitempty"` // the address of who asked
}

func changeOf(e *history.Event) change {
	c := change{Time: instant(e.Time), Kind: e.Kind, Role: e.Role, Why: e.Why, Active: e.Active, Epoch: e.Epoch}
	if e.Kind == history.Break {
		c.key, c.Token, c.NextToken, c.By = keyOf(e.Key), e.Token, e.NextToken, e.By
		c.Text, c.NextText = c.Token, c.NextToken
		c.Holder = &client{Name: e.Client, Addr: e.Addr}
	}
	return c
}

// client is somebody who holds or waits; see node.Client.
type client struct {
	Name string `json:"client"`
	Addr string `json:"addr"`
	Gone bool   `json:"gone,omitempty"`
}

func clientOf(c node.Client) client { return client(c) }

// textToken is a token for browsers, whose numbers end at 2^53.
type textToken uint64

// MarshalJSON implements json.Marshaler.
func (t textToken) MarshalJSON() ([]byte, error) {
	return []byte(`"` + strconv.FormatUint(uint64(t), 10) + `"`), nil
}
