package testee

import (
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Program starts testees: a child process, or code within this process.
type Program interface {
	Start() (*Pipes, error)
	String() string
}

// Pipes are the ends of one testee that the suite holds.
type Pipes struct {
	In  io.WriteCloser
	Out io.Reader

	// Status waits for the end of the testee, for d at most, and says how it
	// ended; "" if it runs.
	Status func(d time.Duration) string
	// Quit asks a hanging testee for its stacks, Kill ends it.
	Quit, Kill func()
	// Stderr is the end of what it wrote there.
	Stderr func() string
}

// Command is a command line, run by the shell in a process group of its own.
type Command string

func (c Command) String() string { return string(c) }

// Start starts the command.
func (c Command) Start() (*Pipes, error) {
	cmd := shell(string(c))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	tail := &Tail{}
	cmd.Stderr = tail
	// A grandchild that keeps stderr open must not keep Wait from returning.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// Reading has to be over before Wait, so this one copies.
	read, write := io.Pipe()
	ended, status := make(chan struct{}), ""
	go func() {
		_, err := io.Copy(write, out)
		status = howEnded(cmd.Wait())
		close(ended)
		if err == nil {
			err = io.EOF
		}
		write.CloseWithError(err)
	}()
	return &Pipes{
		In: in, Out: read,
		Status: func(d time.Duration) string { return after(ended, d, &status) },
		Quit:   func() { signalGroup(cmd.Process, true) },
		Kill: func() {
			signalGroup(cmd.Process, false)
			read.CloseWithError(io.EOF) // whoever else has stdout open
		},
		Stderr: tail.String,
	}, nil
}

func after(ended <-chan struct{}, d time.Duration, status *string) string {
	select {
	case <-ended:
		return *status
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ended:
		return *status
	case <-t.C:
		return ""
	}
}

// howEnded says how a process ended: exit status and signal are not mixed up.
func howEnded(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return "it exited with status 0"
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return "it exited with status " + strings.TrimPrefix(exit.String(), "exit status ")
	case errors.As(err, &exit):
		return "it was ended by a signal: " + strings.TrimPrefix(exit.String(), "signal: ")
	}
	return "it could not be waited for: " + err.Error()
}

// Func is a testee within this process: for the suite's own tests.
type Func struct {
	Name string
	// Run speaks the contract on in and out until in ends.
	Run func(in io.Reader, out io.Writer)
}

func (f Func) String() string { return f.Name }

// Start calls Run in a goroutine.
func (f Func) Start() (*Pipes, error) {
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	ended, status := make(chan struct{}), "it returned"
	go func() {
		f.Run(inRead, outWrite)
		inRead.Close()
		outWrite.Close()
		close(ended)
	}()
	return &Pipes{
		In: inWrite, Out: outRead,
		Status: func(d time.Duration) string { return after(ended, d, &status) },
		Quit:   func() {},
		Kill:   func() { outRead.CloseWithError(io.EOF) },
		Stderr: func() string { return "" },
	}, nil
}

// Tail keeps the last lines of what is written to it.
type Tail struct {
	mu    sync.Mutex
	lines []string
	open  bool // the last line has no end yet
}

const (
	tailLines = 32
	tailWidth = 400
)

// Write never fails.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, part := range strings.SplitAfter(string(b), "\n") {
		if part == "" {
			continue
		}
		line := strings.TrimRight(part, "\r\n")
		if t.open && len(t.lines) > 0 {
			line = t.lines[len(t.lines)-1] + line
			t.lines = t.lines[:len(t.lines)-1]
		}
		if len(line) > tailWidth {
			line = line[:tailWidth]
		}
		t.lines = append(t.lines, line)
		t.open = !strings.HasSuffix(part, "\n")
	}
	if n := len(t.lines); n > tailLines {
		t.lines = append([]string(nil), t.lines[n-tailLines:]...)
	}
	return len(b), nil
}

// String returns the lines.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
