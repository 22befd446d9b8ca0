// Stilevet reports misuse of Stile's Go client, by itself or for go vet:
//
//	stilevet ./...
//	go vet -vettool=$(which stilevet) ./...
//
// `stilevet help` lists the analyzers, `stilevet help NAME` explains one.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/stile-lock/stile/tools/vet"
)

func main() {
	// -V=full is go vet's own question, which the checker answers.
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case "--version", "-version", "-V", "--V":
			fmt.Println("stilevet", version())
			return
		}
	}
	vet.Flags(flag.CommandLine)
	// It serves go vet, too, if it is called with the file of a package.
	multichecker.Main(vet.Analyzers()...)
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
