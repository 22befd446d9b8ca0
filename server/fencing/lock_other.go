//go:build !unix

package fencing

import (
	"errors"
	"os"
	"runtime"
)

// lockExclusive refuses: without a lock two nodes could share one epoch file
// and give the same tokens.
func lockExclusive(*os.File) error {
	return errors.New("stiled does not run on " + runtime.GOOS)
}
