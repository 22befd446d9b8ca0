// Package protocol is the codec of Stile's wire protocol, version 1.
//
// The protocol is lines of bytes over a stream; SPEC.md beside this file
// describes it completely. This package knows no connection, no clock and no
// goroutine: it is fed bytes and returns views into them.
//
//   - [Lines] cuts a stream of bytes into lines.
//   - [ParseRequest] and [ParseAnswer] read one line.
//   - [AppendRequest] and [AppendAnswer], and the Append functions they are
//     made of, write one line.
//   - [Code] is the registry of error codes, generated from codes.json.
//
// The folder testdata/vectors has vectors for codecs in any language.
//
// Nothing here allocates, apart from the buffer of [Lines] when it grows.
// Byte slices in a parsed [Request] or [Answer] alias the line they were read
// from and are valid only as long as that line is.
package protocol

//go:generate go run ./internal/gencodes
//go:generate go run ./internal/genvectors
