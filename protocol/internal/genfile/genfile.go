// Package genfile is what the generators of this module share.
package genfile

import (
	"bytes"
	"flag"
	"fmt"
	"os"
)

// Main runs a generator. With -check it writes nothing, and the program ends
// with status 1 if a generated file is stale.
func Main(name string, run func(check bool) error) {
	check := flag.Bool("check", false, "write nothing; exit 1 if a generated file is stale")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Put writes the file, or compares it if check is set.
func Put(name string, want []byte, check bool) error {
	if !check {
		return os.WriteFile(name, want, 0o644)
	}
	have, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, want) {
		return fmt.Errorf("%s is stale: run `go generate` in protocol/", name)
	}
	return nil
}
