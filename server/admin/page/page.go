// Package page is the page of the admin server: who is active, who holds which
// key, and who waits. It has no data of its own; its script gets that from
// /events and /keys.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"
)

//go:embed page.html page.css page.js icon.svg
var files embed.FS

// policy lets the page load nothing but its own files, and put no text into it
// as HTML: keys and the names of clients are anybody's.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// Mount adds the page to the mux, at the root, and the files that it needs. They
// are for everybody: a browser that opens a page can't send a secret yet.
func Mount(mux *http.ServeMux) {
	mux.Handle("GET /{$}", file("page.html"))
	for _, name := range []string{"page.css", "page.js", "icon.svg"} {
		mux.Handle("GET /"+name, file(name))
	}
}

// file serves a file. Browsers ask each time whether it is still the same: it
// changes with the program.
func file(name string) http.Handler {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is not in the program
	}
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", types[path.Ext(name)])
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	})
}
