module github.com/stile-lock/stile/bench

go 1.26

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/alecthomas/kong v1.17.0
	github.com/google/go-cmp v0.7.0
	github.com/stile-lock/stile/client v0.0.0
	github.com/stile-lock/stile/protocol v0.0.0
)

replace (
	github.com/stile-lock/stile/client => ../client
	github.com/stile-lock/stile/protocol => ../protocol
)
