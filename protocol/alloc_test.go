package protocol

import (
	"testing"
)

// sink keeps the compiler from dropping what is measured.
var sink int

// TestNoAllocations: parse and append of every op, and of every vector.
func TestNoAllocations(t *testing.T) {
	dst := make([]byte, 0, 2*MaxLine)
	none := func(name string, f func()) {
		t.Helper()
		if n := testing.AllocsPerRun(20, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	ops := map[Op]bool{}
	for _, v := range load[requestVector](t, "requests.json") {
		line := []byte(v.Hex[:len(v.Hex)-1])
		var r Request
		code := ParseRequest(line, &r)
		none("parse of "+v.Name, func() { sink += int(ParseRequest(line, &r)) })
		if code == 0 {
			ops[r.Op] = true
			none("append of "+v.Name, func() { sink += len(AppendRequest(dst, &r)) })
		} else {
			none("refusal of "+v.Name, func() { sink += len(AppendError(dst, r.Op, r.Key, code, "some text")) })
		}
	}
	for _, op := range []Op{OpAcquire, OpRelease, OpKeep, OpCancel, OpPing, OpHello} {
		if !ops[op] {
			t.Errorf("no request with op %v was measured", op)
		}
	}
	clear(ops)
	for _, v := range load[answerVector](t, "answers.json") {
		line := []byte(v.Hex[:len(v.Hex)-1])
		var a Answer
		err := ParseAnswer(line, &a)
		none("parse of answer "+v.Name, func() {
			if ParseAnswer(line, &a) != nil {
				sink++
			}
		})
		if err == nil {
			ops[a.Op] = true
			none("append of answer "+v.Name, func() { sink += len(AppendAnswer(dst, &a)) })
			none("profiles of "+v.Name, func() {
				if a.HasProfile("resume") {
					sink++
				}
			})
		}
	}
	for _, op := range []Op{OpAcquire, OpRelease, OpKeep, OpCancel, OpPing, OpHello, OpTimeout, OpMoved, OpError} {
		if !ops[op] {
			t.Errorf("no answer with op %v was measured", op)
		}
	}
}

// TestLinesDoNotAllocate: once the buffer has its size.
func TestLinesDoNotAllocate(t *testing.T) {
	stream := benchmarkStream(64 << 10)
	for _, size := range []int{100, 1000, firstBuffer, lastBuffer} {
		var l Lines
		run := func() {
			for rest := stream; len(rest) > 0; {
				n := copy(l.Free(), rest[:min(size, len(rest))])
				l.Fed(n)
				rest = rest[n:]
				for {
					line, ok, err := l.Next()
					if err != nil {
						panic(err)
					}
					if !ok {
						break
					}
					sink += len(line)
				}
			}
		}
		run()
		run()
		if n := testing.AllocsPerRun(20, run); n != 0 {
			t.Errorf("reads of %d bytes: %v allocations", size, n)
		}
	}
}
