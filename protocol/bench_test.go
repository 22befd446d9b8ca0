package protocol

import (
	"testing"
	"time"
)

func BenchmarkParseRequest(b *testing.B) {
	for _, v := range []struct{ name, line string }{
		{"A", "A orders/4711 10 30"},
		{"A-nonce", "A orders/4711 10 30 q7LmX2_9aYbT-0Kd42"},
		{"R", "R orders/4711 257698037760000001"},
		{"K", "K orders/4711 257698037760000001 30"},
		{"C", "C orders/4711 q7LmX2_9aYbT-0Kd42"},
		{"P", "P 42"},
		{"refused", "A orders/4711 ten 30"},
	} {
		b.Run(v.name, func(b *testing.B) {
			line := []byte(v.line)
			b.SetBytes(int64(len(line)) + 1)
			b.ReportAllocs()
			var r Request
			for b.Loop() {
				sink += int(ParseRequest(line, &r))
			}
		})
	}
}

func BenchmarkParseAnswer(b *testing.B) {
	for _, v := range []struct{ name, line string }{
		{"A", "A orders/4711 257698037760000001 30"},
		{"T", "T orders/4711"},
		{"R", "R orders/4711 257698037760000001"},
		{"M", "M A orders/4711 node-2.example.com:5625"},
		{"M-v6", "M A orders/4711 [2001:db8::1]:5625"},
		{"E", "E R orders/4711 not-held the lease has ended"},
	} {
		b.Run(v.name, func(b *testing.B) {
			line := []byte(v.line)
			b.SetBytes(int64(len(line)) + 1)
			b.ReportAllocs()
			var a Answer
			for b.Loop() {
				if ParseAnswer(line, &a) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	key, nonce := []byte("orders/4711"), []byte("q7LmX2_9aYbT-0Kd42")
	const token = 257698037760000001
	dst := make([]byte, 0, MaxLine)
	for _, v := range []struct {
		name string
		f    func() []byte
	}{
		{"acquire", func() []byte { return AppendAcquire(dst, key, 10*time.Second, 30*time.Second, nil) }},
		{"acquire-nonce", func() []byte { return AppendAcquire(dst, key, 10*time.Second, 30*time.Second, nonce) }},
		{"release", func() []byte { return AppendRelease(dst, key, token) }},
		{"grant", func() []byte { return AppendGrant(dst, key, token, 30*time.Second) }},
		{"grant-fraction", func() []byte { return AppendGrant(dst, key, token, 29*time.Second+998*time.Millisecond) }},
		{"timeout", func() []byte { return AppendTimeout(dst, key) }},
		{"error", func() []byte { return AppendError(dst, OpRelease, key, CodeNotHeld, "the lease has ended") }},
	} {
		b.Run(v.name, func(b *testing.B) {
			b.SetBytes(int64(len(v.f())))
			b.ReportAllocs()
			for b.Loop() {
				sink += len(v.f())
			}
		})
	}
}

// benchmarkStream is whole requests of the usual kinds, about n bytes.
func benchmarkStream(n int) (stream []byte) {
	for i := 0; len(stream) < n; i++ {
		key := appendUint([]byte("orders/"), uint64(i%1000))
		stream = AppendAcquire(stream, key, 10*time.Second, 30*time.Second, nil)
		stream = AppendRelease(stream, key, 257698037760000001+uint64(i))
	}
	return stream
}

// BenchmarkLines cuts a stream that comes in reads of 4 KiB; the figure
// includes the copy that stands for the read.
func BenchmarkLines(b *testing.B) {
	stream := benchmarkStream(64 << 10)
	for _, parse := range []bool{false, true} {
		name := "cut"
		if parse {
			name = "cut-and-parse"
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			var l Lines
			var r Request
			lines := 0
			for b.Loop() {
				lines = 0
				for rest := stream; len(rest) > 0; {
					n := copy(l.Free(), rest[:min(4096, len(rest))])
					l.Fed(n)
					rest = rest[n:]
					for {
						line, ok, err := l.Next()
						if err != nil {
							b.Fatal(err)
						}
						if !ok {
							break
						}
						lines++
						if parse && ParseRequest(line, &r) != 0 {
							b.Fatalf("refused %q", line)
						}
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(lines), "ns/line")
		})
	}
}
