package fencing

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	epochFile = "epoch"
	lockFile  = "lock"

	// storeLimit is how long one attempt to store an epoch may take. A disk
	// that is slower counts as failing.
	storeLimit = time.Second
)

// Pair is an epoch and the node that took it. Pairs are ordered, by epoch
// first. The zero value is none.
type Pair struct {
	N    uint32
	Node uint8
}

func (p Pair) less(q Pair) bool { return p.N < q.N || p.N == q.N && p.Node < q.Node }

// Store keeps the highest known epoch in a state directory.
type Store struct {
	dir  string
	lock *os.File

	known Pair // as read by OpenStore

	mu    sync.Mutex // one attempt at a time, late ones included
	tried Pair       // the highest that may be in the file
}

// OpenStore opens the state directory, makes it if it is missing, and locks
// it against a second process until Close. Every error names the directory
// and says what to do.
func OpenStore(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory %s can't be made: %w; choose another with --state-dir", dir, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory %s can't be written: %w; choose another with --state-dir", dir, err)
	}
	if err := lockExclusive(lock); err != nil {
		lock.Close()
		return nil, fmt.Errorf("state directory %s is in use by another process (%w): give each node a --state-dir of its own", dir, err)
	}
	s := &Store{dir: dir, lock: lock}
	if s.known, err = s.read(); err != nil {
		s.Close()
		return nil, err
	}
	s.tried = s.known
	return s, nil
}

// Close unlocks the directory.
func (s *Store) Close() error { return s.lock.Close() }

// Known is the highest epoch the directory held when it was opened, 0 if
// none.
func (s *Store) Known() Pair { return s.known }

func (s *Store) read() (Pair, error) {
	name := filepath.Join(s.dir, epochFile)
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Pair{}, nil
	}
	if err != nil {
		return Pair{}, fmt.Errorf("epoch file can't be read: %w", err)
	}
	epoch, err := decodeEpoch(string(raw))
	if err != nil {
		return Pair{}, fmt.Errorf("epoch file %s is damaged (%w): restore it, or, if the clock of this machine is right, remove it", name, err)
	}
	return epoch, nil
}

// The file is one line: a mark with the version of the format, the epoch, the
// node that took it, and a checksum of all that.
func encodeEpoch(p Pair) string {
	body := fmt.Sprintf("stile-epoch-1 %d %d", p.N, p.Node)
	return fmt.Sprintf("%s %08x\n", body, crc32.ChecksumIEEE([]byte(body)))
}

func decodeEpoch(line string) (Pair, error) {
	var p Pair
	var sum uint32
	if _, err := fmt.Sscanf(line, "stile-epoch-1 %d %d %08x\n", &p.N, &p.Node, &sum); err != nil {
		return Pair{}, fmt.Errorf("not an epoch file: %w", err)
	}
	if encodeEpoch(p) != line || p.N == 0 || p.N > maxEpoch || p.Node >= MaxNodes {
		return Pair{}, errors.New("the checksum is wrong")
	}
	return p, nil
}

// Put makes an epoch that this node takes the one that the next start finds.
// It is on the disk when Put returns nil: a new file is written, synced and
// renamed over the old one, and the directory is synced. One attempt has a
// second; one that takes longer has failed, whatever becomes of it later.
//
// The file never goes back: an epoch whose number is not above all that were
// put before is refused, whether or not storing them worked.
func (s *Store) Put(ctx context.Context, p Pair) error { return s.attempt(ctx, p, true) }

// Remember is Put for an epoch that another node took. If one above it may be
// on the disk already, that one is stored again.
func (s *Store) Remember(ctx context.Context, p Pair) error { return s.attempt(ctx, p, false) }

func (s *Store) attempt(ctx context.Context, p Pair, taken bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, storeLimit,
		fmt.Errorf("the disk took longer than %v", storeLimit))
	defer cancel()
	start := time.Now()
	done := make(chan error, 1)
	go func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() != nil {
			return // gave up while an earlier attempt was still stuck
		}
		if taken && p.N <= s.tried.N {
			done <- fmt.Errorf("epoch %d was stored, or tried, before", s.tried.N)
			return
		}
		if s.tried.less(p) {
			s.tried = p
		}
		done <- s.put(s.tried)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && time.Since(start) > storeLimit+storeLimit/10 {
			// The process itself stood still: it is not the disk's fault.
			select {
			case err = <-done:
			case <-time.After(storeLimit):
			}
		}
	}
	if err != nil {
		return fmt.Errorf("epoch %d can't be stored in %s: %w", p.N, s.dir, err)
	}
	return nil
}

func (s *Store) put(p Pair) (err error) {
	// A name of its own for each attempt: after a failed fsync the old file's
	// pages may be lost though a second fsync says all is well.
	f, err := os.CreateTemp(s.dir, epochFile+".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.WriteString(encodeEpoch(p))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err = os.Rename(f.Name(), filepath.Join(s.dir, epochFile)); err != nil {
		return err
	}
	s.removeLeftovers()
	return syncDir(s.dir)
}

// removeLeftovers removes files of attempts that a crash cut short.
func (s *Store) removeLeftovers() {
	names, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), epochFile+".new-") {
			os.Remove(filepath.Join(s.dir, n.Name()))
		}
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
