package fence

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/stile-lock/stile/protocol"
)

// Grant is a key together with the token that it was granted with. The two
// only make sense as a pair. A *client.Lock is a Grant; [NewGrant] and
// [ParseGrant] make one of what came from elsewhere.
type Grant interface {
	Key() string
	Token() uint64
}

type grant struct {
	key   string
	token uint64
}

func (g grant) Key() string   { return g.key }
func (g grant) Token() uint64 { return g.token }

// NewGrant is for whoever has the two apart, as from columns of a queue. Both
// must come from the same lock.
func NewGrant(key string, token uint64) Grant { return grant{key, token} }

// ErrInvalid is for what cannot be a grant: none at all, the token 0, or a key
// that the protocol cannot carry.
var ErrInvalid = errors.New("no grant")

// Validate returns an error that wraps [ErrInvalid] for what cannot be a grant
// of any lock. Every guard begins with it.
func Validate(g Grant) error {
	// As of an acquire that failed, and whose error nobody looked at.
	if v := reflect.ValueOf(g); g == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("%w: it is nil: was the lock acquired?", ErrInvalid)
	}
	if g.Token() == 0 {
		return fmt.Errorf("%w: a token is 1 or more, and that of %q is 0", ErrInvalid, g.Key())
	}
	if !protocol.ValidKey([]byte(g.Key())) {
		return fmt.Errorf("%w: a key is 1 to 255 bytes without spaces and control characters, not %q", ErrInvalid, g.Key())
	}
	return nil
}

// FormatGrant returns the grant as text, to hand it to another process: the
// token in decimal digits, a space, and the key, percent-encoded. It is ASCII,
// whatever the key is.
func FormatGrant(g Grant) string {
	escaped := strings.ReplaceAll(url.QueryEscape(g.Key()), "+", "%20")
	return strconv.FormatUint(g.Token(), 10) + " " + escaped
}

// ParseGrant reads what [FormatGrant] wrote. Its errors wrap [ErrInvalid].
func ParseGrant(text string) (Grant, error) {
	digits, escaped, ok := strings.Cut(text, " ")
	if !ok {
		return nil, fmt.Errorf("%w: want a token, a space and a percent-encoded key, not %q", ErrInvalid, text)
	}
	token, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %q is not a number from 1 to 2^64-1, in %q", ErrInvalid, digits, text)
	}
	key, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, fmt.Errorf("%w: %q is not percent-encoded, in %q", ErrInvalid, escaped, text)
	}
	g := grant{key, token}
	if err := Validate(g); err != nil {
		return nil, err
	}
	return g, nil
}

// ErrStale is matched by every refusal of a token that is lower than the
// greatest one seen.
var ErrStale = errors.New("stale token")

// StaleError is a refusal: the grant of Token is over, as a later grant, with
// the token Seen, has been here.
type StaleError struct {
	Key         string
	Token, Seen uint64

	// Forgotten: a [Guard] knows nothing of the key any more, and Seen is the
	// greatest token of any key that it has forgotten.
	Forgotten bool
}

// Error names both tokens.
func (e *StaleError) Error() string {
	if e.Forgotten {
		return fmt.Sprintf("stale token %d for %q: it may be older than what was forgotten, up to %d; acquire the key again", e.Token, e.Key, e.Seen)
	}
	return fmt.Sprintf("stale token %d for %q: %d was seen", e.Token, e.Key, e.Seen)
}

// Is reports whether target is [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }
