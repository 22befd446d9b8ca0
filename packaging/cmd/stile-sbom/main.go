// Command stile-sbom finishes the bill of materials of a program, as
// cyclonedx-gomod makes it of the binary alone:
//
//	stile-sbom -version V -time RFC3339 -root DIR BINARY DOCUMENT
//
// Modules of the repository, whose directories the binary names where it is no
// release, get their paths and the version; every module gets its licences, and
// one without a licence is an error; the time is that of the commit in place of
// that of the run, which would make no two builds equal.
package main

import (
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "stile-sbom:", err)
		os.Exit(1)
	}
}

func run() error {
	version := flag.String("version", "", "version of the modules of the repository")
	at := flag.String("time", "", "time of the commit, RFC 3339")
	root := flag.String("root", "..", "the repository, for its licence")
	flag.Parse()
	if *version == "" || flag.NArg() != 2 {
		return errors.New("want -version V -time RFC3339 BINARY DOCUMENT")
	}
	if _, err := time.Parse(time.RFC3339, *at); err != nil {
		return fmt.Errorf("-time: %w", err)
	}
	binary, document := flag.Arg(0), flag.Arg(1)
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	where, err := directories(*root)
	if err != nil {
		return err
	}
	licences := func(path, version string) ([]string, error) {
		dir, err := where(path, version)
		if err != nil {
			return nil, err
		}
		return detect(dir)
	}
	if text, err = finish(text, info, *version, *at, licences); err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return os.WriteFile(document, text, 0o644)
}
