// Package fencetest tests the guards of client/fence against the real things:
// PostgreSQL, SQLite and Redis. It is a module of its own, so that whoever uses
// the client gets no drivers.
package fencetest
