module github.com/stile-lock/stile/protocol

go 1.26
