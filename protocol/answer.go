package protocol

import "errors"

// ErrBadAnswer is returned by [ParseAnswer] for a line that is no answer of
// this version. A client resets the connection it came from (SPEC.md 13.13).
var ErrBadAnswer = errors.New("protocol: not an answer")

// ParseAnswer reads one line, as [Lines.Next] returns it, into a. Extra
// fields at the end of the line are ignored, so that version 1 can grow
// (SPEC.md 14.2). The error is [ErrBadAnswer] or nil; a is then empty.
func ParseAnswer(line []byte, a *Answer) error {
	*a = Answer{}
	if !a.parse(line) {
		*a = Answer{}
		return ErrBadAnswer
	}
	return nil
}

func (a *Answer) parse(line []byte) (ok bool) {
	if len(line) < 3 || line[1] != ' ' {
		return false
	}
	a.Op, a.For = Op(line[0]), Op(line[0])
	rest := line[2:]
	if a.Op == OpMoved || a.Op == OpError {
		if len(rest) < 3 || rest[1] != ' ' {
			return false
		}
		a.For = Op(rest[0])
		rest = rest[2:]
		if a.For == '?' && a.Op == OpError {
			a.For = 0
		} else if a.For < 'A' || a.For > 'Z' {
			return false
		}
	}
	key, rest, more := cut(rest)
	switch {
	case ValidKey(key):
		if a.For == 0 {
			return false
		}
		a.Key = key
	case a.Op == OpError && len(key) == 1 && key[0] == '?':
	default:
		return false
	}
	switch a.Op {
	case OpAcquire, OpKeep:
		ok = more && a.grantFields(rest)
	case OpRelease:
		token, _, _ := cut(rest)
		a.Token, ok = parseToken(token)
	case OpTimeout:
		a.For, ok = OpAcquire, true
	case OpCancel:
		a.Nonce, _, _ = cut(rest)
		ok = ValidNonce(a.Nonce)
	case OpPing:
		ok = true
	case OpHello:
		// What follows another version is that version's affair.
		ok = more && string(key) == Version && a.helloFields(rest)
	case OpMoved:
		a.Addr, _, _ = cut(rest)
		ok = ValidAddr(a.Addr)
	case OpError:
		a.CodeName, a.Text, _ = cut(rest)
		a.Code = codeOf(string(a.CodeName))
		ok = len(a.CodeName) > 0 && plain(a.CodeName)
	}
	return ok
}

func (a *Answer) grantFields(b []byte) (ok bool) {
	token, rest, more := cut(b)
	if a.Token, ok = parseToken(token); !ok || !more {
		return false
	}
	lease, _, _ := cut(rest)
	a.Lease, ok = parseSeconds(lease)
	return ok
}

func (a *Answer) helloFields(b []byte) bool {
	node, rest, more := cut(b)
	if !more || !ValidAddr(node) {
		return false
	}
	profiles, _, _ := cut(rest)
	a.Addr, a.Profiles = node, profiles
	return len(profiles) > 0 && plain(profiles)
}

// HasProfile reports whether the answer to a hello lists the profile.
func (a *Answer) HasProfile(profile string) bool {
	list := a.Profiles
	for len(list) > 0 {
		i := 0
		for i < len(list) && list[i] != ',' {
			i++
		}
		if string(list[:i]) == profile {
			return true
		}
		list = list[min(i+1, len(list)):]
	}
	return false
}

// AppendAnswer appends a as a line. The fields must be valid, as
// [ParseAnswer] would accept them; the text of an E is cut to what fits.
func AppendAnswer(dst []byte, a *Answer) []byte {
	switch a.Op {
	case OpAcquire:
		return AppendGrant(dst, a.Key, a.Token, a.Lease)
	case OpRelease:
		return AppendRelease(dst, a.Key, a.Token)
	case OpKeep:
		return AppendKeep(dst, a.Key, a.Token, a.Lease)
	case OpTimeout:
		return AppendTimeout(dst, a.Key)
	case OpCancel:
		return AppendCancel(dst, a.Key, a.Nonce)
	case OpPing:
		return AppendPing(dst, a.Key)
	case OpHello:
		return AppendWelcome(dst, a.Addr, a.Profiles)
	case OpMoved:
		return AppendMoved(dst, a.For, a.Key, a.Addr)
	case OpError:
		if a.Code == CodeUnknown {
			return appendError(dst, a.For, a.Key, a.CodeName, a.Text)
		}
		return AppendError(dst, a.For, a.Key, a.Code, a.Text)
	}
	panic("protocol: AppendAnswer with op " + a.Op.String())
}
