//go:build !unix

package job

import (
	"errors"
	"os"
	"os/signal"
)

// Supported reports whether commands can be run on this system.
const Supported = false

// Run needs process groups and signals of a Unix system.
func Run(Command, Lease, Options) (Outcome, error) { return Outcome{}, errors.ErrUnsupported }

// Catch has an interrupt delivered to the channel.
func Catch(to chan os.Signal) { signal.Notify(to, os.Interrupt) }

// Ends reports whether a signal ends a process that does nothing about it.
func Ends(os.Signal) bool { return true }

// Interrupt does nothing here.
func Interrupt(bool) {}

// Status is the exit status of a program that a signal ends.
func Status(os.Signal) int { return 130 }

// Guard is never run: Run starts none.
func Guard() {}

// Start is never run either.
func Start([]string) error { return errors.ErrUnsupported }
