package protocol

// Code is an error code of an E answer. Its name is what stands on the wire;
// the numbers are this package's own and may change. Codes come from
// codes.json, which only ever grows (SPEC.md 14.2).
type Code uint8

// CodeUnknown is a code that the registry of this version does not have.
// Treat such an error as one that may have had an effect and is not retried
// (SPEC.md 5.4).
const CodeUnknown Code = 0xFF

type codeInfo struct {
	name     string
	noEffect bool
	retry    bool
	meaning  string
}

func (c Code) info() codeInfo {
	if c == 0 || c >= codeEnd {
		return codeInfo{name: "unknown"}
	}
	return registry[c]
}

// String returns the code's name as it stands on the wire.
func (c Code) String() string { return c.info().name }

// NoEffect reports whether the request that was answered with this code
// definitely changed nothing.
func (c Code) NoEffect() bool { return c.info().noEffect }

// Retry reports whether sending the request again, later or elsewhere, can
// help.
func (c Code) Retry() bool { return c.info().retry }

// Meaning returns one English sentence for people.
func (c Code) Meaning() string { return c.info().meaning }

// Codes returns every code of the registry, in its order.
func Codes() []Code {
	all := make([]Code, 0, codeEnd-1)
	for c := Code(1); c < codeEnd; c++ {
		all = append(all, c)
	}
	return all
}
