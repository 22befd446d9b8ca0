module github.com/stile-lock/stile/browser

go 1.26

require (
	github.com/chromedp/cdproto v0.160.1
	github.com/chromedp/chromedp v0.23.1
	github.com/stile-lock/stile/client v0.0.0
	github.com/stile-lock/stile/conformance v0.0.0
)

require (
	github.com/go-json-experiment/json v0.0.0-20260623181947-01eb4420fa68 // indirect
	github.com/stile-lock/stile/protocol v0.0.0 // indirect
)

replace (
	github.com/stile-lock/stile/client => ../client
	github.com/stile-lock/stile/conformance => ../conformance
	github.com/stile-lock/stile/features => ../features
	github.com/stile-lock/stile/protocol => ../protocol
)
