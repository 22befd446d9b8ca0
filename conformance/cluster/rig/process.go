package rig

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// Patience is how long anything may take that must happen. Nothing depends on
// it but how long a failure takes.
const Patience = 15 * time.Second

// maxLines is how many lines of its log are kept of one process.
const maxLines = 5000

// process is a running program, in a process group of its own.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and all is read

	mu    sync.Mutex
	lines []string
}

func launch(name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "STILE_") })
	p.cmd.SysProcAttr = ownGroup()
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.note(fmt.Sprintf("-- started as process %d at %s", p.cmd.Process.Pid, start.Format("15:04:05.000")))
	go func() {
		defer close(p.done)
		for in := bufio.NewScanner(stderr); in.Scan(); {
			p.note(in.Text())
		}
		p.cmd.Wait()
		p.note(fmt.Sprintf("-- ended at %s: %v", time.Now().Format("15:04:05.000"), p.cmd.ProcessState))
	}()
	return p, nil
}

func (p *process) note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) < maxLines {
		p.lines = append(p.lines, line)
	}
}

func (p *process) log() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// said reports whether a line of the log has the text.
func (p *process) said(text string) bool {
	return slices.ContainsFunc(p.log(), func(line string) bool { return strings.Contains(line, text) })
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) signal(s os.Signal) { p.cmd.Process.Signal(s) }

// kill ends the process and whatever it started.
func (p *process) kill() {
	killGroup(p.cmd.Process)
	<-p.done
}

// wait waits for the end and returns the exit status, -1 for a signal.
func (p *process) wait(limit time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return 0, fmt.Errorf("process %d runs on after %v", p.cmd.Process.Pid, limit)
	}
}

// Run runs a program that is expected to end by itself, and returns its exit
// status and what it wrote to stderr.
func Run(limit time.Duration, name string, args ...string) (status int, stderr string, err error) {
	p, err := launch(name, args...)
	if err != nil {
		return 0, "", err
	}
	defer p.kill()
	status, err = p.wait(limit)
	stderr = strings.Join(p.log(), "\n")
	if err != nil {
		err = fmt.Errorf("%w:\n%s", err, stderr)
	}
	return status, stderr, err
}
