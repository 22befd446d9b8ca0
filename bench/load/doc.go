// Package load puts load on a lock server and checks every answer.
//
// A Plan says what load: how many connections, how many requests under way on
// each, which keys. A Driver carries it out against a server of one kind. There
// are two ways to write one:
//
//   - With a Wire: the protocol of one connection. RunWires keeps the pipelines
//     full with one goroutine per connection, batched writes and no allocation
//     per request, so that it is the server that reaches its limit.
//   - With a Locker: a client library whose calls block. RunLockers calls it from
//     one goroutine for each request that may be under way.
//
// The unit of work is a pair: an acquire that was granted, and its release.
//
// In an open loop requests are due at times that do not depend on the server,
// and latency counts from when a request was due. A server that stalls for a
// second so delays all requests of that second, not just the one under way. In
// the closed loop a slow server is simply asked less, and those requests are
// omitted; Result.Corrected fills them in by an estimate.
package load
