// Package api is what the analyzers know of Stile's client. A function is known
// by the path of the package that declares it, its receiver and its name, as
// the type checker sees them: renamed imports, embedding and aliases make no
// difference, and a method of the same name elsewhere is another one.
package api

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/types/typeutil"
)

// The packages.
const (
	Client     = "github.com/stile-lock/stile/client"
	Fence      = Client + "/fence"
	FenceSQL   = Fence + "/fencesql"
	FenceRedis = Fence + "/fenceredis"
)

// Func names a function, or a method if Recv is the name of a type.
type Func struct{ Pkg, Recv, Name string }

func (f Func) String() string {
	if f.Recv != "" {
		return f.Recv + "." + f.Name
	}
	return f.Name
}

// Called is the function that call certainly calls by its name: the zero Func
// for a function value, a conversion or a builtin.
func Called(info *types.Info, call *ast.CallExpr) Func {
	fn, ok := typeutil.Callee(info, call).(*types.Func)
	if !ok || fn.Pkg() == nil {
		return Func{}
	}
	fn = fn.Origin()
	f := Func{Pkg: fn.Pkg().Path(), Name: fn.Name()}
	if recv := fn.Signature().Recv(); recv != nil {
		t := types.Unalias(recv.Type())
		if p, ok := t.(*types.Pointer); ok {
			t = types.Unalias(p.Elem())
		}
		named, ok := t.(*types.Named)
		if !ok {
			return Func{}
		}
		f.Recv = named.Obj().Name()
	}
	return f
}

// Is reports whether t is the named type, or a pointer to it.
func Is(t types.Type, pkg, name string) bool {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	named, ok := t.(*types.Named)
	return ok && named.Obj().Name() == name && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == pkg
}

// IsLock reports whether t is the client's lock, or a pointer to it.
func IsLock(t types.Type) bool { return Is(t, Client, "Lock") }

// Do is the client's method that runs a function under a lock. The function is
// its argument DoCallback.
var Do = Func{Client, "Client", "Do"}

// DoCallback is the index of the callback among the arguments of [Do], and
// DoKey that of the key.
const (
	DoKey      = 1
	DoCallback = 2
)

// A Set is some functions.
type Set map[Func]bool

func set(pkg, recv string, names ...string) Set {
	s := Set{}
	for _, name := range names {
		s[Func{pkg, recv, name}] = true
	}
	return s
}

func union(sets ...Set) Set {
	all := Set{}
	for _, s := range sets {
		for f := range s {
			all[f] = true
		}
	}
	return all
}

// Acquire returns a lock and an error.
var Acquire = set(Client, "Client", "Acquire", "TryAcquire", "Adopt")

// LockRelease gives a lock back.
var LockRelease = set(Client, "Lock", "Release")

// Release takes a context first, and gives a lock back.
var Release = union(LockRelease, set(Client, "Client", "Release"))

// LockKeep makes the lease longer, and tells in its error if that is too late.
var LockKeep = Func{Client, "Lock", "Keep"}

// LockExpires tells when the lease ends.
var LockExpires = Func{Client, "Lock", "Expires"}

// LockContext returns a context that ends with the lock.
var LockContext = Func{Client, "Lock", "Context"}

// LockKey and LockToken are the two halves of a grant, and NewGrant puts them
// together.
var (
	LockKey   = Func{Client, "Lock", "Key"}
	LockToken = Func{Client, "Lock", "Token"}
	NewGrant  = Func{Fence, "", "NewGrant"}
)

// LockUse are methods after which whoever had the lock still has to give it
// back.
var LockUse = set(Client, "Lock", "Keep", "Renew", "Expires", "Lease", "Context", "Key")

// ByToken gives a lock back, or takes it over, by its key and its token.
var ByToken = set(Client, "Client", "Release", "Adopt")

// Guards check a grant, and keep nothing of it but the token.
var Guards = union(
	set(Fence, "", "Validate"),
	set(Fence, "Guard", "Check", "Do"),
	set(FenceSQL, "Guard", "Check", "CheckRow", "Do"),
	set(FenceRedis, "Guard", "Check", "Do"),
)
