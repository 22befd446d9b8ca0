package rig

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Conn is a connection that keeps to no rule for clients.
type Conn struct {
	net.Conn
	r *bufio.Reader
}

// Dial connects to an address.
func Dial(addr string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	return &Conn{c, bufio.NewReaderSize(c, 64<<10)}, nil
}

// Send sends one line or several. It adds the end of the last.
func (c *Conn) Send(format string, args ...any) error {
	c.SetWriteDeadline(time.Now().Add(Patience))
	_, err := fmt.Fprintf(c, format+"\n", args...)
	return err
}

// Read reads one answer, without its end.
func (c *Conn) Read(limit time.Duration) (string, error) {
	c.SetReadDeadline(time.Now().Add(limit))
	line, err := c.r.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// Ask sends one line and reads one answer.
func (c *Conn) Ask(limit time.Duration, format string, args ...any) (string, error) {
	if err := c.Send(format, args...); err != nil {
		return "", err
	}
	return c.Read(limit)
}

// Granted returns the key and the token if the answer is a grant.
func Granted(answer string) (key string, token uint64, ok bool) {
	f := strings.Fields(answer)
	if len(f) < 4 || f[0] != "A" {
		return "", 0, false
	}
	token, err := strconv.ParseUint(f[2], 10, 64)
	return f[1], token, err == nil
}
