package lines

import (
	"fmt"
	"io"
)

// MaxRead is how many bytes are read from one connection, or from one testee.
// No scenario has a reason for a hundredth of it, and a target that never ends
// must not take the memory of the machine that judges it.
const MaxRead = 64 << 20

// Bounded reads from r, and fails when more than so many bytes came.
func Bounded(r io.Reader, most int) io.Reader { return &bounded{r: r, most: most, left: most} }

type bounded struct {
	r          io.Reader
	most, left int
}

func (b *bounded) Read(p []byte) (int, error) {
	// One byte more tells the end from the excess.
	n, err := b.r.Read(p[:min(len(p), b.left+1)])
	if n > b.left {
		n, err = b.left, fmt.Errorf("more than %d bytes came, and nothing more is read", b.most)
	}
	b.left -= n
	return n, err
}
