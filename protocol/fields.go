package protocol

import (
	"bytes"
	"time"
)

// cut returns the bytes up to the first SP, and what follows it. more tells
// whether there was an SP, and so another field, even an empty one.
func cut(b []byte) (field, rest []byte, more bool) {
	i := bytes.IndexByte(b, ' ')
	if i < 0 {
		return b, nil, false
	}
	return b[:i], b[i+1:], true
}

// plain reports whether every byte may stand in a field: above 0x20, not DEL.
func plain(b []byte) bool {
	for _, c := range b {
		if c <= 0x20 || c == 0x7F {
			return false
		}
	}
	return true
}

// ValidKey reports whether key can be sent: 1 to 255 bytes, each above 0x20
// and not 0x7F, and not the single byte "?" (SPEC.md 2.6). Bytes above 0x7F
// are neither validated nor normalised.
func ValidKey(key []byte) bool {
	return len(key) >= 1 && len(key) <= MaxKey && plain(key) && !(len(key) == 1 && key[0] == '?')
}

// ValidNonce reports whether nonce can be sent: 1 to 32 of [0-9A-Za-z_-].
func ValidNonce(nonce []byte) bool {
	if len(nonce) < 1 || len(nonce) > MaxNonce {
		return false
	}
	for _, c := range nonce {
		switch {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// ValidName reports whether name can stand in a hello: 1 to 64 bytes of a
// field.
func ValidName(name []byte) bool {
	return len(name) >= 1 && len(name) <= MaxName && plain(name)
}

// ValidSecret reports whether secret can stand in a hello: 1 to 255 bytes of
// a field.
func ValidSecret(secret []byte) bool {
	return len(secret) >= 1 && len(secret) <= MaxSecret && plain(secret)
}

// ValidAddr reports whether addr has the form host:port or [v6]:port and is
// at most 261 bytes (SPEC.md 2.7). Port 0 is well-formed, though no client
// dials it.
func ValidAddr(addr []byte) bool {
	if len(addr) > MaxAddr || !plain(addr) {
		return false
	}
	colon := bytes.LastIndexByte(addr, ':')
	if colon < 1 {
		return false
	}
	host, port := addr[:colon], addr[colon+1:]
	if _, ok := decimal(port, 65535); !ok {
		return false
	}
	if host[0] == '[' {
		if host[len(host)-1] != ']' {
			return false
		}
		return validIPv6(host[1 : len(host)-1])
	}
	return bytes.IndexByte(host, ':') < 0 && bytes.IndexByte(host, '[') < 0 && bytes.IndexByte(host, ']') < 0
}

// validIPv6 reports whether b is an IPv6 address in its text form, the last 32
// bits as hex groups or as an IPv4 address. A zone is refused: it means
// nothing on another machine. netip.ParseAddr would allocate its argument.
func validIPv6(b []byte) bool {
	groups, gap := 0, false
	for i := 0; ; {
		if i+1 < len(b) && b[i] == ':' && b[i+1] == ':' && !gap {
			gap = true
			if i += 2; i == len(b) {
				break
			}
		} else if i > 0 {
			if i >= len(b) || b[i] != ':' {
				return false
			}
			i++
		}
		start := i
		for i < len(b) && i-start < 4 && isHex(b[i]) {
			i++
		}
		if i < len(b) && b[i] == '.' {
			groups += 2
			if !validIPv4(b[start:]) {
				return false
			}
			break
		}
		if i == start {
			return false
		}
		if groups++; i == len(b) {
			break
		}
	}
	return gap && groups < 8 || !gap && groups == 8
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func validIPv4(b []byte) bool {
	for range 3 {
		i := bytes.IndexByte(b, '.')
		if i < 0 {
			return false
		}
		if _, ok := decimal(b[:i], 255); !ok {
			return false
		}
		b = b[i+1:]
	}
	_, ok := decimal(b, 255)
	return ok
}

// decimal reads an unsigned number without sign or leading zero.
func decimal(b []byte, most uint64) (uint64, bool) {
	if len(b) == 0 || len(b) > 20 || b[0] == '0' && len(b) > 1 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > (most-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

func parseToken(b []byte) (uint64, bool) {
	n, ok := decimal(b, 1<<64-1)
	return n, ok && n != 0
}

// parseSeconds reads ( "0" / 1-9 and up to 8 digits ) [ "." 1 to 3 digits ].
func parseSeconds(b []byte) (time.Duration, bool) {
	whole, frac, point := b, []byte(nil), false
	if i := bytes.IndexByte(b, '.'); i >= 0 {
		whole, frac, point = b[:i], b[i+1:], true
	}
	n, ok := decimal(whole, 999_999_999)
	if !ok || point && (len(frac) < 1 || len(frac) > 3) {
		return 0, false
	}
	ms := uint64(0)
	for i := range 3 {
		d := uint64(0)
		if i < len(frac) {
			if d = uint64(frac[i] - '0'); d > 9 {
				return 0, false
			}
		}
		ms = ms*10 + d
	}
	return time.Duration(n*1000+ms) * time.Millisecond, true
}

func parseWait(b []byte) (time.Duration, bool) {
	if len(b) == 2 && b[0] == '-' && b[1] == '1' {
		return NoQueue, true
	}
	return parseSeconds(b)
}

func appendUint(dst []byte, n uint64) []byte {
	var tmp [20]byte
	i := len(tmp)
	for {
		i--
		tmp[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return append(dst, tmp[i:]...)
		}
	}
}

// AppendSeconds appends d in its shortest form (SPEC.md 2.5). d is cut to whole
// milliseconds and held between 0 and [MaxSeconds].
func AppendSeconds(dst []byte, d time.Duration) []byte {
	ms := uint64(min(max(d, 0), MaxSeconds) / time.Millisecond)
	dst = appendUint(dst, ms/1000)
	if ms %= 1000; ms == 0 {
		return dst
	}
	frac := [4]byte{'.', byte('0' + ms/100), byte('0' + ms/10%10), byte('0' + ms%10)}
	n := 4
	for frac[n-1] == '0' {
		n--
	}
	return append(dst, frac[:n]...)
}

// AppendWait appends a wait: "-1" for [NoQueue] (and anything else below 0),
// else as AppendSeconds.
func AppendWait(dst []byte, d time.Duration) []byte {
	if d < 0 {
		return append(dst, "-1"...)
	}
	return AppendSeconds(dst, d)
}
