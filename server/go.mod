module github.com/stile-lock/stile/server

go 1.26

require (
	github.com/stile-lock/stile/protocol v0.0.0
	github.com/zeebo/xxh3 v1.1.0
)

require (
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	golang.org/x/sys v0.30.0 // indirect
)

replace github.com/stile-lock/stile/protocol => ../protocol
