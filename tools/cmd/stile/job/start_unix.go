//go:build unix

package job

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
)

// starter is a process that becomes the command when it is told to. So the
// guard knows the group before the command can do anything: a stile that is
// stopped right after the start would else leave a command that nobody ends.
type starter struct {
	tell *os.File // for the byte that lets it go on; closed without, it ends
	said *os.File // why the command can't be executed; nothing if it is
}

const goAhead = '\n'

// startWaiting starts one, as a process with the attributes of the command.
func startWaiting(c Command, attr *syscall.ProcAttr) (pid int, s *starter, err error) {
	program, err := ownProgram()
	if err != nil {
		return 0, nil, err
	}
	wait, tell, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer wait.Close()
	said, say, err := os.Pipe()
	if err != nil {
		tell.Close()
		return 0, nil, err
	}
	defer say.Close()
	args := []string{os.Args[0], StartArg}
	for _, f := range []*os.File{wait, say} {
		// By their numbers here: others may be those of files that the user
		// has opened for the command. Nobody else starts a process meanwhile.
		fd := int(f.Fd())
		if _, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFD, 0); e != 0 {
			tell.Close()
			said.Close()
			return 0, nil, e
		}
		args = append(args, strconv.Itoa(fd))
	}
	pid, err = syscall.ForkExec(program, append(append(args, c.Path), c.Args...), attr)
	if err != nil {
		tell.Close()
		said.Close()
		return 0, nil, err
	}
	return pid, &starter{tell, said}, nil
}

// goOn has it become the command. The channel gets the reason if it can't,
// nil when it has.
func (s *starter) goOn() <-chan error {
	s.tell.Write([]byte{goAhead}) // one that has died can't read it
	s.tell.Close()
	done := make(chan error, 1)
	go func() {
		defer s.said.Close()
		b, _ := io.ReadAll(io.LimitReader(s.said, 16))
		if n, err := strconv.Atoi(string(b)); err == nil {
			done <- syscall.Errno(n)
			return
		}
		done <- nil
	}()
	return done
}

// giveUp has it end instead.
func (s *starter) giveUp(pid int) {
	s.tell.Close()
	s.said.Close()
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}

// Start is the main function of the process that becomes the command, see
// StartArg. It returns only if the process was not started by Run.
func Start(args []string) error {
	if len(args) < 4 {
		return errors.New("this is for stile itself: use stile lock")
	}
	files := make([]*os.File, 2)
	for i := range files {
		fd, err := strconv.Atoi(args[i])
		if err != nil || fd < 3 {
			return fmt.Errorf("%q is not the number of a file", args[i])
		}
		syscall.CloseOnExec(fd)
		files[i] = os.NewFile(uintptr(fd), "")
	}
	// Go's runtime would print where it is.
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	go func() { os.Exit(Status(<-quit)) }()
	var b [1]byte
	if files[0].Read(b[:]); b[0] != goAhead {
		os.Exit(1) // Run has died, or thought better of it
	}
	// The thread that executes the command has to be the one that the kernel
	// is told of.
	runtime.LockOSThread()
	endWithParent()
	err := syscall.Exec(args[2], args[3:], os.Environ())
	var errno syscall.Errno
	if errors.As(err, &errno) {
		fmt.Fprint(files[1], int(errno))
	}
	os.Exit(1)
	return nil
}

// ownProgram is the path of this program.
func ownProgram() (string, error) {
	const self = "/proc/self/exe" // also when it was replaced meanwhile
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable()
}
