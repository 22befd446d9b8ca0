module github.com/stile-lock/stile/client/examples

go 1.26.0

require (
	github.com/jackc/pgx/v5 v5.13.0
	github.com/stile-lock/stile/client v0.0.0
	github.com/stile-lock/stile/client/fence/fencetest v0.0.0
	github.com/stile-lock/stile/conformance v0.0.0
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/stile-lock/stile/protocol v0.0.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace (
	github.com/stile-lock/stile/client => ..
	github.com/stile-lock/stile/client/fence/fencetest => ../fence/fencetest
	github.com/stile-lock/stile/conformance => ../../conformance
	github.com/stile-lock/stile/protocol => ../../protocol
)
