package sim

import (
	"fmt"
	"hash/fnv"
	"io"
)

// journal is the readable log of a run. It is off in most runs: a run that
// fails is run again with it on.
type journal struct {
	on    bool
	out   io.Writer // nil: lines are only kept
	lines []string  // the last ones
	sum   uint64    // of all lines
	count int
}

// kept is how many lines a failure shows.
const kept = 200

func (j *journal) write(now Time, text string) {
	line := fmt.Sprintf("%10.6f %s", now.Seconds(), text)
	h := fnv.New64a()
	fmt.Fprintf(h, "%016x%s", j.sum, line)
	j.sum = h.Sum64()
	j.count++
	if j.out != nil {
		fmt.Fprintln(j.out, line)
	}
	if len(j.lines) == 2*kept {
		j.lines = j.lines[:copy(j.lines, j.lines[kept:])]
	}
	j.lines = append(j.lines, line)
}

func (j *journal) tail() []string {
	return j.lines[max(0, len(j.lines)-kept):]
}
