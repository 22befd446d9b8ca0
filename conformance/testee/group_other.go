//go:build !unix

package testee

import (
	"os"
	"os/exec"
)

func shell(command string) *exec.Cmd { return exec.Command("cmd", "/c", command) }

func signalGroup(p *os.Process, quit bool) {
	if !quit {
		p.Kill()
	}
}
