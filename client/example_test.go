package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
	"github.com/stile-lock/stile/protocol"
)

func Example() {
	addrs := serve() // of your servers, as "10.0.0.1:5625,10.0.0.2:5625"
	ctx := context.Background()

	c, err := client.Dial(ctx, addrs)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	lock, err := c.Acquire(ctx, "orders/42", client.Wait(5*time.Second), client.Lease(30*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("holding", lock.Key(), "for", time.Until(lock.Expires()).Round(time.Second))

	// Whatever the lock protects refuses lower tokens.
	var guard fence.Guard
	err = guard.Do(ctx, lock, func() error {
		fmt.Println("written")
		return nil
	})
	fmt.Println(errors.Join(err, lock.Release(ctx)))
	// Output:
	// holding orders/42 for 30s
	// written
	// <nil>
}

func ExampleClient_Do() {
	ctx := context.Background()
	c, err := client.Dial(ctx, serve())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	err = c.Do(ctx, "nightly-report", func(ctx context.Context, lock *client.Lock) error {
		// ctx ends as soon as the lock is not held any more. The lease is
		// renewed until this function returns.
		fmt.Println("working")
		return ctx.Err()
	}, client.Lease(10*time.Second))
	fmt.Println(err)
	// Output:
	// working
	// <nil>
}

func ExampleClient_TryAcquire() {
	ctx := context.Background()
	c, err := client.Dial(ctx, serve())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	first, err := c.TryAcquire(ctx, "leader")
	fmt.Println(err)
	_, err = c.TryAcquire(ctx, "leader")
	fmt.Println(errors.Is(err, client.ErrTimeout))

	first.Release(ctx)
	_, err = c.TryAcquire(ctx, "leader")
	fmt.Println(err)
	// Output:
	// <nil>
	// true
	// <nil>
}

func ExampleOutcomeOf() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "127.0.0.1:1") // where nobody listens
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	_, err = c.Acquire(ctx, "orders/42")
	fmt.Println(errors.Is(err, client.ErrNoConnection), client.OutcomeOf(err))

	_, err = c.Acquire(ctx, "no spaces")
	fmt.Println(errors.Is(err, client.ErrBadKey), client.OutcomeOf(err))
	// Output:
	// true did not happen
	// true did not happen
}

func ExampleLock_Context() {
	ctx := context.Background()
	c, err := client.Dial(ctx, serve())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	lock, err := c.Acquire(ctx, "orders/42", client.Lease(50*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	<-lock.Context().Done() // the work that took too long
	fmt.Println(context.Cause(lock.Context()))
	// Output:
	// lease lost
}

// serve starts a server that knows just enough for the examples, and returns
// its address.
func serve() string {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	held := make(map[string]uint64)
	token := uint64(0)
	answer := func(out []byte, r *protocol.Request) []byte {
		mu.Lock()
		defer mu.Unlock()
		key := string(r.Key)
		switch {
		case r.Op == protocol.OpHello:
			return protocol.AppendWelcome(out, []byte("127.0.0.1:5625"), []byte("core,keep,ping,hello,resume"))
		case r.Op == protocol.OpAcquire && held[key] != 0:
			return protocol.AppendTimeout(out, r.Key)
		case r.Op == protocol.OpAcquire:
			token++
			held[key] = token
			return protocol.AppendGrant(out, r.Key, token, r.Lease)
		case r.Op == protocol.OpRelease:
			delete(held, key)
			return protocol.AppendRelease(out, r.Key, r.Token)
		case r.Op == protocol.OpKeep:
			return protocol.AppendKeep(out, r.Key, r.Token, r.Lease)
		case r.Op == protocol.OpCancel:
			return protocol.AppendCancel(out, r.Key, r.Nonce)
		default:
			return protocol.AppendPing(out, r.Key)
		}
	}
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				var lines protocol.Lines
				var r protocol.Request
				for {
					n, err := conn.Read(lines.Free())
					if err != nil {
						return
					}
					lines.Fed(n)
					var out []byte
					for line, ok, _ := lines.Next(); ok; line, ok, _ = lines.Next() {
						protocol.ParseRequest(line, &r)
						out = answer(out, &r)
					}
					conn.Write(out)
				}
			}()
		}
	}()
	return lis.Addr().String()
}
