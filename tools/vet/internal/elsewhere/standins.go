package main

import (
	"go/token"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/lostlock"
)

const (
	pgx     = "github.com/jackc/pgx/v5"
	pgxpool = pgx + "/pgxpool"
	nats    = "github.com/nats-io/nats.go"
	grpc    = "google.golang.org/grpc"
	etcd    = "go.etcd.io/etcd/client/v3"
	mutex   = etcd + "/concurrency"
)

// A kind is a type of which values are taken and given back.
type kind struct {
	pkg, name string
	gives     []string // its methods that give back
	takes     []api.Func
}

var kinds = []kind{
	{"os", "File", []string{"Close"}, []api.Func{{Pkg: "os", Name: "Open"}, {Pkg: "os", Name: "Create"}, {Pkg: "os", Name: "OpenFile"}, {Pkg: "os", Name: "CreateTemp"}}},
	{"os", "Root", []string{"Close"}, []api.Func{{Pkg: "os", Name: "OpenRoot"}}},
	{"net", "Conn", []string{"Close"}, []api.Func{
		{Pkg: "net", Name: "Dial"}, {Pkg: "net", Name: "DialTimeout"},
		{Pkg: "net", Recv: "Dialer", Name: "Dial"}, {Pkg: "net", Recv: "Dialer", Name: "DialContext"},
		{Pkg: "net", Recv: "Listener", Name: "Accept"},
	}},
	{"net", "Listener", []string{"Close"}, []api.Func{{Pkg: "net", Name: "Listen"}, {Pkg: "net", Recv: "ListenConfig", Name: "Listen"}}},
	{"database/sql", "Tx", []string{"Commit", "Rollback"}, []api.Func{
		{Pkg: "database/sql", Recv: "DB", Name: "Begin"}, {Pkg: "database/sql", Recv: "DB", Name: "BeginTx"}, {Pkg: "database/sql", Recv: "Conn", Name: "BeginTx"},
	}},
	{"database/sql", "Conn", []string{"Close"}, []api.Func{{Pkg: "database/sql", Recv: "DB", Name: "Conn"}}},
	{"database/sql", "Stmt", []string{"Close"}, []api.Func{
		{Pkg: "database/sql", Recv: "DB", Name: "Prepare"}, {Pkg: "database/sql", Recv: "DB", Name: "PrepareContext"},
		{Pkg: "database/sql", Recv: "Tx", Name: "Prepare"}, {Pkg: "database/sql", Recv: "Tx", Name: "PrepareContext"},
	}},
	{"database/sql", "DB", []string{"Close"}, []api.Func{{Pkg: "database/sql", Name: "Open"}}},
	{pgx, "Conn", []string{"Close"}, []api.Func{{Pkg: pgx, Name: "Connect"}, {Pkg: pgx, Name: "ConnectConfig"}}},
	{pgx, "Tx", []string{"Commit", "Rollback"}, []api.Func{
		{Pkg: pgx, Recv: "Conn", Name: "Begin"}, {Pkg: pgx, Recv: "Conn", Name: "BeginTx"}, {Pkg: pgx, Recv: "Tx", Name: "Begin"},
		{Pkg: pgxpool, Recv: "Conn", Name: "Begin"}, {Pkg: pgxpool, Recv: "Conn", Name: "BeginTx"},
	}},
	{pgxpool, "Conn", []string{"Release", "Hijack"}, []api.Func{{Pkg: pgxpool, Recv: "Pool", Name: "Acquire"}}},
	{pgxpool, "Pool", []string{"Close"}, []api.Func{{Pkg: pgxpool, Name: "New"}, {Pkg: pgxpool, Name: "NewWithConfig"}}},
	{nats, "Conn", []string{"Close", "Drain"}, []api.Func{{Pkg: nats, Name: "Connect"}}},
	{nats, "Subscription", []string{"Unsubscribe", "Drain", "AutoUnsubscribe"}, []api.Func{
		{Pkg: nats, Recv: "Conn", Name: "Subscribe"}, {Pkg: nats, Recv: "Conn", Name: "SubscribeSync"},
		{Pkg: nats, Recv: "Conn", Name: "QueueSubscribe"}, {Pkg: nats, Recv: "Conn", Name: "ChanSubscribe"},
	}},
	{grpc, "ClientConn", []string{"Close"}, []api.Func{{Pkg: grpc, Name: "NewClient"}, {Pkg: grpc, Name: "Dial"}, {Pkg: grpc, Name: "DialContext"}}},
	{etcd, "Client", []string{"Close"}, []api.Func{{Pkg: etcd, Name: "New"}, {Pkg: etcd, Name: "NewFromURL"}}},
	{mutex, "Session", []string{"Close", "Orphan"}, []api.Func{{Pkg: mutex, Name: "NewSession"}}},
}

// standIns are what stands in for locks.
var standIns = func() lostlock.Pairs {
	p := lostlock.Pairs{
		Thing: "value", Acquire: api.Set{}, Release: api.Set{},
		Borrow: api.Set{{Pkg: "io", Name: "Copy"}: true, {Pkg: "io", Name: "ReadAll"}: true, {Pkg: "io", Name: "ReadFull"}: true},
	}
	types := map[[2]string]bool{}
	for _, k := range kinds {
		types[[2]string{k.pkg, k.name}] = true
		for _, name := range k.gives {
			p.Release[api.Func{Pkg: k.pkg, Recv: k.name, Name: name}] = true
		}
		for _, f := range k.takes {
			p.Acquire[f] = true
		}
	}
	// Of their other methods, users only have those that keep nothing.
	p.Use = func(f api.Func) bool {
		return types[[2]string{f.Pkg, f.Recv}] && !p.Release[f] && token.IsExported(f.Name)
	}
	return p
}()
