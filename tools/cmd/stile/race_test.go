//go:build race && unix

package main

// The programs under test are built as the test is.
func init() { raceFlag = []string{"-race"} }
