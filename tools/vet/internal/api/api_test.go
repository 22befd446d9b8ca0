package api_test

import (
	"reflect"
	"testing"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
	"github.com/stile-lock/stile/client/fence/fenceredis"
	"github.com/stile-lock/stile/client/fence/fencesql"
	"github.com/stile-lock/stile/tools/vet/internal/api"
)

// types are those of which the analyzers know methods.
var types = map[[2]string]reflect.Type{
	{api.Client, "Client"}:    reflect.TypeFor[*client.Client](),
	{api.Client, "Lock"}:      reflect.TypeFor[*client.Lock](),
	{api.Fence, "Guard"}:      reflect.TypeFor[*fence.Guard](),
	{api.FenceSQL, "Guard"}:   reflect.TypeFor[fencesql.Guard](),
	{api.FenceRedis, "Guard"}: reflect.TypeFor[*fenceredis.Guard](),
}

// functions are those that are no methods.
var functions = map[api.Func]any{
	api.NewGrant:                       fence.NewGrant,
	{Pkg: api.Fence, Name: "Validate"}: fence.Validate,
}

// TestNames compares with the client itself: the analyzers would not hear of
// a name that changed, and report nothing.
func TestNames(t *testing.T) {
	all := []api.Func{api.Do, api.LockContext, api.LockKeep, api.LockExpires, api.LockKey, api.LockToken, api.NewGrant}
	for _, set := range []api.Set{api.Acquire, api.Release, api.LockRelease, api.LockUse, api.ByToken, api.Guards} {
		if len(set) == 0 {
			t.Error("an empty set")
		}
		for f := range set {
			all = append(all, f)
		}
	}
	for _, f := range all {
		if f.Recv == "" {
			if fn := functions[f]; fn == nil || reflect.TypeOf(fn).Kind() != reflect.Func {
				t.Errorf("there is no function %s in %s", f, f.Pkg)
			}
			continue
		}
		typ := types[[2]string{f.Pkg, f.Recv}]
		if typ == nil {
			t.Errorf("%s of %s is of an unknown type", f, f.Pkg)
			continue
		}
		elem := typ
		if elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
		if elem.PkgPath() != f.Pkg || elem.Name() != f.Recv {
			t.Errorf("%s of %s is a method of %s of %s", f, f.Pkg, elem.Name(), elem.PkgPath())
		}
		if _, ok := typ.MethodByName(f.Name); !ok {
			t.Errorf("%s has no method %s", typ, f.Name)
		}
	}
}

// TestEveryMethodOfALock fails for a method that lostlock knows nothing of: it
// would take it for one that hands the lock on.
func TestEveryMethodOfALock(t *testing.T) {
	lock := reflect.TypeFor[*client.Lock]()
	for i := range lock.NumMethod() {
		f := api.Func{Pkg: api.Client, Recv: "Lock", Name: lock.Method(i).Name}
		if !api.LockUse[f] && !api.LockRelease[f] && f != api.LockToken {
			t.Errorf("what does %s do with the lock?", f)
		}
	}
	do, _ := reflect.TypeFor[*client.Client]().MethodByName(api.Do.Name)
	in := do.Type // its receiver comes first
	if in.In(1+api.DoCallback).Kind() != reflect.Func || in.In(1+api.DoKey).Kind() != reflect.String {
		t.Errorf("the arguments of %s are others: %s", api.Do, in)
	}
}
