package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var stampedAs = regexp.MustCompile(regexp.QuoteMeta(image) + `v\d[\w.-]*`)

// Every file under packaging that names the image is stamped, and then names the
// version alone.
func TestStamp(t *testing.T) {
	root := filepath.FromSlash("../../../")
	var found []string
	err := filepath.WalkDir(filepath.Join(root, "packaging"), func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(name) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), image) {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		found = append(found, filepath.ToSlash(rel))
		if err != nil {
			return err
		}
		// In the sources of a release it is stamped already.
		text = stampedAs.ReplaceAll(text, []byte(image+"latest"))
		got, err := stamp(text, "v0.3.0")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return nil
		}
		if strings.Count(string(got), image) != 1 || !strings.Contains(string(got), image+"v0.3.0") {
			t.Errorf("%s names another image, too:\n%s", name, got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(found, stamped) {
		t.Errorf("the image is named in %q; stamped are %q", found, stamped)
	}
	for _, bad := range []string{"", image + "v0.1.0", image + "latest " + image + "latest"} {
		if _, err := stamp([]byte(bad), "v0.3.0"); err == nil {
			t.Errorf("%q was stamped", bad)
		}
	}
}
