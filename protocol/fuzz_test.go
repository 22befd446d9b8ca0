package protocol

import (
	"bytes"
	"reflect"
	"testing"
)

// oneLine returns the line of what was appended, checked for being exactly
// one within the limit.
func oneLine(t *testing.T, appended []byte) []byte {
	t.Helper()
	var line []byte
	count := 0
	pending, err := feed([][]byte{appended}, func(b []byte) { line, count = bytes.Clone(b), count+1 })
	if err != nil || count != 1 || pending != 0 || len(appended) > MaxLine {
		t.Fatalf("appended %q: %d lines, %d bytes pending, %v", appended, count, pending, err)
	}
	return line
}

// FuzzParseRequest: what is parsed and appended parses to the same; what is
// refused is refused with a line that its client can read.
func FuzzParseRequest(f *testing.F) {
	for _, s := range streams(f) {
		f.Add(bytes.TrimSuffix(s, []byte("\n")))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var r Request
		before := bytes.Clone(line)
		code := ParseRequest(line, &r)
		if !bytes.Equal(line, before) {
			t.Fatal("parsing changed the line")
		}
		if code == 0 {
			if r.Op == 0 || r.Key == nil {
				t.Fatalf("%q: a request without op or key: %+v", line, r)
			}
			appended := AppendRequest(nil, &r)
			var again Request
			if code := ParseRequest(oneLine(t, appended), &again); code != 0 || !reflect.DeepEqual(again, r) {
				t.Fatalf("%q\nfirst  %+v\nsecond %+v, %v", line, r, again, code)
			}
			if twice := AppendRequest(nil, &again); !bytes.Equal(twice, appended) {
				t.Fatalf("appended %q, then %q", appended, twice)
			}
			return
		}
		if !reflect.DeepEqual(r, Request{Op: r.Op, Key: r.Key}) {
			t.Fatalf("%q: fields of a refused request: %+v", line, r)
		}
		switch code {
		case CodeBadKey:
			if r.Op == 0 || r.Key != nil {
				t.Fatalf("%q: bad-key with %+v", line, r)
			}
		case CodeBadRequest, CodeUnknownOp, CodeVersion:
			if (r.Op == 0) != (r.Key == nil) || r.Op == 0 && code != CodeBadRequest {
				t.Fatalf("%q: %v with %+v", line, code, r)
			}
		default:
			t.Fatalf("%q: %v", line, code)
		}
		// The line itself as the text: the worst there is.
		for _, text := range [][]byte{nil, line} {
			var a Answer
			answer := oneLine(t, AppendError(nil, r.Op, r.Key, code, text))
			if err := ParseAnswer(answer, &a); err != nil || a.For != r.Op || !bytes.Equal(a.Key, r.Key) || a.Code != code {
				t.Fatalf("%q is refused with %q, which parses to %+v, %v", line, answer, a, err)
			}
		}
	})
}

// FuzzParseAnswer: what is parsed and appended parses to the same, but for
// control bytes in the text of an E.
func FuzzParseAnswer(f *testing.F) {
	for _, s := range streams(f) {
		f.Add(bytes.TrimSuffix(s, []byte("\n")))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) >= MaxLine {
			line = line[:MaxLine-1]
		}
		var a Answer
		before := bytes.Clone(line)
		err := ParseAnswer(line, &a)
		if !bytes.Equal(line, before) {
			t.Fatal("parsing changed the line")
		}
		if err != nil {
			if !reflect.DeepEqual(a, Answer{}) {
				t.Fatalf("%q: fields of what is no answer: %+v", line, a)
			}
			return
		}
		if a.Op == 0 || a.Key == nil && a.Op != OpError || a.For == 0 && a.Key != nil {
			t.Fatalf("%q: %+v", line, a)
		}
		appended := AppendAnswer(nil, &a)
		var again Answer
		if err := ParseAnswer(oneLine(t, appended), &again); err != nil {
			t.Fatalf("%q\n%+v\nis appended as %q: %v", line, a, appended, err)
		}
		text := bytes.Clone(a.Text)
		for i, c := range text {
			if c < 0x20 || c == 0x7F {
				text[i] = ' '
			}
		}
		if !bytes.Equal(again.Text, text) {
			t.Fatalf("%q: text %q, then %q", line, a.Text, again.Text)
		}
		a.Text, again.Text = nil, nil
		if !reflect.DeepEqual(again, a) {
			t.Fatalf("%q\nfirst  %+v\nsecond %+v", line, a, again)
		}
	})
}

// plainLines cuts a stream the slow and obvious way.
func plainLines(stream []byte) (lines [][]byte, pending int, tooLong bool) {
	for {
		i := bytes.IndexByte(stream, '\n')
		if i >= MaxLine || i < 0 && len(stream) >= MaxLine {
			return lines, len(stream), true
		}
		if i < 0 {
			return lines, len(stream), false
		}
		if line := bytes.TrimSuffix(stream[:i:i], []byte("\r")); len(line) > 0 {
			lines = append(lines, line)
		}
		stream = stream[i+1:]
	}
}

// FuzzLines: however a stream is cut into reads, its lines are the same. Each
// byte of cuts is the size of a read, in steps that make long ones likely.
func FuzzLines(f *testing.F) {
	for i, s := range streams(f) {
		f.Add(s, []byte{byte(i), 1, 3})
	}
	f.Add(benchmarkStream(6000), []byte{255})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		// Enough for the buffer to grow; longer ones only cost time.
		stream = stream[:min(len(stream), 8<<10)]
		var parts [][]byte
		rest := stream
		for i := 0; len(rest) > 0; i++ {
			n := len(rest)
			if len(cuts) > 0 {
				c := int(cuts[i%len(cuts)])
				n = min(n, 1+c*c/16)
			}
			parts = append(parts, rest[:n])
			rest = rest[n:]
		}
		var got [][]byte
		pending, err := feed(parts, func(line []byte) { got = append(got, bytes.Clone(line)) })
		want, left, tooLong := plainLines(stream)
		if !reflect.DeepEqual(got, want) || pending != left || (err == ErrLineTooLong) != tooLong || err != nil && !tooLong {
			t.Fatalf("reads of %v:\n got %q, %d pending, %v\nwant %q, %d pending, too long %v", cuts, got, pending, err, want, left, tooLong)
		}
	})
}
