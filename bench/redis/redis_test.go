package redis_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stile-lock/stile/bench/internal/fake"
	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/redis"
)

// store is as much of a Redis as a lock needs.
type store struct {
	mu   sync.Mutex
	keys map[string]string
	// steal has SET with NX overwrite; lose has the script find another value.
	steal, lose bool
}

func (s *store) command(args []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch args[0] {
	case "SCRIPT":
		return "$40\r\n" + strings.Repeat("0", 40) + "\r\n"
	case "SET":
		if s.keys[args[1]] != "" && !s.steal {
			return "$-1\r\n"
		}
		s.keys[args[1]] = args[2]
		return "+OK\r\n"
	case "EVALSHA":
		if s.keys[args[3]] != args[4] || s.lose {
			return ":0\r\n"
		}
		delete(s.keys, args[3])
		return ":1\r\n"
	}
	return "-ERR unknown command\r\n"
}

func readCommand(in *bufio.Reader) ([]string, error) {
	number := func(mark byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line[0] != mark {
			return 0, fmt.Errorf("%q, want %c", line, mark)
		}
		return strconv.Atoi(strings.TrimSuffix(line[1:], "\r\n"))
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		length, err := number('$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, length+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		if string(b[length:]) != "\r\n" {
			return nil, fmt.Errorf("%q has another length", b)
		}
		args[i] = string(b[:length])
	}
	return args, nil
}

func serve(t *testing.T, s *store) string {
	t.Helper()
	s.keys = map[string]string{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					args, err := readCommand(in)
					if err != nil {
						if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
							c.Write([]byte("-ERR " + err.Error() + "\r\n"))
						}
						return
					}
					io.WriteString(c, s.command(args))
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestLoad(t *testing.T) {
	for _, p := range []load.Plan{
		{Connections: 2, Depth: 8},
		{Connections: 2, Depth: 4, Keys: 2, Shared: true},
		{Connections: 2, Depth: 4, Keys: 2, Shared: true, Cancel: 0.2, Hold: time.Millisecond},
	} {
		fake.Longer(t, func(duration time.Duration) bool {
			p.Duration = duration
			r, err := redis.Driver{Addr: serve(t, &store{})}.Run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if (r.Retries > 0) != p.Shared {
				t.Errorf("%d retries", r.Retries)
			}
			return r.Pairs > 0
		})
	}
}

func TestWrongAnswers(t *testing.T) {
	for says, s := range map[string]*store{
		"who has not given it back": {steal: true},
		"cannot have ended":         {lose: true},
	} {
		_, err := redis.Driver{Addr: serve(t, s)}.Run(t.Context(), load.Plan{
			Connections: 2, Depth: 4, Keys: 2, Shared: true, Hold: time.Millisecond, Duration: 5 * time.Second,
		})
		if !errors.Is(err, load.ErrWrong) || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v, want one that says %q", err, says)
		}
	}
}
