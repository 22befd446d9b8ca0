// Package features holds the feature files of Stile's conformance suite: what
// protocol/SPEC.md asks of a server, a client and a cluster, as scenarios that
// stile-conformance runs. They are embedded, so that its binary needs no
// checkout.
package features

import (
	"embed"
	"io/fs"
)

// A folder's files are part of the suite as soon as they are there.
//
//go:embed */*.feature
var files embed.FS

// Server returns what one live node is asked.
func Server() fs.FS { return sub("server") }

// Client returns what a client is asked.
func Client() fs.FS { return sub("client") }

// Cluster returns what several nodes are asked.
func Cluster() fs.FS { return sub("cluster") }

func sub(folder string) fs.FS {
	f, err := fs.Sub(files, folder)
	if err != nil {
		panic(err) // only an invalid path does this, and these are constants
	}
	return f
}
