package main

type answer struct {
	Name    string `json:"name"`
	Section string `json:"section"`
	raw
	// Answer is missing for a line that is no answer.
	Answer *answerFields `json:"answer,omitempty"`
}

type answerFields struct {
	Op string `json:"op"`
	// For is the op of the request; null where the line has "?".
	For     *string `json:"for"`
	Key     *string `json:"key,omitempty"`
	KeyHex  *string `json:"key_hex,omitempty"`
	Token   string  `json:"token,omitempty"`
	LeaseMS *int64  `json:"lease_ms,omitempty"`
	Nonce   string  `json:"nonce,omitempty"`
	Addr    string  `json:"addr,omitempty"`
	// Profiles is an empty list for "-".
	Profiles *[]string `json:"profiles,omitempty"`
	Code     string    `json:"code,omitempty"`
	// Known says whether the code is in codes.json.
	Known   *bool   `json:"known,omitempty"`
	Text    *string `json:"text,omitempty"`
	TextHex *string `json:"text_hex,omitempty"`
	// Shortest is the line a server would send for the same answer, where it
	// differs.
	Shortest *raw `json:"shortest,omitempty"`
}

// addresses are well-formed; 261 bytes are the most.
var goodAddrs = []struct{ name, s string }{
	{"v4", "127.0.0.1:5625"},
	{"name", "node-1.example.com:5625"},
	{"short", "a:1"},
	{"port-0", "node:0"},
	{"port-65535", "node:65535"},
	{"v6", "[2001:db8::1]:5625"},
	{"v6-any", "[::]:5625"},
	{"v6-loopback", "[::1]:1"},
	{"v6-full", "[1:2:3:4:5:6:7:8]:5625"},
	{"v6-seven-and-gap", "[1:2:3:4:5:6:7::]:5625"},
	{"v6-mapped", "[::ffff:10.0.0.1]:5625"},
	{"v6-upper-case", "[FE80::ABCD]:5625"},
	{"261-bytes", times("h", 255) + ":65535"},
	{"high-bytes", "b\xc3\xbccher.example:5625"},
}

var badAddrs = []struct{ name, s string }{
	{"262-bytes", times("h", 256) + ":65535"},
	{"no-port", "node"},
	{"port-empty", "node:"},
	{"host-empty", ":5625"},
	{"only-colon", ":"},
	{"port-65536", "node:65536"},
	{"port-six-digits", "node:100000"},
	{"port-leading-zero", "node:05625"},
	{"port-00", "node:00"},
	{"port-plus", "node:+1"},
	{"port-word", "node:http"},
	{"v6-bare", "::1:5625"},
	{"v6-no-port", "[::1]"},
	{"v6-empty", "[]:5625"},
	{"v6-open", "[::1:5625"},
	{"v6-closed-only", "::1]:5625"},
	{"v6-zone", "[fe80::1%eth0]:5625"},
	{"v6-v4-inside", "[10.0.0.1]:5625"},
	{"v6-name-inside", "[node]:5625"},
	{"v6-nine-groups", "[1:2:3:4:5:6:7:8:9]:5625"},
	{"v6-eight-and-gap", "[1:2:3:4:5:6:7:8::]:5625"},
	{"v6-seven", "[1:2:3:4:5:6:7]:5625"},
	{"v6-two-gaps", "[1::2::3]:5625"},
	{"v6-five-digits", "[12345::]:5625"},
	{"v6-colon-first", "[:1:2:3:4:5:6:7]:5625"},
	{"v6-colon-last", "[1:2:3:4:5:6:7:]:5625"},
	{"v6-v4-too-great", "[::ffff:10.0.0.256]:5625"},
	{"v6-v4-not-last", "[::10.0.0.1:1]:5625"},
	{"bracket-in-name", "no]de:5625"},
	{"del", "no\x7fde:5625"},
	{"tab", "no\tde:5625"},
}

func answers() []answer {
	var all []answer
	names := named{}
	good := func(name, section, line, op, key string, f answerFields) {
		names.add(name)
		f.Op = line[:1]
		if op != "" {
			f.For = &op
		}
		if key != "" {
			f.Key, f.KeyHex = text(key)
		}
		all = append(all, answer{name, section, bytesOf(line + "\n"), &f})
	}
	bad := func(name, section, line string) {
		names.add(name)
		all = append(all, answer{name, section, bytesOf(line + "\n"), nil})
	}
	shortest := func(f answerFields, line string) answerFields {
		r := bytesOf(line + "\n")
		f.Shortest = &r
		return f
	}
	grant := func(token string, lease int64) answerFields {
		return answerFields{Token: token, LeaseMS: &lease}
	}
	profiles := func(list ...string) answerFields {
		if list == nil {
			list = []string{}
		}
		return answerFields{Addr: "127.0.0.1:5625", Profiles: &list}
	}
	refused := func(code string, known bool, txt string) answerFields {
		f := answerFields{Code: code, Known: &known}
		f.Text, f.TextHex = text(txt)
		return f
	}

	good("granted", "4.1", "A door 257698037760000001 30", "A", "door", grant("257698037760000001", 30_000))
	good("granted-nothing-left", "9.5", "A door 7 0", "A", "door", grant("7", 0))
	good("granted-fraction", "2.5", "A door 7 29.5", "A", "door", grant("7", 29_500))
	good("granted-cr", "2.2", "A door 7 30\r", "A", "door", shortest(grant("7", 30_000), "A door 7 30"))
	good("timeout", "4.1", "T door", "A", "door", answerFields{})
	good("timeout-key-is-an-op", "3.2", "T A", "A", "A", answerFields{})
	good("released", "4.2", "R door 7", "R", "door", answerFields{Token: "7"})
	good("kept", "4.3", "K door 7 30", "K", "door", grant("7", 30_000))
	good("cancelled", "4.4", "C door n1", "C", "door", answerFields{Nonce: "n1"})
	good("cancelled-32-bytes", "4.4", "C door "+times("n", 32), "C", "door", answerFields{Nonce: times("n", 32)})
	good("pong", "4.5", "P word", "P", "word", answerFields{})
	good("welcome", "4.6", "H 1 127.0.0.1:5625 core,keep,ping,hello,resume", "H", "1", profiles("core", "keep", "ping", "hello", "resume"))
	good("welcome-one-profile", "4.6", "H 1 127.0.0.1:5625 core", "H", "1", profiles("core"))
	good("welcome-no-profiles", "4.6", "H 1 127.0.0.1:5625 -", "H", "1", profiles())
	good("welcome-unknown-profile", "14.2", "H 1 127.0.0.1:5625 core,tea,Keep", "H", "1", profiles("core", "tea", "Keep"))
	good("moved-acquire", "12.2", "M A door 127.0.0.1:5625", "A", "door", answerFields{Addr: "127.0.0.1:5625"})
	good("moved-release", "12.2", "M R door 127.0.0.1:5625", "R", "door", answerFields{Addr: "127.0.0.1:5625"})
	good("moved-keep", "12.2", "M K door 127.0.0.1:5625", "K", "door", answerFields{Addr: "127.0.0.1:5625"})
	good("moved-cancel", "12.2", "M C door 127.0.0.1:5625", "C", "door", answerFields{Addr: "127.0.0.1:5625"})
	for _, a := range goodAddrs {
		f := answerFields{Addr: a.s}
		good("moved-to-"+a.name, "2.7", "M A door "+a.s, "A", "door", f)
	}
	for _, k := range oddKeys {
		good("granted-key-"+k.name, "2.6", "A "+k.key+" 7 30", "A", k.key, grant("7", 30_000))
		good("timeout-key-"+k.name, "2.6", "T "+k.key, "A", k.key, answerFields{})
		good("moved-key-"+k.name, "2.6", "M A "+k.key+" a:1", "A", k.key, answerFields{Addr: "a:1"})
		good("error-key-"+k.name, "2.6", "E A "+k.key+" spent", "A", k.key, refused("spent", true, ""))
	}
	for _, t := range goodTokens {
		good("granted-token-"+t.name, "2.5", "A door "+t.s+" 30", "A", "door", grant(t.s, 30_000))
		good("released-token-"+t.name, "2.5", "R door "+t.s, "R", "door", answerFields{Token: t.s})
	}
	for _, s := range goodSeconds {
		f := grant("7", s.ms)
		if s.s != s.shortest {
			f = shortest(f, "A door 7 "+s.shortest)
		}
		good("granted-lease-"+s.name, "2.5", "A door 7 "+s.s, "A", "door", f)
	}

	// Version 1 may grow: fields at the end are ignored, whatever they are.
	good("granted-extra", "14.2", "A door 7 30 x", "A", "door", shortest(grant("7", 30_000), "A door 7 30"))
	good("granted-two-extra", "14.2", "A door 7 30 x y=z", "A", "door", shortest(grant("7", 30_000), "A door 7 30"))
	good("timeout-extra", "14.2", "T door x", "A", "door", shortest(answerFields{}, "T door"))
	good("released-extra", "14.2", "R door 7 x", "R", "door", shortest(answerFields{Token: "7"}, "R door 7"))
	good("kept-extra", "14.2", "K door 7 30 x", "K", "door", shortest(grant("7", 30_000), "K door 7 30"))
	good("cancelled-extra", "14.2", "C door n1 x", "C", "door", shortest(answerFields{Nonce: "n1"}, "C door n1"))
	good("pong-extra", "14.2", "P word x", "P", "word", shortest(answerFields{}, "P word"))
	good("welcome-extra", "14.2", "H 1 127.0.0.1:5625 core x", "H", "1", shortest(profiles("core"), "H 1 127.0.0.1:5625 core"))
	good("moved-extra", "14.2", "M A door 127.0.0.1:5625 x", "A", "door", shortest(answerFields{Addr: "127.0.0.1:5625"}, "M A door 127.0.0.1:5625"))
	good("error-extra-is-text", "14.2", "E A door spent x", "A", "door", refused("spent", true, "x"))

	// Errors. Programs compare codes only.
	for _, code := range []string{"bad-request", "unknown-op", "not-held", "superseded", "spent", "queue-full", "unauthorized", "no-active", "stopping"} {
		good("error-"+code, "5.3", "E A door "+code, "A", "door", refused(code, true, ""))
	}
	good("error-limit", "5.3", "E ? ? limit", "", "", refused("limit", true, ""))
	good("error-version", "4.6", "E H 9 version 1", "H", "9", refused("version", true, "1"))
	good("error-version-list", "4.6", "E H 9 version 1,2 this node speaks versions 1 and 2", "H", "9", refused("version", true, "1,2 this node speaks versions 1 and 2"))
	good("error-no-key", "5.2", "E A ? bad-key", "A", "", refused("bad-key", true, ""))
	good("error-no-key-text", "5.2", "E A ? bad-key no key", "A", "", refused("bad-key", true, "no key"))
	good("error-no-op", "5.2", "E ? ? bad-request", "", "", refused("bad-request", true, ""))
	good("error-text", "5.4", "E R door not-held the lease ended", "R", "door", refused("not-held", true, "the lease ended"))
	good("error-text-changed", "5.4", "E R door not-held No such grant. (Was it released?)", "R", "door", refused("not-held", true, "No such grant. (Was it released?)"))
	good("error-text-names-another-code", "5.4", "E R door not-held spent", "R", "door", refused("not-held", true, "spent"))
	good("error-text-spaces", "2.8", "E R door not-held  two  spaces ", "R", "door", refused("not-held", true, " two  spaces "))
	good("error-text-empty", "2.8", "E R door not-held ", "R", "door", shortest(refused("not-held", true, ""), "E R door not-held"))
	good("error-text-utf8", "2.8", "E R door not-held Schlüssel 🔒", "R", "door", refused("not-held", true, "Schlüssel 🔒"))
	good("error-text-invalid-utf8", "2.8", "E R door not-held \xff\xfe", "R", "door", refused("not-held", true, "\xff\xfe"))
	good("error-text-longest-line", "2.8", "E R door not-held "+times("t", 1005), "R", "door", refused("not-held", true, times("t", 1005)))
	good("error-unknown-code", "5.4", "E A door full-moon come back later", "A", "door", refused("full-moon", false, "come back later"))
	good("error-unknown-code-upper-case", "5.4", "E A door Not-Held", "A", "door", refused("Not-Held", false, ""))
	good("error-unknown-code-prefix", "5.4", "E A door not-held-yet", "A", "door", refused("not-held-yet", false, ""))
	good("error-op-not-spoken", "5.2", "E B door unknown-op", "B", "door", refused("unknown-op", true, ""))
	good("error-for-timeout", "5.2", "E T door unknown-op", "T", "door", refused("unknown-op", true, ""))
	good("error-for-error", "5.2", "E E A unknown-op", "E", "A", refused("unknown-op", true, ""))

	for _, line := range []struct{ name, s string }{
		{"lower-case", "a door 7 30"},
		{"request-only", "B door 7"},
		{"byte-before-A", "@ door 7 30"},
		{"byte-after-Z", "[ door 7 30"},
		{"space-first", " A door 7 30"},
		{"word", "OK"},
		{"one-byte", "A"},
		{"op-and-space", "T "},
		{"two-letters", "AA door 7 30"},
		{"tab", "A\tdoor 7 30"},
		{"key-question-mark", "A ? 7 30"},
		{"timeout-question-mark", "T ?"},
		{"key-empty", "A  7 30"},
		{"key-256-bytes", "T " + times("k", 256)},
		{"key-del", "T do\x7for"},
		{"key-tab", "T do\tor"},
		{"granted-no-fields", "A door"},
		{"granted-no-lease", "A door 7"},
		{"granted-space-last", "A door 7 "},
		{"granted-two-spaces", "A door  7 30"},
		{"granted-lease-minus-one", "A door 7 -1"},
		{"granted-lease-four-decimals", "A door 7 0.1234"},
		{"granted-lease-ten-digits", "A door 7 1000000000"},
		{"released-no-token", "R door"},
		{"kept-no-lease", "K door 7"},
		{"cancelled-no-nonce", "C door"},
		{"cancelled-33-bytes", "C door " + times("n", 33)},
		{"cancelled-bad-byte", "C door n@"},
		{"welcome-nothing", "H 1"},
		{"welcome-no-profiles", "H 1 127.0.0.1:5625"},
		{"welcome-profiles-empty", "H 1 127.0.0.1:5625 "},
		{"welcome-bad-node", "H 1 nowhere core"},
		{"welcome-other-version", "H 2 127.0.0.1:5625 core"},
		{"moved-nothing", "M"},
		{"moved-no-key", "M A"},
		{"moved-no-addr", "M A door"},
		{"moved-addr-empty", "M A door "},
		{"moved-no-op", "M ? door 127.0.0.1:5625"},
		{"moved-key-question-mark", "M A ? 127.0.0.1:5625"},
		{"moved-lower-case", "M a door 127.0.0.1:5625"},
		{"moved-old-form", "M door 127.0.0.1:5625"},
		{"error-nothing", "E"},
		{"error-no-key", "E A"},
		{"error-no-code", "E A door"},
		{"error-code-empty", "E A door "},
		{"error-code-tab", "E A door not\theld"},
		{"error-key-without-op", "E ? door bad-request"},
		{"error-lower-case", "E a door bad-request"},
		{"error-two-letters", "E AB door bad-request"},
		{"error-key-256-bytes", "E A " + times("k", 256) + " spent"},
	} {
		bad("no-answer-"+line.name, "13.13", line.s)
	}
	for _, t := range badTokens {
		bad("no-answer-granted-token-"+t.name, "13.13", "A door "+t.s+" 30")
		bad("no-answer-released-token-"+t.name, "13.13", "R door "+t.s)
	}
	for _, a := range badAddrs {
		bad("no-answer-moved-to-"+a.name, "2.7", "M A door "+a.s)
	}
	return all
}
