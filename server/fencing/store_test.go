package fencing

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// lockEnv makes the test binary a second process that tries to open the
// directory it names.
const lockEnv = "FENCING_TEST_OPEN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(lockEnv); dir != "" {
		s, err := OpenStore(dir)
		if err != nil {
			io.WriteString(os.Stdout, err.Error())
			os.Exit(1)
		}
		s.Close()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustPut(t *testing.T, s *Store, epoch uint32) {
	t.Helper()
	if err := s.Put(t.Context(), Pair{N: epoch, Node: 3}); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// names lists the directory.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestStoreRemembers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "er")
	s := openStore(t, dir)
	if s.Known().N != 0 {
		t.Errorf("a new directory knows epoch %d", s.Known().N)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v, %v: others must not get at the epoch", info.Mode(), err)
	}
	for _, epoch := range []uint32{1, 60_500_000, 60_500_001, maxEpoch} {
		mustPut(t, s, epoch)
		s.Close()
		s = openStore(t, dir)
		if s.Known().N != epoch {
			t.Fatalf("knows epoch %d, want %d", s.Known().N, epoch)
		}
	}
	if got := strings.Join(names(t, dir), " "); got != "epoch lock" {
		t.Errorf("the directory holds %s", got)
	}
}

func TestStoreNeverGoesBack(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	mustPut(t, s, 100)
	for _, epoch := range []uint32{0, 1, 99, 100} {
		if err := s.Put(t.Context(), Pair{N: epoch, Node: 3}); err == nil {
			t.Errorf("epoch %d was stored after 100", epoch)
		}
	}
	s.Close()
	s = openStore(t, dir)
	if err := s.Put(t.Context(), Pair{N: 100}); err == nil {
		t.Error("epoch 100 was stored twice, by two processes")
	}
	mustPut(t, s, 101)
	s.Close()
	if s = openStore(t, dir); s.Known().N != 101 {
		t.Errorf("knows epoch %d", s.Known().N)
	}
}

func TestDamagedEpochFile(t *testing.T) {
	good := encodeEpoch(Pair{N: 60_500_000, Node: 3})
	for name, content := range map[string]string{
		"empty":            "",
		"zeros":            strings.Repeat("\x00", len(good)),
		"cut":              good[:len(good)-3],
		"no line end":      good[:len(good)-1],
		"twice":            good + good,
		"another number":   strings.Replace(good, "60500000", "60500001", 1),
		"another sum":      good[:len(good)-2] + "x\n",
		"other format":     "stile-epoch-2 60500000 00000000\n",
		"only a number":    "60500000\n",
		"leading zero":     strings.Replace(good, "60500000", "060500000", 1),
		"zero":             encodeEpoch(Pair{N: 0, Node: 3}),
		"above the layout": encodeEpoch(Pair{N: maxEpoch + 1, Node: 3}),
		"a space more":     " " + good,
		"spaces":           strings.ReplaceAll(good, " ", "  "),
		"upper case":       strings.ToUpper(good),
		"carriage return":  strings.Replace(good, "\n", "\r\n", 1),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, epochFile)
			writeFile(t, file, content)
			s, err := OpenStore(dir)
			if err == nil {
				t.Fatalf("%q was taken as epoch %d", content, s.Known().N)
			}
			if msg := err.Error(); !strings.Contains(msg, file) || !strings.Contains(msg, "damaged") || !strings.Contains(msg, "restore it") {
				t.Errorf("%v: want the file, what is wrong, what to do", err)
			}
			if got, _ := os.ReadFile(file); string(got) != content {
				t.Error("the damaged file was changed")
			}
			// The lock is given back, so that the next start is not told a lie.
			writeFile(t, file, good)
			if s := openStore(t, dir); s.Known().N != 60_500_000 {
				t.Errorf("knows epoch %d", s.Known().N)
			}
		})
	}
	t.Run("flipped bits", func(t *testing.T) {
		for i := range len(good) {
			for bit := range 8 {
				raw := []byte(good)
				raw[i] ^= 1 << bit
				if epoch, err := decodeEpoch(string(raw)); err == nil {
					t.Errorf("%q was taken as %d", raw, epoch)
				}
			}
		}
	})
}

func TestStateDirThatCantBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	tests := map[string]struct {
		dir  string
		want string
	}{
		"a file":           {file, "can't be made"},
		"below a file":     {filepath.Join(file, "state"), "can't be made"},
		"no such device":   {"/dev/null/state", "can't be made"},
		"lock is a folder": {withFolder(t, lockFile), "can't be written"},
	}
	if os.Getuid() != 0 { // root may write everywhere
		closed := t.TempDir()
		if err := os.Chmod(closed, 0o500); err != nil {
			t.Fatal(err)
		}
		tests["no permission"] = struct{ dir, want string }{closed, "can't be written"}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := OpenStore(tt.dir)
			if err == nil {
				t.Fatal("opened")
			}
			if msg := err.Error(); !strings.Contains(msg, tt.dir) || !strings.Contains(msg, tt.want) || !strings.Contains(msg, "--state-dir") {
				t.Errorf("%v: want the directory, %q, and the setting", err, tt.want)
			}
		})
	}
	t.Run("epoch is a folder", func(t *testing.T) {
		dir := withFolder(t, epochFile)
		if _, err := OpenStore(dir); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, epochFile)) {
			t.Errorf("%v: want the file's name", err)
		}
	})
}

// withFolder returns a directory with a folder of the name in it.
func withFolder(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestStateDirHasOneUser(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	if _, err := OpenStore(dir); err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), dir) {
		t.Errorf("opened twice in one process: %v", err)
	}
	second := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), lockEnv+"="+dir)
		out, err := cmd.Output()
		return string(out), err
	}
	if out, err := second(); err == nil || !strings.Contains(out, "in use by another process") {
		t.Errorf("opened by two processes: %s, %v", out, err)
	}
	mustPut(t, s, 5)
	s.Close()
	if out, err := second(); err != nil {
		t.Errorf("still locked after Close: %s, %v", out, err)
	}
}

func TestLeftoversAreRemoved(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	mustPut(t, s, 5)
	// What a crash leaves between writing and renaming. It is not believed.
	writeFile(t, filepath.Join(dir, epochFile+".new-123"), encodeEpoch(Pair{N: 99, Node: 3}))
	writeFile(t, filepath.Join(dir, epochFile+".new-456"), "")
	writeFile(t, filepath.Join(dir, "note"), "of the operator's")
	s.Close()
	s = openStore(t, dir)
	if s.Known().N != 5 {
		t.Errorf("knows epoch %d", s.Known().N)
	}
	mustPut(t, s, 6)
	if got := strings.Join(names(t, dir), " "); got != "epoch lock note" {
		t.Errorf("the directory holds %s", got)
	}
}

func TestPutThatFails(t *testing.T) {
	t.Run("no directory", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		s := openStore(t, dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), Pair{N: 5}); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%v: want the directory's name", err)
		}
	})
	t.Run("can't be renamed", func(t *testing.T) {
		dir := t.TempDir()
		s := openStore(t, dir)
		block(t, dir)
		if err := s.Put(t.Context(), Pair{N: 5}); err == nil {
			t.Error("no error")
		}
		if got := strings.Join(names(t, dir), " "); got != "epoch lock" {
			t.Errorf("left behind: %s", got)
		}
	})
	t.Run("given up", func(t *testing.T) {
		dir := t.TempDir()
		s := openStore(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Put(ctx, Pair{N: 5}); err == nil {
			t.Error("no error")
		}
	})
}

// block makes the epoch file a folder that nothing can be renamed over.
func block(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, epochFile, "in-the-way"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func unblock(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, epochFile)); err != nil {
		t.Fatal(err)
	}
}

// A disk that hangs counts as failing after a second, and an attempt that was
// given up on does not write later: by then a higher epoch may be stored.
func TestPutOnADiskThatHangs(t *testing.T) {
	s := openStore(t, t.TempDir())
	s.mu.Lock() // an earlier attempt hangs
	before := runtime.NumGoroutine()
	start := time.Now()
	err := s.Put(t.Context(), Pair{N: 5})
	took := time.Since(start)
	if err == nil || !strings.Contains(err.Error(), "longer than 1s") {
		t.Errorf("error %v", err)
	}
	if took < storeLimit {
		t.Errorf("given up after %v", took)
	}
	s.mu.Unlock()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if pair, err := s.read(); pair.N != 0 || err != nil {
		t.Errorf("the attempt that was given up on stored epoch %v, %v", pair, err)
	}
	mustPut(t, s, 6)
	if pair, err := s.read(); pair.N != 6 || err != nil {
		t.Errorf("the file holds epoch %v, %v", pair, err)
	}
}
