package snapshot

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/blakesmith/ar"
	"github.com/sassoftware/go-rpmutils"
)

var distFlag = flag.String("dist", "", "directory that `make snapshot` has filled")

// dist is the directory under test.
func dist(t *testing.T) string {
	t.Helper()
	if *distFlag == "" {
		t.Skip("make snapshot-test builds what this looks at")
	}
	dir, err := filepath.Abs(*distFlag)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// one is the only file in dist that matches.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dist(t), pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %d files, want 1: %v", pattern, len(found), found)
	}
	return found[0]
}

// entry is a file in an archive or a package.
type entry struct {
	mode  fs.FileMode
	owner string
	time  time.Time
	text  []byte
}

// contents are files by name; the directory that everything is in, if it is one,
// and a leading ./ are cut off.
type contents map[string]entry

func openFile(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func untar(t *testing.T, r io.Reader) contents {
	t.Helper()
	z, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	files := contents{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[path.Clean(h.Name)] = entry{h.FileInfo().Mode(), h.Uname, h.ModTime, text}
	}
}

// archive is what an archive of a release has, without its one directory.
func archive(t *testing.T, name string) contents {
	t.Helper()
	all := contents{}
	if strings.HasSuffix(name, ".zip") {
		z, err := zip.OpenReader(name)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			all[f.Name] = entry{f.Mode(), "root", f.Modified, text}
		}
	} else {
		all = untar(t, openFile(t, name))
	}
	top := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ".zip"), ".tar.gz") + "/"
	files := contents{}
	for name, e := range all {
		inside, ok := strings.CutPrefix(name, top)
		if !ok {
			t.Errorf("%s is not in %s", name, top)
		}
		files[inside] = e
	}
	return files
}

// deb are the files that a deb installs, and those that tell dpkg how.
func deb(t *testing.T, name string) (files, control contents) {
	t.Helper()
	for r := ar.NewReader(openFile(t, name)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files, control
		}
		if err != nil {
			t.Fatal(err)
		}
		switch strings.TrimSuffix(h.Name, "/") {
		case "data.tar.gz":
			files = untar(t, r)
		case "control.tar.gz":
			control = untar(t, r)
		}
	}
}

// rpm are the files that an rpm installs, and its header.
func rpm(t *testing.T, name string) (contents, *rpmutils.Rpm) {
	t.Helper()
	p, err := rpmutils.ReadRpm(openFile(t, name))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := p.PayloadReaderExtended()
	if err != nil {
		t.Fatal(err)
	}
	files := contents{}
	for {
		info, err := payload.Next()
		if err == io.EOF {
			return files, p
		}
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if info.Size() > 0 {
			if _, err := io.Copy(&text, payload); err != nil {
				t.Fatal(err)
			}
		}
		mode := fs.FileMode(info.Mode() & 0o777)
		if info.Mode()&0o170000 == 0o040000 {
			mode |= fs.ModeDir
		}
		files[strings.TrimPrefix(info.Name(), "/")] = entry{mode, info.UserName(), time.Unix(int64(info.Mtime()), 0), text.Bytes()}
	}
}

func digest(t *testing.T, name string) string {
	t.Helper()
	h := sha256.New()
	if _, err := io.Copy(h, openFile(t, name)); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}
