//go:build !unix

package main

import "github.com/stile-lock/stile/server/config"

// fitDescriptors does nothing where the system sets no limit.
func fitDescriptors(*config.Config) {}
