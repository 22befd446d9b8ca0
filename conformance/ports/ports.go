// Package ports gives out ports of the loopback that stay their owner's while
// nobody listens on them: for servers that go down and come back on the port
// that they had.
//
// A port that is not listened on can be lost to three. To a connection of
// anybody's, which gets a port from the system: so these are below the ranges
// that systems give from. To this process: so it keeps count. To another
// process that uses this package: so each takes whole blocks of ports, and
// listens on the first of a block for as long as it lives.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

const (
	first  = 10_000
	blocks = 60
	size   = 100 // of a block
)

var given struct {
	sync.Mutex
	guards []net.Listener // kept, so that they are not closed
	free   []int          // the one that was given back first comes first
}

// Listen listens on a port of the ip, which has to be one of the loopback. The
// port is the caller's until it is given to Free.
func Listen(ip string) (net.Listener, error) {
	given.Lock()
	defer given.Unlock()
	var taken []int // by somebody who doesn't use this package
	defer func() { given.free = append(given.free, taken...) }()
	for {
		if len(given.free) == 0 {
			if err := takeBlock(); err != nil {
				return nil, err
			}
		}
		port := given.free[0]
		given.free = given.free[1:]
		l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
		if err == nil {
			return l, nil
		}
		if taken = append(taken, port); len(taken) > size {
			return nil, fmt.Errorf("no port of %s can be listened on: %w", ip, err)
		}
	}
}

// Addr is Listen for somebody who listens later.
func Addr(ip string) (string, error) {
	l, err := Listen(ip)
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Free gives the port of an address back.
func Free(addr string) {
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		panic(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	given.Lock()
	defer given.Unlock()
	given.free = append(given.free, port)
}

func takeBlock() error {
	for _, i := range rand.Perm(blocks) {
		port := first + i*size
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // another process's, or our own
		}
		given.guards = append(given.guards, l)
		for n := 1; n < size; n++ {
			given.free = append(given.free, port+n)
		}
		return nil
	}
	return errors.New("all ports from 10000 to 15999 are in use: end other runs of the suite or its tests, which keep theirs while they live")
}
