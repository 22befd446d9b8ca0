#!/bin/sh
# sbom.sh BINARY DOCUMENT VERSION TIME: what a binary is made of, as CycloneDX.
# stile-sbom finishes it: names of our modules, licences, and the time.
set -eu
case $1 in /*) binary=$1 ;; *) binary=$PWD/$1 ;; esac
case $2 in /*) document=$2 ;; *) document=$PWD/$2 ;; esac
cd "$(dirname "$0")"
go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0 bin \
	-json -std -noserial -version "$3" -output "$document" "$binary"
go run ./cmd/stile-sbom -version "$3" -time "$4" "$binary" "$document"
