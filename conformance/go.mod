module github.com/stile-lock/stile/conformance

go 1.26

require github.com/stile-lock/stile/client v0.0.0

require github.com/stile-lock/stile/protocol v0.0.0 // indirect

replace (
	github.com/stile-lock/stile/client => ../client
	github.com/stile-lock/stile/protocol => ../protocol
)
