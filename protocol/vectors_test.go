package protocol

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

type rawVector struct {
	Hex hexBytes `json:"hex"`
}

type requestVector struct {
	Name    string
	Section string
	Hex     hexBytes
	Request *struct {
		Op        string
		Key       *string
		KeyHex    *hexBytes `json:"key_hex"`
		WaitMS    *int64    `json:"wait_ms"`
		LeaseMS   *int64    `json:"lease_ms"`
		Token     string
		Nonce     string
		Name      *string
		NameHex   *hexBytes `json:"name_hex"`
		Secret    *string
		SecretHex *hexBytes `json:"secret_hex"`
		Shortest  *rawVector
	}
	Refusal *struct {
		Code   string
		Op     *string
		Key    *string
		KeyHex *hexBytes `json:"key_hex"`
		Answer rawVector
		Closes bool
	}
}

type answerVector struct {
	Name    string
	Section string
	Hex     hexBytes
	Answer  *struct {
		Op       string
		For      *string
		Key      *string
		KeyHex   *hexBytes `json:"key_hex"`
		Token    string
		LeaseMS  *int64 `json:"lease_ms"`
		Nonce    string
		Addr     string
		Profiles *[]string
		Code     string
		Known    *bool
		Text     *string
		TextHex  *hexBytes `json:"text_hex"`
		Shortest *rawVector
	}
}

type lineVector struct {
	Name    string
	Section string
	Hex     hexBytes
	Lines   []rawVector
	Pending int
	TooLong bool `json:"too_long"`
}

func load[T any](t testing.TB, name string) (all []T) {
	t.Helper()
	b, err := os.ReadFile("testdata/vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no vectors", name)
	}
	return all
}

// either returns the bytes of a pair like key and key_hex, nil for neither.
func either(plain *string, inHex *hexBytes) []byte {
	switch {
	case plain != nil:
		return []byte(*plain)
	case inHex != nil:
		return *inHex
	}
	return nil
}

func millis(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Millisecond
}

func tokenOf(t testing.TB, s string) uint64 {
	t.Helper()
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// feed reads the stream in parts, calling each for every line. It returns the
// number of bytes that became no line, those after an error included, and the
// error.
func feed(parts [][]byte, each func(line []byte)) (pending int, err error) {
	var l Lines
	unread := 0
	for _, part := range parts {
		if err != nil {
			unread += len(part)
			continue
		}
		for len(part) > 0 && err == nil {
			n := copy(l.Free(), part)
			l.Fed(n)
			part = part[n:]
			for {
				var line []byte
				var ok bool
				if line, ok, err = l.Next(); !ok {
					break
				}
				each(line)
			}
		}
		unread += len(part)
	}
	if err != nil {
		if _, ok, again := l.Next(); ok || again != err {
			err = fmt.Errorf("the error %v is followed by %v, %v", err, ok, again)
		}
	}
	return l.Pending() + unread, err
}

// decoded is everything a stream means, in a form to compare.
func decoded(parts ...[]byte) string {
	var b []byte
	pending, err := feed(parts, func(line []byte) {
		b = append(append(b, line...), '\n')
		var r Request
		code := ParseRequest(line, &r)
		b = append(append(b, byte(code), byte(r.Op)), r.Key...)
		if code == 0 {
			b = AppendRequest(b, &r)
		}
		var a Answer
		if ParseAnswer(line, &a) == nil {
			b = append(AppendAnswer(b, &a), byte(a.For), byte(a.Code))
		}
	})
	b = appendUint(b, uint64(pending))
	if err != nil {
		b = append(b, err.Error()...)
	}
	return string(b)
}

func TestRequestVectors(t *testing.T) {
	for _, v := range load[requestVector](t, "requests.json") {
		t.Run(v.Name, func(t *testing.T) {
			if (v.Request == nil) == (v.Refusal == nil) {
				t.Fatal("the vector needs either a request or a refusal")
			}
			var r Request
			code, count := Code(0), 0
			_, err := feed([][]byte{v.Hex}, func(line []byte) {
				count++
				code = ParseRequest(bytes.Clone(line), &r)
			})
			if err == ErrLineTooLong {
				count++
				code = CodeBadRequest
			}
			if count != 1 {
				t.Fatalf("%d lines, want 1", count)
			}
			if v.Refusal != nil {
				want := v.Refusal
				if code.String() != want.Code {
					t.Fatalf("refused with %v, want %s", code, want.Code)
				}
				if got := AppendError(nil, r.Op, r.Key, code, ""); !bytes.Equal(got, want.Answer.Hex) {
					t.Errorf("answer %q, want %q", got, want.Answer.Hex)
				}
				if key := either(want.Key, want.KeyHex); !bytes.Equal(r.Key, key) || (r.Key == nil) != (key == nil) {
					t.Errorf("key %q, want %q", r.Key, key)
				}
				if closes := r.Op == 0; closes != want.Closes {
					t.Errorf("closes %v, want %v", closes, want.Closes)
				}
				if empty := (Request{Op: r.Op, Key: r.Key}); !reflect.DeepEqual(r, empty) {
					t.Errorf("fields are left in a refused request: %+v", r)
				}
				return
			}
			f := v.Request
			want := Request{
				Op: Op(f.Op[0]), Key: either(f.Key, f.KeyHex),
				Wait: millis(f.WaitMS), Lease: millis(f.LeaseMS), Token: tokenOf(t, f.Token),
				Name: either(f.Name, f.NameHex), Secret: either(f.Secret, f.SecretHex),
			}
			if f.WaitMS != nil && *f.WaitMS == -1 {
				want.Wait = NoQueue
			}
			if f.Nonce != "" {
				want.Nonce = []byte(f.Nonce)
			}
			if code != 0 {
				t.Fatalf("refused with %v", code)
			}
			if !reflect.DeepEqual(r, want) {
				t.Errorf("\n got %+v\nwant %+v", r, want)
			}
			shortest := v.Hex
			if f.Shortest != nil {
				shortest = f.Shortest.Hex
			}
			if got := AppendRequest(nil, &r); !bytes.Equal(got, shortest) {
				t.Errorf("appended %q, want %q", got, shortest)
			}
		})
	}
}

func TestAnswerVectors(t *testing.T) {
	for _, v := range load[answerVector](t, "answers.json") {
		t.Run(v.Name, func(t *testing.T) {
			var a Answer
			count := 0
			var err error
			if _, tooLong := feed([][]byte{v.Hex}, func(line []byte) {
				count++
				err = ParseAnswer(bytes.Clone(line), &a)
			}); tooLong != nil || count != 1 {
				t.Fatalf("%d lines, %v; want 1", count, tooLong)
			}
			if v.Answer == nil {
				if err != ErrBadAnswer || !reflect.DeepEqual(a, Answer{}) {
					t.Fatalf("got %+v, %v; want an empty answer and ErrBadAnswer", a, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			f := v.Answer
			want := Answer{
				Op: Op(f.Op[0]), Key: either(f.Key, f.KeyHex),
				Token: tokenOf(t, f.Token), Lease: millis(f.LeaseMS), Text: either(f.Text, f.TextHex),
			}
			if f.For != nil {
				want.For = Op((*f.For)[0])
			}
			if f.Nonce != "" {
				want.Nonce = []byte(f.Nonce)
			}
			if f.Addr != "" {
				want.Addr = []byte(f.Addr)
			}
			if f.Profiles != nil {
				want.Profiles = []byte(strings.Join(*f.Profiles, ","))
				if len(*f.Profiles) == 0 {
					want.Profiles = []byte("-")
				}
				for _, p := range *f.Profiles {
					if !a.HasProfile(p) {
						t.Errorf("HasProfile(%q) is false", p)
					}
				}
				for _, p := range []string{"cor", "core,keep", "coree", "eep", "milk"} {
					if a.HasProfile(p) {
						t.Errorf("HasProfile(%q) is true", p)
					}
				}
			}
			if f.Code != "" {
				want.CodeName = []byte(f.Code)
				want.Code = CodeUnknown
				for _, c := range Codes() {
					if c.String() == f.Code {
						want.Code = c
					}
				}
				if known := want.Code != CodeUnknown; known != *f.Known {
					t.Errorf("known %v, want %v", known, *f.Known)
				}
			}
			// An empty text and none are the same.
			if len(a.Text) == 0 {
				a.Text, want.Text = nil, want.Text[:len(want.Text):len(want.Text)]
				if len(want.Text) == 0 {
					want.Text = nil
				}
			}
			if !reflect.DeepEqual(a, want) {
				t.Errorf("\n got %+v\nwant %+v", a, want)
			}
			shortest := v.Hex
			if f.Shortest != nil {
				shortest = f.Shortest.Hex
			}
			if got := AppendAnswer(nil, &a); !bytes.Equal(got, shortest) {
				t.Errorf("appended %q, want %q", got, shortest)
			}
		})
	}
}

func TestLineVectors(t *testing.T) {
	for _, v := range load[lineVector](t, "lines.json") {
		t.Run(v.Name, func(t *testing.T) {
			var got [][]byte
			pending, err := feed([][]byte{v.Hex}, func(line []byte) { got = append(got, bytes.Clone(line)) })
			var want [][]byte
			for _, line := range v.Lines {
				want = append(want, line.Hex)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("\n got %q\nwant %q", got, want)
			}
			if pending != v.Pending {
				t.Errorf("pending %d, want %d", pending, v.Pending)
			}
			if tooLong := err == ErrLineTooLong; tooLong != v.TooLong || err != nil && !tooLong {
				t.Errorf("error %v, want too long: %v", err, v.TooLong)
			}
		})
	}
}

func TestSecondsVectors(t *testing.T) {
	for _, v := range load[struct {
		MS       int64
		Shortest string
	}](t, "seconds.json") {
		d := time.Duration(v.MS) * time.Millisecond
		if got := string(AppendSeconds(nil, d)); got != v.Shortest {
			t.Errorf("AppendSeconds(%v) = %s, want %s", d, got, v.Shortest)
		}
		if got, ok := parseSeconds([]byte(v.Shortest)); !ok || got != d {
			t.Errorf("parseSeconds(%s) = %v, %v", v.Shortest, got, ok)
		}
	}
}

// streams returns the bytes of every vector of every file.
func streams(t testing.TB) (all [][]byte) {
	for _, v := range load[requestVector](t, "requests.json") {
		all = append(all, v.Hex)
	}
	for _, v := range load[answerVector](t, "answers.json") {
		all = append(all, v.Hex)
	}
	for _, v := range load[lineVector](t, "lines.json") {
		all = append(all, v.Hex)
	}
	return all
}

func TestEveryCut(t *testing.T) {
	for _, s := range streams(t) {
		want := decoded(s)
		for i := range len(s) + 1 {
			if got := decoded(s[:i], s[i:]); got != want {
				t.Fatalf("%q cut at %d decodes to\n%q\nuncut to\n%q", s, i, got, want)
			}
		}
		var bytewise [][]byte
		for i := range s {
			bytewise = append(bytewise, s[i:i+1])
		}
		if got := decoded(bytewise...); got != want {
			t.Fatalf("%q byte by byte decodes to\n%q\nuncut to\n%q", s, got, want)
		}
	}
}

// TestOneStream sends all lines of all vectors over one connection, in reads
// of several sizes: nothing of one line shows in another.
func TestOneStream(t *testing.T) {
	var stream []byte
	var want []string
	one := func(line []byte) string {
		var r Request
		code := ParseRequest(line, &r)
		return fmt.Sprintf("%q %v %+v", line, code, r)
	}
	for _, s := range streams(t) {
		var mine []string
		pending, err := feed([][]byte{s}, func(line []byte) { mine = append(mine, one(line)) })
		if err != nil || pending != 0 {
			continue
		}
		stream = append(stream, s...)
		want = append(want, mine...)
	}
	for _, size := range []int{1, 7, 100, 1023, 1024, 1025, 5000, len(stream)} {
		var parts [][]byte
		for rest := stream; len(rest) > 0; {
			n := min(size, len(rest))
			parts = append(parts, rest[:n])
			rest = rest[n:]
		}
		var got []string
		if _, err := feed(parts, func(line []byte) { got = append(got, one(line)) }); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("reads of %d bytes: %d lines, want %d", size, len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("reads of %d bytes: line %d is\n%s\nwant\n%s", size, i, got[i], want[i])
			}
		}
	}
}
