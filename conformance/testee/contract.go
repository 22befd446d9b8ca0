package testee

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Contract is the version of TESTEE.md that this suite speaks.
const Contract = 1

// Hello is the first line of a testee.
type Hello struct {
	Contract int      `json:"stile_testee"`
	Client   string   `json:"client"`
	Version  string   `json:"version"`
	Profiles []string `json:"profiles"`
}

// Request is one line to a testee. What a command does not use is left out.
type Request struct {
	ID int    `json:"id"`
	Do string `json:"do"`

	Addrs      []string `json:"addrs,omitempty"`
	Secret     string   `json:"secret,omitempty"`
	OnlyListed bool     `json:"only_listed,omitempty"`
	RetryForMS int64    `json:"retry_for_ms,omitempty"`

	Key     *string `json:"key,omitempty"`
	WaitMS  *int64  `json:"wait_ms,omitempty"`
	LeaseMS *int64  `json:"lease_ms,omitempty"`
	Lock    int     `json:"lock,omitempty"`
	Call    int     `json:"call,omitempty"`
}

// Reply is one line from a testee: a reply, or an event.
type Reply struct {
	ID int `json:"id"`

	OK          bool     `json:"ok,omitempty"`
	Token       string   `json:"token,omitempty"`
	ExpiresInMS *float64 `json:"expires_in_ms,omitempty"`
	Held        *bool    `json:"held,omitempty"`

	Error   string `json:"error,omitempty"`
	Code    string `json:"code,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Text    string `json:"text,omitempty"`

	Failed      string `json:"failed,omitempty"`
	Unsupported string `json:"unsupported,omitempty"`

	Event string `json:"event,omitempty"`
	Lock  int    `json:"lock,omitempty"`
}

// Errors are the words for what a client reports, with their meanings.
var Errors = map[string]string{
	"timeout":       "the key was not granted within the limit",
	"not_held":      "the lock is not held, or not any more",
	"no_connection": "no server could be reached",
	"no_active":     "servers answered, but none serves or knows one that does",
	"refused":       "a server refused, with the code in \"code\"",
	"undelivered":   "the release could not be delivered in its 5 s",
	"unsupported":   "the server does not speak what this needs",
	"closed":        "the client was closed",
	"cancelled":     "the caller gave up",
	"bad_argument":  "the client refused an argument itself",
	"other":         "anything else",
}

// Outcomes tell what became of a call that ended with an error.
var Outcomes = map[string]string{
	"no":    "it definitely did not happen",
	"maybe": "it may have happened",
	"yes":   "it happened",
}

// result is how many of the four kinds of reply a line has.
func (r *Reply) kinds() (list []string) {
	if r.OK {
		list = append(list, "ok")
	}
	if r.Error != "" {
		list = append(list, "error")
	}
	if r.Failed != "" {
		list = append(list, "failed")
	}
	if r.Unsupported != "" {
		list = append(list, "unsupported")
	}
	return list
}

// parseHello reads the first line.
func parseHello(line string) (h Hello, err error) {
	if err := json.Unmarshal([]byte(line), &h); err != nil {
		return h, fmt.Errorf("the first line of the testee is %s; it has to be the handshake, like {\"stile_testee\":1,…}%s", quote(line), guess(line))
	}
	switch {
	case h.Contract == 0:
		return h, fmt.Errorf("the first line of the testee is %s, without the field \"stile_testee\"", quote(line))
	case h.Contract != Contract:
		return h, fmt.Errorf("the testee speaks version %d of the contract; this suite speaks %d", h.Contract, Contract)
	case h.Client == "":
		return h, fmt.Errorf("the handshake %s does not name the client", quote(line))
	}
	for _, p := range h.Profiles {
		if p == "core" {
			return h, nil
		}
	}
	return h, fmt.Errorf("the handshake %s does not have the profile core, without which there is nothing to judge", quote(line))
}

// parseReply reads any other line.
func parseReply(line string) (r Reply, err error) {
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, fmt.Errorf("the testee wrote %s, which is no reply (%v)%s", quote(line), err, guess(line))
	}
	if r.Event != "" {
		if r.Event != "lost" || r.Lock == 0 {
			return r, fmt.Errorf("the testee wrote %s; the one event there is is {\"event\":\"lost\",\"lock\":N}", quote(line))
		}
		return r, nil
	}
	switch kinds := r.kinds(); {
	case r.ID == 0:
		return r, fmt.Errorf("the testee wrote %s, without the id of a request", quote(line))
	case len(kinds) != 1:
		return r, fmt.Errorf("the testee wrote %s; a reply has exactly one of ok, error, failed and unsupported, and this one has %d", quote(line), len(kinds))
	case r.Error != "" && Errors[r.Error] == "":
		return r, fmt.Errorf("the testee wrote %s; there is no error kind %q (use \"other\" for what has no kind)", quote(line), r.Error)
	case r.Error != "" && Outcomes[r.Outcome] == "":
		return r, fmt.Errorf("the testee wrote %s; an error needs an \"outcome\": no, maybe or yes", quote(line))
	case r.Error == "refused" && r.Code == "":
		return r, fmt.Errorf("the testee wrote %s; \"refused\" needs the \"code\"", quote(line))
	}
	return r, nil
}

// guess says what may be the reason of a line that is no JSON.
func guess(line string) string {
	switch {
	case strings.TrimSpace(line) == "":
		return ". An empty line: is something printed with one line end too many?"
	case strings.HasPrefix(line, "\ufeff"):
		return ". It begins with a byte order mark: write UTF-8 without one"
	case strings.HasPrefix(line, "Content-Length"):
		return ". It looks like a header: the contract has bare lines, without headers"
	case line[0] != '{':
		return ". It looks like a message for people: stdout carries nothing but the contract, log to stderr"
	case strings.Contains(line, "}{"):
		return ". It looks like two objects: end each with a line end, and write each as a whole"
	case strings.Count(line, "{") > strings.Count(line, "}"):
		return ". It ends too early: write each object on one line, with nothing else between (one lock around writing)"
	}
	return ""
}

func quote(line string) string {
	if len(line) > 300 {
		return fmt.Sprintf("%q… (%d bytes)", line[:300], len(line))
	}
	return fmt.Sprintf("%q", line)
}

// Milliseconds is d as a request carries it.
func Milliseconds(d time.Duration) *int64 {
	ms := d.Milliseconds()
	return &ms
}
