package cluster

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stile-lock/stile/conformance/mutants"
	steps "github.com/stile-lock/stile/conformance/steps/cluster"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/features"
)

var logs = flag.String("logs", "", "keep what the nodes write in this directory, in a folder for each mutant")

// asNode is the first argument of a test binary that is to be a node.
const asNode = "stile-mutant"

// stiled is the reference node, built once.
var stiled string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asNode {
		os.Exit(Main(os.Args[2:]))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stile-mutants-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	stiled = filepath.Join(dir, "stiled")
	build := exec.Command("go", "build", "-o", stiled, "./cmd/stiled")
	build.Dir = filepath.Join("..", "..", "..", "server")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building stiled: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func open(fault string) (suite.Half, error) {
	self, err := os.Executable()
	if err != nil {
		return suite.Half{}, err
	}
	template, err := steps.ParseTemplate(fmt.Sprintf(
		"'%s' %s '%s' '%s' {listen} {advertise} {peers} {index} {state_dir}", self, asNode, fault, stiled))
	if err != nil {
		return suite.Half{}, err
	}
	o := steps.Options{Launch: template}
	if *logs != "" {
		o.Logs = filepath.Join(*logs, fault)
	}
	return steps.Half(o), nil
}

func matrix() *mutants.Matrix {
	return &mutants.Matrix{
		Mutants: Mutants,
		Open:    func(m *mutants.Mutant) (suite.Half, error) { return open(m.Name) },
		Smoke:   []string{"N-12.2-names-the-active"},
		// Each scenario has six processes here.
		Own: 1, At: 4, Concurrency: 2,
	}
}

func TestMutants(t *testing.T) {
	t.Parallel()
	matrix().Run(t)
}

// uncaught are scenarios that must hold and that no mutant here fails.
var uncaught = map[string]string{}

func TestTable(t *testing.T) { matrix().Check(t, features.Cluster(), uncaught) }

// The front without a fault is right.
func TestFrontWithoutAFault(t *testing.T) {
	if flag.Lookup("matrix").Value.String() != "true" {
		t.Skip("takes a minute, and is for -matrix")
	}
	mutants.Right(t, func() (suite.Half, error) { return open("") }, 0)
}
