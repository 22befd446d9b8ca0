// Package servers starts a PostgreSQL or a Redis for tests and demonstrations:
// the programs that the system has, each on a port of the loopback and with a
// data directory of its own, which go when it is closed.
package servers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stile-lock/stile/conformance/ports"
)

// patience is how long a server may take to start or to end.
const patience = 30 * time.Second

// MissingError says which program is not installed, and how to install it.
type MissingError struct{ Program, Package string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not installed: on Debian or Ubuntu, `apt-get install %s`", e.Program, e.Package)
}

// Server is one that runs.
type Server struct {
	Addr string // host:port

	more []string // addresses that it takes beside Addr
	dir  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and all is read
	end  os.Signal

	mu  sync.Mutex
	log bytes.Buffer
}

// Postgres starts a PostgreSQL with the superuser postgres, who needs no
// password. It does not care for what a crash of the machine would do.
func Postgres() (*Server, error) {
	initdb, err := find("initdb", "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
	if err != nil {
		return nil, &MissingError{"PostgreSQL", "postgresql"}
	}
	if initdb, err = filepath.EvalSymlinks(initdb); err != nil { // the others lie beside it
		return nil, err
	}
	s, err := prepare("postgres", syscall.SIGINT)
	if err != nil {
		return nil, err
	}
	cred, err := s.owner()
	if err != nil {
		s.Close()
		return nil, err
	}
	data := filepath.Join(s.dir, "data")
	create := s.command(cred, initdb, "--pgdata", data, "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	if out, err := create.CombinedOutput(); err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w\n%s", initdb, err, out)
	}
	_, port, _ := net.SplitHostPort(s.Addr)
	s.cmd = s.command(cred, filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-h", "127.0.0.1", "-p", port, "-k", "",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "shared_buffers=32MB", "-c", "max_connections=100")
	return s, s.start("database system is ready to accept connections")
}

// URL is where the database called postgres is, for pgx and lib/pq.
func (s *Server) URL() string { return "postgres://postgres@" + s.Addr + "/postgres?sslmode=disable" }

// Redis starts a Redis that writes nothing to its disk.
func Redis() (*Server, error) { return startRedis() }

// RedisCluster starts a Redis that is a cluster for itself, with all slots.
func RedisCluster() (*Server, error) {
	bus, err := ports.Addr("127.0.0.1")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(bus)
	s, err := startRedis("--cluster-enabled", "yes", "--cluster-port", port)
	if err != nil {
		ports.Free(bus)
		return nil, err
	}
	s.more = append(s.more, bus)
	if err := s.ownAllSlots(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// ownAllSlots gives the node of a cluster all there is, and waits until it
// serves them.
func (s *Server) ownAllSlots() error {
	conn, err := net.DialTimeout("tcp", s.Addr, patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	in := bufio.NewScanner(conn)
	if fmt.Fprint(conn, "CLUSTER ADDSLOTSRANGE 0 16383\r\n"); !in.Scan() || in.Text() != "+OK" {
		return fmt.Errorf("Redis took no slots: %q, %v", in.Text(), in.Err())
	}
	for {
		fmt.Fprint(conn, "CLUSTER INFO\r\n")
		for in.Scan() && !strings.HasPrefix(in.Text(), "cluster_state:") {
		}
		switch in.Text() {
		case "cluster_state:ok":
			return nil
		case "cluster_state:fail":
			time.Sleep(20 * time.Millisecond)
		default:
			return fmt.Errorf("Redis does not tell of its cluster: %q, %v", in.Text(), in.Err())
		}
	}
}

func startRedis(args ...string) (*Server, error) {
	program, err := find("redis-server")
	if err != nil {
		return nil, &MissingError{"Redis", "redis-server"}
	}
	s, err := prepare("redis", syscall.SIGTERM)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(s.Addr)
	s.cmd = s.command(nil, program, append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no"}, args...)...)
	return s, s.start("eady to accept connections")
}

// BuildStiled builds the node into a directory and returns its path. It works
// in the workspace.
func BuildStiled(dir string) (string, error) {
	path := filepath.Join(dir, "stiled")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/stile-lock/stile/server/cmd/stiled").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building stiled: %w\n%s", err, out)
	}
	return path, nil
}

// find finds a program in the path, or in one of the directories, of which the
// last in the order of the alphabet comes first.
func find(program string, dirs ...string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, dir := range dirs {
		found, _ := filepath.Glob(filepath.Join(dir, program))
		if len(found) > 0 {
			return slices.Max(found), nil
		}
	}
	return "", exec.ErrNotFound
}

func prepare(name string, end os.Signal) (*Server, error) {
	addr, err := ports.Addr("127.0.0.1")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "stile-"+name+"-")
	if err != nil {
		ports.Free(addr)
		return nil, err
	}
	return &Server{Addr: addr, dir: dir, end: end, done: make(chan struct{})}, nil
}

// owner makes the directory that of the user postgres if we are root, as which
// PostgreSQL refuses to run. nil: we are not.
func (s *Server) owner() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user for it: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(s.dir, int(uid), int(gid))
}

func (s *Server) command(cred *syscall.Credential, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = Child(syscall.SIGQUIT)
	cmd.SysProcAttr.Credential = cred
	return cmd
}

// start starts the command, and returns when it has written that it is ready.
func (s *Server) start(ready string) error {
	out, in, err := os.Pipe()
	if err != nil {
		s.Close()
		return err
	}
	s.cmd.Stdout, s.cmd.Stderr = in, in
	err = s.cmd.Start()
	in.Close()
	if err != nil {
		out.Close()
		s.cmd = nil
		s.Close()
		return err
	}
	up := make(chan struct{})
	go func() {
		defer close(s.done)
		defer out.Close()
		said := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.mu.Lock()
			if s.log.Len() < 1<<20 {
				s.log.WriteString(lines.Text() + "\n")
			}
			s.mu.Unlock()
			if !said && strings.Contains(lines.Text(), ready) {
				said = true
				close(up)
			}
		}
		s.cmd.Wait()
	}()
	select {
	case <-up:
		return nil
	case <-s.done:
		err = errors.New("it ended")
	case <-time.After(patience):
		err = fmt.Errorf("it was not ready within %v", patience)
	}
	err = fmt.Errorf("%s did not start: %w\n%s", s.cmd.Path, err, s.Log())
	s.Close()
	return err
}

// Log is what the server has written.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// Close ends the server and removes what it has kept.
func (s *Server) Close() {
	if s.cmd != nil && s.cmd.Process != nil {
		s.cmd.Process.Signal(s.end)
		select {
		case <-s.done:
		case <-time.After(patience):
			s.cmd.Process.Kill()
			<-s.done
		}
	}
	os.RemoveAll(s.dir)
	for _, addr := range append(s.more, s.Addr) {
		ports.Free(addr)
	}
}

// TB is what Need needs of a *testing.T.
type TB interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
}

// Need looks at the error of a start. If the program is not installed the test
// fails where CI is set to true, and is skipped elsewhere, which standard
// error is told, too. Any other error fails the test.
func Need(t TB, err error) {
	t.Helper()
	var missing *MissingError
	switch {
	case err == nil:
	case errors.As(err, &missing) && os.Getenv("CI") != "true":
		fmt.Fprintf(os.Stderr, "\n*** SKIPPED, nothing was tested against it: %v\n\n", err)
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}
