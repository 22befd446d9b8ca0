package protocol

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func readSpec(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// clauses returns the numbers of the headings, after a check that they count
// up without a gap.
func clauses(t *testing.T, spec string) map[string]bool {
	t.Helper()
	have := map[string]bool{}
	chapter, clause := 0, 0
	next := func(n *int, s string) bool {
		*n++
		return s == string(appendUint(nil, uint64(*n)))
	}
	for _, m := range regexp.MustCompile(`(?m)^(##|###) (\d+)\.(\d*) `).FindAllStringSubmatch(spec, -1) {
		ok := false
		if m[1] == "##" {
			ok, clause = next(&chapter, m[2]) && m[3] == "", 0
		} else {
			ok = m[2] == string(appendUint(nil, uint64(chapter))) && next(&clause, m[3])
		}
		if !ok {
			t.Errorf("heading %q does not follow the one before", m[0])
		}
		have[strings.TrimSuffix(m[2]+"."+m[3], ".")] = true
	}
	if len(have) < 50 {
		t.Errorf("only %d numbered headings were found", len(have))
	}
	return have
}

// TestClausesExist: whoever cites a clause of SPEC.md, in the document, in a
// vector or in a comment, cites one that is there.
func TestClausesExist(t *testing.T) {
	spec := readSpec(t)
	have := clauses(t, spec)
	cited := 0
	cite := func(where, clause string) {
		cited++
		if !have[clause] {
			t.Errorf("%s cites SPEC.md %s, which does not exist", where, clause)
		}
	}
	number := regexp.MustCompile(`\d+\.\d+`)
	// In the document a citation is a number in brackets, by itself or in a
	// list, or at the end of a sentence in brackets: (3.3), (6.5, 6.6).
	for _, m := range regexp.MustCompile(`\(\d+\.\d+(?:(?:, | to | and )\d+\.\d+)*\)`).FindAllString(spec, -1) {
		for _, n := range number.FindAllString(m, -1) {
			cite("SPEC.md", n)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\|.*\| (\d+\.\d+(?:, \d+\.\d+)*) \|$`).FindAllStringSubmatch(spec, -1) {
		for _, n := range number.FindAllString(m[1], -1) {
			cite("the limits table of SPEC.md", n)
		}
	}
	for _, v := range load[requestVector](t, "requests.json") {
		cite("requests.json: "+v.Name, v.Section)
	}
	for _, v := range load[answerVector](t, "answers.json") {
		cite("answers.json: "+v.Name, v.Section)
	}
	for _, v := range load[lineVector](t, "lines.json") {
		cite("lines.json: "+v.Name, v.Section)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, "testdata/vectors/README.md") {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`SPEC\.md (\d+\.\d+)`).FindAllStringSubmatch(string(b), -1) {
			cite(name, m[1])
		}
	}
	if cited < 500 {
		t.Errorf("only %d citations were found", cited)
	}
}

// TestAnchors: every link inside the document leads somewhere.
func TestAnchors(t *testing.T) {
	spec := readSpec(t)
	have := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(spec, -1) {
		slug := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		have[strings.ReplaceAll(slug, " ", "-")] = true
	}
	for _, m := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(spec, -1) {
		if !have[m[1]] {
			t.Errorf("no heading for the link #%s", m[1])
		}
	}
}

// TestTranscripts checks the form of the transcripts, and that each refusal
// in them is the one this codec makes. The server module replays them.
func TestTranscripts(t *testing.T) {
	head := regexp.MustCompile(`^transcript name=([a-z-]+)(?: secret=(\S+))?$`)
	form := regexp.MustCompile(`^(?:(\d+)([<>]) (.*)|wait (\S+)|(\d+) (drop|closed)|#.*)$`)
	names := map[string]bool{}
	sc := bufio.NewScanner(strings.NewReader(readSpec(t)))
	in := ""
	// What connection n must still be answered, for lines that are refused
	// whatever the server's state is.
	refusals := map[string][]string{}
	for sc.Scan() {
		line := sc.Text()
		switch info, fence := strings.CutPrefix(line, "```"); {
		case fence && in != "":
			for n, left := range refusals {
				if len(left) > 0 {
					t.Errorf("%s: connection %s is not told %q", in, n, left)
				}
			}
			in = ""
		case fence && strings.HasPrefix(info, "transcript"):
			m := head.FindStringSubmatch(info)
			if m == nil {
				t.Fatalf("fence %q", line)
			}
			if in = m[1]; names[in] {
				t.Errorf("two transcripts are named %s", in)
			}
			names[in] = true
			clear(refusals)
		case fence:
			// Another block: its end is a fence too.
			for sc.Scan() && !strings.HasPrefix(sc.Text(), "```") {
			}
		case in == "":
		default:
			m := form.FindStringSubmatch(line)
			if m == nil {
				t.Errorf("%s: line %q", in, line)
				continue
			}
			n, text := m[1], []byte(m[3])
			switch {
			case m[2] == ">":
				var r Request
				if code := ParseRequest(text, &r); code != 0 {
					refusal := AppendError(nil, r.Op, r.Key, code, "")
					refusals[n] = append(refusals[n], string(refusal[:len(refusal)-1]))
				}
			case m[2] == "<":
				var a Answer
				if err := ParseAnswer(text, &a); err != nil {
					t.Errorf("%s: %q: %v", in, line, err)
				}
				if left := refusals[n]; len(left) > 0 && strings.HasPrefix(m[3]+" ", left[0]+" ") {
					refusals[n] = left[1:]
				} else if a.Code == CodeBadRequest || a.Code == CodeBadKey || a.Code == CodeUnknownOp || a.Code == CodeVersion {
					t.Errorf("%s: %q, want %q", in, line, left)
				}
			case m[4] != "":
				if _, ok := parseSeconds([]byte(m[4])); !ok {
					t.Errorf("%s: %q", in, line)
				}
			}
		}
	}
	if len(names) < 12 {
		t.Errorf("only %d transcripts", len(names))
	}
}
