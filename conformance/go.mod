module github.com/stile-lock/stile/conformance

go 1.26

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/google/go-cmp v0.7.0
	github.com/stile-lock/stile/client v0.0.0
)

require (
	github.com/alecthomas/kong v1.17.0
	github.com/cucumber/gherkin/go/v42 v42.0.1
	github.com/cucumber/godog v0.16.0
	github.com/cucumber/messages/go/v34 v34.2.1
	github.com/google/uuid v1.6.0 // indirect
	github.com/hashicorp/go-immutable-radix v1.3.1 // indirect
	github.com/hashicorp/go-memdb v1.3.5 // indirect
	github.com/hashicorp/golang-lru v0.5.4 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	github.com/stile-lock/stile/features v0.0.0
	github.com/stile-lock/stile/protocol v0.0.0
)

replace (
	github.com/stile-lock/stile/client => ../client
	github.com/stile-lock/stile/protocol => ../protocol
)

replace github.com/stile-lock/stile/features => ../features
