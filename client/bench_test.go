package client

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/stile-lock/stile/protocol"
)

// benchServer answers everything well, over TCP on loopback.
func benchServer(b *testing.B) string {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { lis.Close() })
	go func() {
		for {
			nc, err := lis.Accept()
			if err != nil {
				return
			}
			go benchServe(nc)
		}
	}()
	return lis.Addr().String()
}

func benchServe(nc net.Conn) {
	defer nc.Close()
	var lines protocol.Lines
	var r protocol.Request
	var out []byte
	for {
		n, err := nc.Read(lines.Free())
		if err != nil {
			return
		}
		lines.Fed(n)
		for {
			line, ok, _ := lines.Next()
			if !ok {
				break
			}
			if protocol.ParseRequest(line, &r) != 0 {
				return
			}
			switch r.Op {
			case opA:
				out = protocol.AppendGrant(out, r.Key, nextToken(), 30e9)
			case opR:
				out = protocol.AppendRelease(out, r.Key, r.Token)
			case opP:
				out = protocol.AppendPing(out, r.Key)
			case opH:
				out = protocol.AppendWelcome(out, []byte("127.0.0.1:1"), []byte(allProfiles))
			}
		}
		if _, err := nc.Write(out); err != nil {
			return
		}
		out = out[:0]
	}
}

// BenchmarkAcquireRelease is one goroutine that acquires and releases: two
// round trips.
func BenchmarkAcquireRelease(b *testing.B) {
	c, err := Dial(bg, benchServer(b))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		l, err := c.Acquire(bg, "key", Wait(5e9))
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(bg); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAcquireReleaseParallel is many goroutines over the same two
// connections.
func BenchmarkAcquireReleaseParallel(b *testing.B) {
	c, err := Dial(bg, benchServer(b))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	b.ReportAllocs()
	b.SetParallelism(64)
	next := make(chan int, 1<<12)
	for i := range 1 << 12 {
		next <- i
	}
	b.RunParallel(func(pb *testing.PB) {
		key := fmt.Sprintf("key-%d", <-next)
		for pb.Next() {
			l, err := c.Acquire(ctx, key, Wait(5e9))
			if err != nil {
				b.Error(err)
				return
			}
			if err := l.Release(ctx); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
