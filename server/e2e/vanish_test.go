//go:build linux

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A machine that vanishes says nothing, not even that it is gone. To have one
// the test makes two network namespaces with a cable between them: the
// node's, in which the test starts the node and its own helper, and the
// machine's, in which two waiters live until its address is taken away. Both
// namespaces end with the processes in them.

const (
	nodeAddr    = "10.211.56.1"
	machineAddr = "10.211.56.2"
	machineMAC  = "02:00:0a:d3:38:02"

	// vanishedWithin is when the node must have noticed.
	vanishedWithin = 45 * time.Second
)

func init() {
	helpers["namespace"] = nodesNamespace
	helpers["machine"] = vanishingMachine
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// inNewNetwork makes the command run in a network namespace of its own.
func inNewNetwork(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
}

// vanishingMachine says when it lives, connects its two waiters when it is
// given the node's address, and vanishes at the next line.
func vanishingMachine([]string) error {
	in := bufio.NewReader(os.Stdin)
	fmt.Println("up")
	addr, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"addr", "add", machineAddr + "/24", "dev", "eth9"},
		{"link", "set", "eth9", "up"},
	} {
		if err := ip(args...); err != nil {
			return err
		}
	}
	for _, key := range []string{"silent", "granted"} {
		nc, err := net.DialTimeout("tcp", strings.TrimSpace(addr), patience)
		if err != nil {
			return err
		}
		fmt.Fprintf(nc, "A %s 0 600\nP x\n", key)
		if line, err := bufio.NewReader(nc).ReadString('\n'); line != "P x\n" {
			return fmt.Errorf("%q, %v", line, err)
		}
	}
	fmt.Println("connected")
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	// From now on it takes no packet, and sends none.
	if err := ip("addr", "del", machineAddr+"/24", "dev", "eth9"); err != nil {
		return err
	}
	fmt.Println("vanished")
	_, err = in.ReadString('\n')
	return err
}

// nodesNamespace runs the whole case inside the node's namespace. Its
// arguments are the binary and a state directory. What the test has to judge
// goes to stderr, line by line.
func nodesNamespace(args []string) error {
	machine := exec.Command(os.Args[0])
	machine.Env = append(cleanEnv(), helperEnv+"=machine")
	machine.Stderr = os.Stderr
	inNewNetwork(machine)
	to, err := machine.StdinPipe()
	if err != nil {
		return err
	}
	fromPipe, err := machine.StdoutPipe()
	if err != nil {
		return err
	}
	if err := machine.Start(); err != nil {
		return err
	}
	defer machine.Process.Kill()
	from := bufio.NewReader(fromPipe)
	hear := func(want string) error {
		if line, err := from.ReadString('\n'); line != want+"\n" {
			return fmt.Errorf("the machine says %q, %v, want %q", line, err, want)
		}
		return nil
	}
	if err := hear("up"); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "eth9", "type", "veth", "peer", "name", "eth9", "address", machineMAC, "netns", fmt.Sprint(machine.Process.Pid)},
		{"addr", "add", nodeAddr + "/24", "dev", "eth9"},
		{"link", "set", "eth9", "up"},
		// Without this the missing answer to an ARP request would give the
		// machine away.
		{"neigh", "replace", machineAddr, "lladdr", machineMAC, "dev", "eth9", "nud", "permanent"},
	} {
		if err := ip(args...); err != nil {
			return err
		}
	}

	stiled := exec.Command(args[0], "--listen", nodeAddr+":5625", "--insecure", "--admin=127.0.0.1:5626", "--state-dir", args[1], "--log-level=debug")
	stiled.Env = cleanEnv()
	stiled.Stderr = os.Stderr
	stiled.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := stiled.Start(); err != nil {
		return err
	}
	defer stiled.Process.Kill()
	var nc net.Conn
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if nc, err = net.Dial("tcp", nodeAddr+":5625"); err == nil {
			break
		}
		if time.Since(begin) > patience {
			return err
		}
	}
	r := bufio.NewReader(nc)
	tokens := map[string]uint64{}
	for _, key := range []string{"silent", "granted"} {
		fmt.Fprintf(nc, "A %s -1 600\n", key)
		line, err := r.ReadString('\n')
		var token uint64
		if _, scanErr := fmt.Sscanf(line, "A "+key+" %d", &token); scanErr != nil {
			return errors.Join(fmt.Errorf("%q", line), err)
		}
		tokens[key] = token
	}
	io.WriteString(to, nodeAddr+":5625\n")
	if err := hear("connected"); err != nil {
		return err
	}
	io.WriteString(to, "vanish\n")
	if err := hear("vanished"); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "case: vanished")
	// One of the two is sent a grant that nobody will ever acknowledge.
	fmt.Fprintf(nc, "R granted %d\n", tokens["granted"])
	if line, err := r.ReadString('\n'); line != fmt.Sprintf("R granted %d\n", tokens["granted"]) {
		return fmt.Errorf("%q, %v", line, err)
	}
	for begin, last := time.Now(), 3; last > 1; time.Sleep(50 * time.Millisecond) {
		s, err := fetch("127.0.0.1:5626")
		if err != nil {
			return err
		}
		if s.Connections != last {
			last = s.Connections
			fmt.Fprintf(os.Stderr, "case: %d connections after %.1f s\n", last, time.Since(begin).Seconds())
		}
		if time.Since(begin) > vanishedWithin {
			return fmt.Errorf("after %v: %+v", time.Since(begin), s)
		}
	}
	// Its waiter is out of the line, so the next one is granted at once.
	fmt.Fprintf(nc, "R silent %d\nA silent -1 600\n", tokens["silent"])
	for _, want := range []string{"R silent ", "A silent "} {
		if line, err := r.ReadString('\n'); !strings.HasPrefix(line, want) {
			return fmt.Errorf("%q, %v", line, err)
		}
	}
	fmt.Fprintln(os.Stderr, "case: all found")
	return nil
}

func TestMachineThatVanishes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("NOT TESTED: that a machine which vanished is noticed: %v", err)
	}
	probe := exec.Command("ip", "link", "add", "eth9", "type", "veth", "peer", "name", "eth8")
	inNewNetwork(probe)
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: that a machine which vanished is noticed: no network namespaces here: %v: %s", err, out)
	}
	cmd := exec.Command(os.Args[0], mustStiled(t), t.TempDir())
	cmd.Env = append(cleanEnv(), helperEnv+"=namespace")
	inNewNetwork(cmd)
	p := launch(t, cmd)
	if status := p.status(vanishedWithin + patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
	for _, line := range strings.Split(p.stderr(), "\n") {
		if text, ok := strings.CutPrefix(line, "case: "); ok {
			t.Log(text)
		}
	}
}
