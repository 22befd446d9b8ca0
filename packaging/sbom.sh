#!/bin/sh
# sbom.sh BINARY DOCUMENT VERSION TIME: what a binary is made of, as CycloneDX.
# The tool stamps the time of the run, which would make no two builds equal:
# TIME, of the commit, is put in its place.
set -eu
go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0 bin \
	-json -std -noserial -version "$3" -output "$2.tmp" "$1"
sed "s/\"timestamp\": \"[^\"]*\"/\"timestamp\": \"$4\"/" "$2.tmp" >"$2"
rm "$2.tmp"
grep -q "\"timestamp\": \"$4\"" "$2"
