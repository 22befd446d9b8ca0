package protocol

import "time"

func appendKey(dst []byte, op Op, key []byte) []byte {
	dst = append(dst, byte(op), ' ')
	return append(dst, key...)
}

// AppendAcquire appends the request `A key wait lease [nonce]`. A wait below
// 0 stands as -1; durations are cut to whole milliseconds.
func AppendAcquire(dst, key []byte, wait, lease time.Duration, nonce []byte) []byte {
	dst = append(appendKey(dst, OpAcquire, key), ' ')
	dst = append(AppendWait(dst, wait), ' ')
	dst = AppendSeconds(dst, lease)
	if len(nonce) > 0 {
		dst = append(append(dst, ' '), nonce...)
	}
	return append(dst, '\n')
}

// AppendRelease appends `R key token`, the request and its good answer.
func AppendRelease(dst, key []byte, token uint64) []byte {
	dst = append(appendKey(dst, OpRelease, key), ' ')
	return append(appendUint(dst, token), '\n')
}

// AppendKeep appends `K key token lease`, the request and its good answer.
func AppendKeep(dst, key []byte, token uint64, lease time.Duration) []byte {
	return appendTokenLease(dst, OpKeep, key, token, lease)
}

// AppendGrant appends the answer `A key token lease`.
func AppendGrant(dst, key []byte, token uint64, lease time.Duration) []byte {
	return appendTokenLease(dst, OpAcquire, key, token, lease)
}

func appendTokenLease(dst []byte, op Op, key []byte, token uint64, lease time.Duration) []byte {
	dst = append(appendKey(dst, op, key), ' ')
	dst = append(appendUint(dst, token), ' ')
	return append(AppendSeconds(dst, lease), '\n')
}

// AppendTimeout appends the answer `T key`.
func AppendTimeout(dst, key []byte) []byte {
	return append(appendKey(dst, OpTimeout, key), '\n')
}

// AppendCancel appends `C key nonce`, the request and its answer.
func AppendCancel(dst, key, nonce []byte) []byte {
	dst = append(appendKey(dst, OpCancel, key), ' ')
	return append(append(dst, nonce...), '\n')
}

// AppendPing appends `P word`, the request and its answer.
func AppendPing(dst, word []byte) []byte {
	return append(appendKey(dst, OpPing, word), '\n')
}

// AppendHello appends the request `H 1 name [secret]`.
func AppendHello(dst, name, secret []byte) []byte {
	dst = append(dst, "H "+Version+" "...)
	dst = append(dst, name...)
	if len(secret) > 0 {
		dst = append(append(dst, ' '), secret...)
	}
	return append(dst, '\n')
}

// AppendWelcome appends the answer `H 1 node profiles`; no profiles stand as
// "-".
func AppendWelcome(dst, node, profiles []byte) []byte {
	dst = append(dst, "H "+Version+" "...)
	dst = append(append(dst, node...), ' ')
	if len(profiles) == 0 {
		dst = append(dst, '-')
	}
	return append(append(dst, profiles...), '\n')
}

// AppendMoved appends the answer `M op key addr`.
func AppendMoved(dst []byte, op Op, key, addr []byte) []byte {
	dst = append(dst, byte(OpMoved), ' ')
	dst = append(appendKey(dst, op, key), ' ')
	return append(append(dst, addr...), '\n')
}

// AppendError appends the answer `E op key code text`. An op of 0 and a nil
// key stand as "?". The text may be empty; it is cut to what a line holds,
// and control bytes in it become spaces (SPEC.md 2.8).
func AppendError[T string | []byte](dst []byte, op Op, key []byte, code Code, text T) []byte {
	return appendError(dst, op, key, code.String(), text)
}

func appendError[C, T string | []byte](dst []byte, op Op, key []byte, code C, text T) []byte {
	start := len(dst)
	if op == 0 {
		op = '?'
	}
	if key == nil {
		dst = append(appendKey(append(dst, byte(OpError), ' '), op, nil), '?', ' ')
	} else {
		dst = append(appendKey(append(dst, byte(OpError), ' '), op, key), ' ')
	}
	dst = append(dst, code...)
	room := MaxLine - (len(dst) - start) - len(" \n")
	n := min(len(text), room)
	for n > 0 && n < len(text) && text[n]&0xC0 == 0x80 {
		n-- // not in the middle of a code point
	}
	if n > 0 {
		dst = append(dst, ' ')
		at := len(dst)
		dst = append(dst, text[:n]...)
		for i, c := range dst[at:] {
			if c < 0x20 || c == 0x7F {
				dst[at+i] = ' '
			}
		}
	}
	return append(dst, '\n')
}
