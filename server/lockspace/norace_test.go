//go:build !race

package lockspace

const raceEnabled = false
