// Package examples tests the recipes in its directories, each a program that
// runs: see README.md.
package examples
