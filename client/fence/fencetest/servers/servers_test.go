package servers

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// recorder notes what a test is told.
type recorder struct{ skipped, failed string }

func (*recorder) Helper()            {}
func (r *recorder) Skip(args ...any) { r.skipped = fmt.Sprint(args...) }
func (r *recorder) Fatal(args ...any) {
	r.failed = fmt.Sprint(args...)
}

// A server that is not installed is a failure where CI is true; one that does
// not start is a failure everywhere.
func TestNeed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, missing := Redis()
	var err *MissingError
	if !errors.As(missing, &err) {
		t.Fatalf("without redis-server in the path: %v", missing)
	}
	for _, test := range []struct {
		ci            string
		err           error
		skips, failed bool
	}{
		{"true", nil, false, false},
		{"true", missing, false, true},
		{"", missing, true, false},
		{"true", exec.ErrWaitDelay, false, true},
		{"", exec.ErrWaitDelay, false, true},
	} {
		t.Setenv("CI", test.ci)
		var r recorder
		Need(&r, test.err)
		if (r.skipped != "") != test.skips || (r.failed != "") != test.failed {
			t.Errorf("CI=%q, %v: %+v", test.ci, test.err, r)
		}
		if test.err == missing && !strings.Contains(r.skipped+r.failed, "apt-get install redis-server") {
			t.Errorf("CI=%q: %+v does not say how to install it", test.ci, r)
		}
	}
}
