// Package snapshot looks at what `make snapshot` has built: the contents of the
// archives and packages, the programs in them, an install of the deb, and whether
// a second build of the same sources in another place is the same, byte by byte.
// `make snapshot-test` runs it; without -dist its tests are skipped.
package snapshot
