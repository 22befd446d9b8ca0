module github.com/stile-lock/stile/tools

go 1.26.0

require (
	github.com/alecthomas/kong v1.17.0
	github.com/google/go-cmp v0.7.0
	github.com/stile-lock/stile/client v0.0.0
	github.com/stile-lock/stile/conformance v0.0.0
	golang.org/x/mod v0.43.0
	golang.org/x/sys v0.50.0
	golang.org/x/term v0.48.0
)

require github.com/stile-lock/stile/protocol v0.0.0 // indirect

replace (
	github.com/stile-lock/stile/client => ../client
	github.com/stile-lock/stile/conformance => ../conformance
	github.com/stile-lock/stile/protocol => ../protocol
)
