// Package job runs a command while a lock is held, for `stile lock`.
//
// The command has a process group of its own, so that all of it can be ended.
// Three look after it:
//
//   - Run passes signals on and follows the terminal's job control. When the
//     lease is about to end it sends SIGTERM to the group, and SIGKILL before
//     the end.
//   - The guard, a second process in a session of its own, is told when the
//     lease ends. It does the same, a little later, if Run does not: because
//     it was stopped (SIGSTOP), or killed.
//   - On Linux the kernel sends SIGTERM to the command itself, not to its
//     children, when the process of Run dies: for the case that both are
//     killed.
//
// The command begins as a process that waits, and executes the command when
// the guard knows its group: there is no moment at which it runs and nobody
// would end it.
//
// What leaves the group (setsid, a daemon) is out of reach for all three. So
// is a machine that stands still as a whole: there only the token, checked by
// what the lock protects, helps.
package job
