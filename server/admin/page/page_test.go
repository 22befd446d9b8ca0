package page

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func get(path string, header ...string) *httptest.ResponseRecorder {
	mux := http.NewServeMux()
	Mount(mux)
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

func TestFiles(t *testing.T) {
	for path, kind := range map[string]string{
		"/": "text/html; charset=utf-8", "/page.css": "text/css; charset=utf-8", "/page.js": "text/javascript; charset=utf-8", "/icon.svg": "image/svg+xml",
	} {
		w := get(path)
		h := w.Header()
		if w.Code != 200 || w.Body.Len() == 0 || h.Get("Content-Type") != kind || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d, %v", path, w.Code, h)
		}
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(h.Get("Content-Security-Policy"), part) {
				t.Errorf("%s: no %s in its policy", path, part)
			}
		}
		if strings.Contains(h.Get("Content-Security-Policy"), "unsafe") {
			t.Errorf("%s: %s", path, h.Get("Content-Security-Policy"))
		}
		if w := get(path, "If-None-Match", h.Get("ETag")); h.Get("ETag") == "" || w.Code != 304 || w.Body.Len() > 0 {
			t.Errorf("%s again: %d", path, w.Code)
		}
	}
	for _, path := range []string{"/page.html", "/page.go", "/x"} {
		if w := get(path); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// The page loads nothing from elsewhere, has nothing that its policy refuses,
// and makes HTML of no text.
func TestContent(t *testing.T) {
	refused := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|javascript:|<style|\sstyle=|\son[a-z]+="|@import|(?:src|href)="(?:https?:)?//|url\(`)
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := files.ReadFile(path)
		for _, found := range refused.FindAll(content, -1) {
			t.Errorf("%s has %s", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
