module github.com/stile-lock/stile/features

go 1.26
