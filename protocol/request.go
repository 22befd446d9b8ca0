package protocol

// ParseRequest reads one line, as [Lines.Next] returns it, into r. It returns
// 0 if the request is well-formed, else the code to refuse it with, by the
// order of refusal of SPEC.md 5.1:
//
//   - [CodeBadRequest] with r.Op = 0: the line does not start with an op.
//     Answer `E ? ? bad-request` and close the connection.
//   - [CodeBadKey]: r.Op is set, r.Key is nil. Answer `E op ? bad-key`.
//   - [CodeBadRequest] or [CodeUnknownOp] with r.Op and r.Key set. Answer
//     `E op key code`.
//   - [CodeVersion], for H only: r.Key is the version that is not spoken.
//
// [AppendError] with r.Op and r.Key writes each of these answers.
func ParseRequest(line []byte, r *Request) Code {
	*r = Request{}
	if len(line) == 0 || line[0] < 'A' || line[0] > 'Z' || len(line) > 1 && line[1] != ' ' {
		return CodeBadRequest
	}
	r.Op = Op(line[0])
	if len(line) < 2 {
		return CodeBadKey
	}
	key, rest, more := cut(line[2:])
	if !ValidKey(key) {
		return CodeBadKey
	}
	r.Key = key
	ok := false
	switch r.Op {
	case OpAcquire:
		ok = more && r.acquireFields(rest)
	case OpRelease:
		if more {
			r.Token, ok = parseToken(rest)
		}
	case OpKeep:
		ok = more && r.keepFields(rest)
	case OpCancel:
		r.Nonce, ok = rest, more && ValidNonce(rest)
	case OpPing:
		ok = !more
	case OpHello:
		if string(key) != Version {
			return CodeVersion
		}
		ok = more && r.helloFields(rest)
	default:
		return CodeUnknownOp
	}
	if !ok {
		*r = Request{Op: r.Op, Key: r.Key}
		return CodeBadRequest
	}
	return 0
}

// Each of these refuses an extra field: the last field it reads is all that
// is left of the line, and no field may hold an SP.

func (r *Request) acquireFields(b []byte) (ok bool) {
	wait, rest, more := cut(b)
	if r.Wait, ok = parseWait(wait); !ok || !more {
		return false
	}
	lease, rest, more := cut(rest)
	if r.Lease, ok = parseSeconds(lease); !ok {
		return false
	}
	r.Nonce = rest
	return !more || ValidNonce(rest)
}

func (r *Request) keepFields(b []byte) (ok bool) {
	token, rest, more := cut(b)
	if r.Token, ok = parseToken(token); !ok || !more {
		return false
	}
	r.Lease, ok = parseSeconds(rest)
	return ok
}

func (r *Request) helloFields(b []byte) bool {
	name, rest, more := cut(b)
	r.Name, r.Secret = name, rest
	return ValidName(name) && (!more || ValidSecret(rest))
}

// AppendRequest appends r as a line. The fields must be valid, as
// [ParseRequest] would accept them; the Valid functions tell.
func AppendRequest(dst []byte, r *Request) []byte {
	switch r.Op {
	case OpAcquire:
		return AppendAcquire(dst, r.Key, r.Wait, r.Lease, r.Nonce)
	case OpRelease:
		return AppendRelease(dst, r.Key, r.Token)
	case OpKeep:
		return AppendKeep(dst, r.Key, r.Token, r.Lease)
	case OpCancel:
		return AppendCancel(dst, r.Key, r.Nonce)
	case OpPing:
		return AppendPing(dst, r.Key)
	case OpHello:
		return AppendHello(dst, r.Name, r.Secret)
	}
	panic("protocol: AppendRequest with op " + r.Op.String())
}
