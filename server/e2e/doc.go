// Package e2e tests the real stiled from outside: its tests build the binary,
// start it on loopback, and talk to it over raw sockets, signals and files.
//
//   - harness_test.go: building, starting, stopping; a client by hand
//   - sys_linux_test.go: what only Linux tells of a process and a socket
//   - restart_test.go: what a start needs, and what outlives a kill
//   - stop_test.go: signals
//   - settings_test.go: exit statuses and messages
//   - time_test.go: leases and waits, never early
//   - line_test.go: who is next, and who is gone
//   - values_test.go: odd numbers, keys and tokens
//   - limits_test.go: floods, strangers, and those who do not read
//   - recipe_test.go: the lines of SECURITY.md that make secrets and certificates
//   - log_test.go: a log that nobody reads
//   - tls_test.go: certificates and secrets, read anew on SIGHUP
//   - hostile_test.go: random and mutated input, and no descriptors left
//   - vanish_test.go: a machine that vanishes without a word
//
// Nothing here needs luck with time: "not before" is exact, "at the latest"
// is generous, and how late things were is printed with -v.
package e2e
