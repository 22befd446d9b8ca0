package fencehttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/stile-lock/stile/client/fence"
)

const docs = "https://pkg.go.dev/github.com/stile-lock/stile/client/fence/fencehttp#"

// The types of problem bodies, as RFC 9457 means them.
const (
	ProblemStale     = docs + "ProblemStale"     // a later grant has been here: acquire the key again
	ProblemMissing   = docs + "ProblemMissing"   // the request needs a grant
	ProblemInvalid   = docs + "ProblemInvalid"   // what was sent is no grant of the key
	ProblemBody      = docs + "ProblemBody"      // what is to be written did not arrive, or is too long; nothing was done
	ProblemUnchecked = docs + "ProblemUnchecked" // the guard could not look; nothing was done
)

// problem is the body. Tokens are digits in a string: many a reader of JSON
// has no 64-bit numbers.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Key    string `json:"key,omitempty"`
	Token  string `json:"token,omitempty"`
	Seen   string `json:"seen,omitempty"`
	// As in fence.StaleError.
	Forgotten bool `json:"forgotten,omitempty"`
}

func missing(key string) *problem {
	return &problem{Type: ProblemMissing, Title: "fencing token required", Status: http.StatusPreconditionRequired, Key: key,
		Detail: "acquire the lock " + strconv.Quote(key) + " and send its token in the header " + Header}
}

func invalid(detail string) *problem {
	return &problem{Type: ProblemInvalid, Title: "not a fencing token of this resource", Status: http.StatusBadRequest, Detail: detail}
}

func badBody(status int, detail string) *problem {
	return &problem{Type: ProblemBody, Title: "request body not read", Status: status, Detail: detail}
}

func unchecked(err error) *problem {
	return &problem{Type: ProblemUnchecked, Title: "fencing token not checked", Status: http.StatusServiceUnavailable, Detail: err.Error()}
}

func (p *problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // it has strings only
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Del("Content-Length")
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n'))
}

// WriteProblem answers 409 with [ProblemStale] if err is a refusal of a stale
// token, as a handler gets it that checks by itself. For any other error it
// does nothing and returns false.
func WriteProblem(w http.ResponseWriter, err error) bool {
	var stale *fence.StaleError
	if !errors.As(err, &stale) {
		return false
	}
	(&problem{
		Type: ProblemStale, Title: "stale fencing token", Status: http.StatusConflict, Detail: stale.Error(), Key: stale.Key,
		Token: strconv.FormatUint(stale.Token, 10), Seen: strconv.FormatUint(stale.Seen, 10), Forgotten: stale.Forgotten,
	}).write(w)
	return true
}

// maxProblem is how much of a body is read at most.
const maxProblem = 64 << 10

// ProblemError is an answer of a [Middleware] that let a request to no handler,
// for another reason than a stale token.
type ProblemError struct {
	Type   string // one of the Problem constants
	Title  string // the same in words
	Status int
	Detail string
}

// Error says what the server has said.
func (e *ProblemError) Error() string {
	return fmt.Sprintf("fencehttp: %d, %s: %s", e.Status, e.Title, e.Detail)
}

// ResponseError returns the error that an answer of [Middleware] or
// [WriteProblem] stands for, by which nothing was written: a
// [*fence.StaleError], or a [*ProblemError]. For any other answer it is nil, be
// that a success or not: look at the status as well. The body can still be read
// afterwards, and has to be closed as usual.
func ResponseError(resp *http.Response) error {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode < 400 || media != "application/problem+json" {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	resp.Body = &again{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	if err != nil {
		return err
	}
	var p problem
	if json.Unmarshal(body, &p) != nil {
		return nil
	}
	problem := &ProblemError{Type: p.Type, Title: p.Title, Status: resp.StatusCode, Detail: p.Detail}
	switch p.Type {
	case ProblemStale:
	case ProblemMissing, ProblemInvalid, ProblemBody, ProblemUnchecked:
		return problem
	default:
		return nil // somebody else's
	}
	stale := &fence.StaleError{Key: p.Key, Forgotten: p.Forgotten}
	if stale.Token, err = strconv.ParseUint(p.Token, 10, 64); err != nil {
		return problem
	}
	if stale.Seen, err = strconv.ParseUint(p.Seen, 10, 64); err != nil {
		return problem
	}
	// JSON does not carry every key.
	if resp.Request != nil {
		if grant, ok := FromContext(resp.Request.Context()); ok && grant.Token() == stale.Token {
			stale.Key = grant.Key()
		}
	}
	return stale
}

// again is a body of which some was read already.
type again struct {
	io.Reader
	io.Closer
}
