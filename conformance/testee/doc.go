// Package testee is the suite's side of the contract with a testee, the small
// program that puts a client of any language under the suite's control. The
// contract is TESTEE.md.
//
// A Program starts testees; a Session is one of them that runs. The session
// takes nothing on trust: the child may hang, die, print what is no answer, or
// answer twice. Whatever happens ends in an error that says what was seen and
// what was probably meant, with the last lines of the child's stderr.
package testee
