package main

import (
	"fmt"
	"strings"
)

type request struct {
	Name    string `json:"name"`
	Section string `json:"section"`
	raw
	Request *requestFields `json:"request,omitempty"`
	Refusal *refusal       `json:"refusal,omitempty"`
}

type requestFields struct {
	Op        string  `json:"op"`
	Key       *string `json:"key,omitempty"`
	KeyHex    *string `json:"key_hex,omitempty"`
	WaitMS    *int64  `json:"wait_ms,omitempty"`
	LeaseMS   *int64  `json:"lease_ms,omitempty"`
	Token     string  `json:"token,omitempty"`
	Nonce     string  `json:"nonce,omitempty"`
	Name      *string `json:"name,omitempty"`
	NameHex   *string `json:"name_hex,omitempty"`
	Secret    *string `json:"secret,omitempty"`
	SecretHex *string `json:"secret_hex,omitempty"`
	// Shortest is the line a client would send for the same request, where
	// it differs.
	Shortest *raw `json:"shortest,omitempty"`
}

type refusal struct {
	Code   string  `json:"code"`
	Op     *string `json:"op"`
	Key    *string `json:"key,omitempty"`
	KeyHex *string `json:"key_hex,omitempty"`
	Answer raw     `json:"answer"`
	Closes bool    `json:"closes"`
}

const (
	dayMS = 24 * 60 * 60 * 1000
	maxMS = 999_999_999_999
)

func times(s string, n int) string { return strings.Repeat(s, n) }

// oddKeys are keys that must pass as they are.
var oddKeys = []struct{ name, key string }{
	{"one-byte", "k"},
	{"255-bytes", times("k", 255)},
	{"lowest-byte", "!"},
	{"highest-ascii-byte", "~"},
	{"byte-80", "\x80"},
	{"byte-ff", "\xff"},
	{"invalid-utf8", "a\xc3(\xfe"},
	{"c1-control", "\xc2\x85"},
	{"non-breaking-space", "a\u00a0b"},
	{"emoji", "🔒"},
	{"nfc", "caf\u00e9"},
	{"nfd", "cafe\u0301"},
	{"two-question-marks", "??"},
	{"question-mark-first", "?a"},
	{"an-op", "A"},
	{"error-op", "E"},
	{"a-number", "0"},
	{"minus-one", "-1"},
	{"a-path", "/srv/a:b,c=d;e"},
	{"quotes", `"a'b\c`},
	{"255-bytes-of-two-byte-runes-and-one", times("é", 127) + "k"},
}

// badKeys are what stands after "op SP".
var badKeys = []struct{ name, key string }{
	{"empty", ""},
	{"two-spaces", " door"},
	{"256-bytes", times("k", 256)},
	{"256-bytes-of-utf8", times("é", 128)},
	{"1000-bytes", times("k", 1000)},
	{"question-mark", "?"},
	{"nul", "do\x00or"},
	{"byte-01", "\x01"},
	{"tab", "do\tor"},
	{"tab-first", "\tdoor"},
	{"cr-inside", "do\ror"},
	{"escape", "\x1b[31m"},
	{"byte-1f", "\x1f"},
	{"del", "do\x7for"},
}

// badSeconds are refused as a lease, and as a wait.
var badSeconds = []struct{ name, s string }{
	{"empty-point", "."},
	{"point-last", "5."},
	{"point-first", ".5"},
	{"four-decimals", "0.1234"},
	{"four-decimals-zero", "1.0000"},
	{"two-points", "1.2.3"},
	{"leading-zero", "05"},
	{"leading-zero-fraction", "00.5"},
	{"two-zeros", "00"},
	{"ten-digits", "1000000000"},
	{"ten-digits-fraction", "1000000000.5"},
	{"2^31-1", "2147483647"},
	{"2^31", "2147483648"},
	{"2^32", "4294967296"},
	{"2^53", "9007199254740992"},
	{"nanoseconds-of-int64", "9223372036854"},
	{"2^63-1", "9223372036854775807"},
	{"2^63", "9223372036854775808"},
	{"2^64-1", "18446744073709551615"},
	{"2^64", "18446744073709551616"},
	{"300-digits", times("9", 300)},
	{"plus", "+5"},
	{"minus-zero", "-0"},
	{"minus-two", "-2"},
	{"minus-one-fraction", "-1.0"},
	{"minus-ten", "-10"},
	{"minus", "-"},
	{"two-minus", "--1"},
	{"exponent", "1e3"},
	{"hex", "0x10"},
	{"underscore", "1_000"},
	{"comma", "1,5"},
	{"inf", "inf"},
	{"nan", "NaN"},
	{"unit", "5s"},
	{"word", "soon"},
	{"letter-in-fraction", "1.5a"},
	{"minus-in-fraction", "1.-5"},
	{"arabic-digit", "\u0663"},
	{"byte-before-0", "/"},
	{"byte-after-9", ":"},
	{"tab", "5\t"},
	{"nul", "5\x00"},
	{"cr-inside", "5\r0"},
}

var goodSeconds = []struct {
	name, s, shortest string
	ms                int64
}{
	{"zero", "0", "0", 0},
	{"zero-fraction", "0.000", "0", 0},
	{"one-millisecond", "0.001", "0.001", 1},
	{"half", "0.5", "0.5", 500},
	{"half-padded", "0.500", "0.5", 500},
	{"quarter", "0.25", "0.25", 250},
	{"three-decimals", "1.125", "1.125", 1125},
	{"zeros-inside", "1.005", "1.005", 1005},
	{"one", "1", "1", 1000},
	{"one-padded", "1.0", "1", 1000},
	{"ten", "10", "10", 10_000},
	{"a-day", "86400", "86400", dayMS},
	{"nine-digits", "999999999", "999999999", 999_999_999_000},
	{"greatest", "999999999.999", "999999999.999", maxMS},
}

var badTokens = []struct{ name, s string }{
	{"zero", "0"},
	{"zeros", "00"},
	{"leading-zero", "01"},
	{"2^64", "18446744073709551616"},
	{"20-digits-too-great", "99999999999999999999"},
	{"21-digits", "100000000000000000000"},
	{"21-digits-leading-zero", "018446744073709551615"},
	{"300-digits", times("1", 300)},
	{"plus", "+1"},
	{"minus", "-1"},
	{"point", "1.0"},
	{"exponent", "1e3"},
	{"hex", "0x1"},
	{"word", "x"},
	{"byte-before-0", "1/"},
	{"byte-after-9", "1:"},
	{"tab", "1\t"},
	{"del", "1\x7f"},
	{"high-byte", "1\x80"},
}

var goodTokens = []struct{ name, s string }{
	{"one", "1"},
	{"nine", "9"},
	{"2^53+1", "9007199254740993"},
	{"2^63-1", "9223372036854775807"},
	{"2^63", "9223372036854775808"},
	{"20-digits", "10000000000000000000"},
	{"2^64-1", "18446744073709551615"},
}

var badNonces = []struct{ name, s string }{
	{"empty", ""},
	{"33-bytes", times("n", 33)},
	{"byte-before-0", "a/"},
	{"byte-after-9", "a:"},
	{"byte-before-A", "a@"},
	{"byte-after-Z", "a["},
	{"byte-before-underscore", "a^"},
	{"byte-before-a", "a`"},
	{"byte-after-z", "a{"},
	{"byte-before-minus", "a,"},
	{"byte-after-minus", "a."},
	{"plus", "a+b="},
	{"high-byte", "a\x80"},
	{"utf8", "é"},
	{"tab", "a\t"},
	{"del", "a\x7f"},
}

var goodNonces = []struct{ name, s string }{
	{"one-byte", "n"},
	{"32-bytes", times("n", 32)},
	{"edges", "09AZaz_-"},
	{"minus-first", "-"},
	{"digits", "0"},
}

type requestList struct {
	names named
	all   []request
}

func (l *requestList) add(name, section, stream string, f *requestFields, r *refusal) {
	l.names.add(name)
	l.all = append(l.all, request{Name: name, Section: section, raw: bytesOf(stream), Request: f, Refusal: r})
}

// good adds a line that is well-formed.
func (l *requestList) good(name, section, line, key string, f requestFields) {
	f.Op = line[:1]
	f.Key, f.KeyHex = text(key)
	l.add(name, section, line+"\n", &f, nil)
}

// bad adds a line that is refused with its key echoed.
func (l *requestList) bad(name, section, line, key, code string) {
	op := line[:1]
	r := &refusal{Code: code, Op: &op, Answer: bytesOf("E " + op + " " + key + " " + code + "\n")}
	r.Key, r.KeyHex = text(key)
	l.add(name, section, line+"\n", nil, r)
}

// badKey adds a line whose op is all that can be echoed.
func (l *requestList) badKey(name, line string) {
	op := line[:1]
	l.add(name, "5.1", line+"\n", nil, &refusal{Code: "bad-key", Op: &op, Answer: bytesOf("E " + op + " ? bad-key\n")})
}

// stranger adds bytes that close the connection.
func (l *requestList) stranger(name, section, stream string) {
	l.add(name, section, stream, nil, &refusal{Code: "bad-request", Answer: bytesOf("E ? ? bad-request\n"), Closes: true})
}

func ms(n int64) *int64 { return &n }

func requests() []request {
	l := &requestList{names: named{}}
	acquire := func(wait, lease int64, nonce string) requestFields {
		return requestFields{WaitMS: ms(wait), LeaseMS: ms(lease), Nonce: nonce}
	}
	name := func(s string) (f requestFields) {
		f.Name, f.NameHex = text(s)
		return f
	}
	secret := func(n, s string) requestFields {
		f := name(n)
		f.Secret, f.SecretHex = text(s)
		return f
	}
	shortest := func(f requestFields, line string) requestFields {
		r := bytesOf(line + "\n")
		f.Shortest = &r
		return f
	}

	// Well-formed.
	l.good("acquire", "4.1", "A door 10 30", "door", acquire(10_000, 30_000, ""))
	l.good("acquire-nonce", "4.1", "A door 10 30 q7LmX2_9aYbT-0Kd1", "door", acquire(10_000, 30_000, "q7LmX2_9aYbT-0Kd1"))
	l.good("acquire-do-not-queue", "2.5", "A door -1 30", "door", acquire(-1, 30_000, ""))
	l.good("acquire-do-not-queue-nonce", "2.5", "A door -1 0 n1", "door", acquire(-1, 0, "n1"))
	l.good("acquire-longest", "2.2", "A "+times("k", 255)+" 999999999.999 999999999.999 "+times("n", 32), times("k", 255), acquire(maxMS, maxMS, times("n", 32)))
	l.good("acquire-cr", "2.2", "A door 10 30\r", "door", shortest(acquire(10_000, 30_000, ""), "A door 10 30"))
	l.good("acquire-nonce-cr", "2.2", "A door 10 30 n1\r", "door", shortest(acquire(10_000, 30_000, "n1"), "A door 10 30 n1"))
	l.good("release", "4.2", "R door 257698037760000001", "door", requestFields{Token: "257698037760000001"})
	l.good("release-cr", "2.2", "R door 7\r", "door", shortest(requestFields{Token: "7"}, "R door 7"))
	l.good("keep", "4.3", "K door 7 30", "door", requestFields{Token: "7", LeaseMS: ms(30_000)})
	l.good("keep-default", "4.3", "K door 7 0", "door", requestFields{Token: "7", LeaseMS: ms(0)})
	l.good("cancel", "4.4", "C door n1", "door", requestFields{Nonce: "n1"})
	l.good("ping", "4.5", "P word", "word", requestFields{})
	l.good("hello", "4.6", "H 1 worker-7", "1", name("worker-7"))
	l.good("hello-secret", "4.6", "H 1 worker-7 open-sesame", "1", secret("worker-7", "open-sesame"))
	l.good("hello-name-1-byte", "2.4", "H 1 w", "1", name("w"))
	l.good("hello-name-64-bytes", "2.4", "H 1 "+times("w", 64), "1", name(times("w", 64)))
	l.good("hello-name-high-bytes", "2.3", "H 1 \x80\xff", "1", name("\x80\xff"))
	l.good("hello-name-question-mark", "2.3", "H 1 ?", "1", name("?"))
	l.good("hello-secret-1-byte", "2.4", "H 1 w s", "1", secret("w", "s"))
	l.good("hello-secret-255-bytes", "2.4", "H 1 w "+times("s", 255), "1", secret("w", times("s", 255)))
	l.good("hello-secret-high-bytes", "2.3", "H 1 w !~\x80\xff", "1", secret("w", "!~\x80\xff"))
	for _, k := range oddKeys {
		l.good("acquire-key-"+k.name, "2.6", "A "+k.key+" 0 30", k.key, acquire(0, 30_000, ""))
		l.good("release-key-"+k.name, "2.6", "R "+k.key+" 7", k.key, requestFields{Token: "7"})
		l.good("keep-key-"+k.name, "2.6", "K "+k.key+" 7 30", k.key, requestFields{Token: "7", LeaseMS: ms(30_000)})
		l.good("cancel-key-"+k.name, "2.6", "C "+k.key+" n", k.key, requestFields{Nonce: "n"})
		l.good("ping-word-"+k.name, "2.6", "P "+k.key, k.key, requestFields{})
	}
	for _, s := range goodSeconds {
		wait := acquire(s.ms, 30_000, "")
		lease := acquire(0, s.ms, "")
		keep := requestFields{Token: "7", LeaseMS: ms(s.ms)}
		if s.s != s.shortest {
			wait = shortest(wait, "A door "+s.shortest+" 30")
			lease = shortest(lease, "A door 0 "+s.shortest)
			keep = shortest(keep, "K door 7 "+s.shortest)
		}
		l.good("acquire-wait-"+s.name, "2.5", "A door "+s.s+" 30", "door", wait)
		l.good("acquire-lease-"+s.name, "2.5", "A door 0 "+s.s, "door", lease)
		l.good("keep-lease-"+s.name, "2.5", "K door 7 "+s.s, "door", keep)
	}
	for _, t := range goodTokens {
		l.good("release-token-"+t.name, "2.5", "R door "+t.s, "door", requestFields{Token: t.s})
		l.good("keep-token-"+t.name, "2.5", "K door "+t.s+" 30", "door", requestFields{Token: t.s, LeaseMS: ms(30_000)})
	}
	for _, n := range goodNonces {
		l.good("acquire-nonce-"+n.name, "2.4", "A door 0 30 "+n.s, "door", acquire(0, 30_000, n.s))
		l.good("cancel-nonce-"+n.name, "2.4", "C door "+n.s, "door", requestFields{Nonce: n.s})
	}

	// No op: the connection is closed.
	for _, s := range []struct{ name, stream string }{
		{"lower-case", "a door 0 30\n"},
		{"byte-before-A", "@ door 0 30\n"},
		{"byte-after-Z", "[ door 0 30\n"},
		{"digit", "1 door\n"},
		{"question-mark", "? door\n"},
		{"space-first", " A door 0 30\n"},
		{"only-a-space", " \n"},
		{"tab-after-op", "A\tdoor 0 30\n"},
		{"two-letters", "AB door 0 30\n"},
		{"op-twice", "AA\n"},
		{"key-without-space", "Adoor 0 30\n"},
		{"nul", "\x00\n"},
		{"nul-after-op", "A\x00door\n"},
		{"byte-80", "\x80 door\n"},
		{"byte-order-mark", "\xef\xbb\xbfA door 0 30\n"},
		{"full-width-letter", "\uff21 door 0 30\n"},
		{"cr-cr", "\r\r\n"},
		{"cr-after-op", "A\r door 0 30\n"},
		{"cr-first", "\rA door 0 30\n"},
		{"http", "GET / HTTP/1.1\r\n"},
		{"tls-hello", "\x16\x03\x01\x02\x00\x01\x00\n"},
		{"ssh", "SSH-2.0-OpenSSH_9.6\r\n"},
		{"json", "{\"op\":\"A\"}\n"},
	} {
		l.stranger("no-op-"+s.name, "5.1", s.stream)
	}
	l.stranger("1024-bytes-without-lf", "5.1", "P "+times("k", 1022))
	l.stranger("1025-byte-line", "2.2", "P "+times("k", 1022)+"\n")
	l.stranger("1025-byte-line-cr", "2.2", "P "+times("k", 1021)+"\r\n")

	// A line of the greatest length is a line.
	l.badKey("key-1021-bytes-longest-line", "P "+times("k", 1021))
	l.bad("extra-field-longest-line", "2.2", "P word "+times("x", 1016), "word", "bad-request")

	// No key.
	for _, op := range []string{"A", "R", "K", "C", "P", "H", "T", "M", "E", "B", "Z"} {
		l.badKey("key-missing-"+op, op)
		for _, k := range badKeys {
			l.badKey("key-"+k.name+"-"+op, op+" "+k.key)
		}
	}
	l.badKey("key-missing-cr-A", "A\r")
	l.badKey("key-empty-cr-A", "A \r")
	for _, k := range badKeys {
		l.badKey("key-"+k.name+"-fields-A", "A "+k.key+" 0 30")
	}

	// An op that is not spoken, or not a request.
	for _, op := range []string{"B", "D", "N", "Z", "T", "M", "E"} {
		l.bad("unknown-op-"+op, "5.1", op+" door", "door", "unknown-op")
		l.bad("unknown-op-"+op+"-fields", "5.1", op+" door 1  \x01 ", "door", "unknown-op")
	}
	l.bad("unknown-op-error-line", "5.1", "E A door bad-request", "A", "unknown-op")
	l.bad("unknown-op-moved-line", "5.1", "M A door 127.0.0.1:5625", "A", "unknown-op")
	l.bad("unknown-op-odd-key", "5.1", "B \xff\xfe 1", "\xff\xfe", "unknown-op")
	l.bad("unknown-op-255-byte-key", "5.1", "B "+times("k", 255), times("k", 255), "unknown-op")

	// The fields.
	field := func(name, line, key string) { l.bad(name, "5.1", line, key, "bad-request") }
	field("acquire-no-fields", "A door", "door")
	field("acquire-no-lease", "A door 10", "door")
	field("acquire-space-after-key", "A door ", "door")
	field("acquire-space-after-wait", "A door 10 ", "door")
	field("acquire-space-last", "A door 10 30 ", "door")
	field("acquire-space-after-nonce", "A door 10 30 n1 ", "door")
	field("acquire-two-spaces-before-wait", "A door  10 30", "door")
	field("acquire-two-spaces-before-lease", "A door 10  30", "door")
	field("acquire-two-spaces-before-nonce", "A door 10 30  n1", "door")
	field("acquire-extra-field", "A door 10 30 n1 x", "door")
	field("acquire-lease-minus-one", "A door 10 -1", "door")
	field("acquire-255-byte-key", "A "+times("k", 255)+" x 30", times("k", 255))
	field("acquire-odd-key", "A \xff\xfe x 30", "\xff\xfe")
	field("acquire-cr-inside", "A door 10\r 30", "door")
	field("acquire-cr-cr", "A door 10 30\r\r", "door")
	field("release-no-token", "R door", "door")
	field("release-space-after-key", "R door ", "door")
	field("release-space-last", "R door 7 ", "door")
	field("release-two-spaces", "R door  7", "door")
	field("release-extra-field", "R door 7 x", "door")
	field("keep-no-fields", "K door", "door")
	field("keep-no-lease", "K door 7", "door")
	field("keep-space-after-token", "K door 7 ", "door")
	field("keep-space-last", "K door 7 30 ", "door")
	field("keep-extra-field", "K door 7 30 x", "door")
	field("keep-lease-minus-one", "K door 7 -1", "door")
	field("cancel-no-nonce", "C door", "door")
	field("cancel-extra-field", "C door n1 x", "door")
	field("cancel-space-last", "C door n1 ", "door")
	field("ping-extra-field", "P word x", "word")
	field("ping-space-last", "P word ", "word")
	field("hello-no-name", "H 1", "1")
	field("hello-name-empty", "H 1 ", "1")
	field("hello-name-65-bytes", "H 1 "+times("w", 65), "1")
	field("hello-name-tab", "H 1 a\tb", "1")
	field("hello-name-del", "H 1 a\x7f", "1")
	field("hello-secret-empty", "H 1 w ", "1")
	field("hello-secret-256-bytes", "H 1 w "+times("s", 256), "1")
	field("hello-secret-nul", "H 1 w a\x00", "1")
	field("hello-extra-field", "H 1 w s x", "1")
	for _, s := range badSeconds {
		field("acquire-wait-"+s.name, "A door "+s.s+" 30", "door")
		field("acquire-lease-"+s.name, "A door 10 "+s.s, "door")
		field("acquire-lease-"+s.name+"-nonce", "A door 10 "+s.s+" n1", "door")
		field("keep-lease-"+s.name, "K door 7 "+s.s, "door")
	}
	for _, t := range badTokens {
		field("release-token-"+t.name, "R door "+t.s, "door")
		field("keep-token-"+t.name, "K door "+t.s+" 30", "door")
	}
	for _, n := range badNonces {
		field("acquire-nonce-"+n.name, "A door 10 30 "+n.s, "door")
		field("cancel-nonce-"+n.name, "C door "+n.s, "door")
	}

	// Another version, whatever follows. The text is not part of the vector.
	for i, v := range []string{"0", "2", "9", "01", "1.0", "10", "one", "\xff", times("1", 255)} {
		l.bad(fmt.Sprintf("version-%d", i), "4.6", "H "+v+" worker-7", v, "version")
	}
	l.bad("version-no-name", "4.6", "H 9", "9", "version")
	l.bad("version-space-last", "4.6", "H 9 ", "9", "version")
	l.bad("version-extra-fields", "4.6", "H 9 a b c \x01", "9", "version")
	return l.all
}
