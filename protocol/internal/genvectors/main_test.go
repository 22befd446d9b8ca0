package main

import "testing"

func TestGeneratedFilesAreCurrent(t *testing.T) {
	t.Chdir("../..")
	if err := run(true); err != nil {
		t.Error(err)
	}
}
