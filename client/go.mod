module github.com/stile-lock/stile/client

go 1.26

require (
	github.com/google/go-cmp v0.7.0
	github.com/stile-lock/stile/protocol v0.0.0
)

replace github.com/stile-lock/stile/protocol => ../protocol
