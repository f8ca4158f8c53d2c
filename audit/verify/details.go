package verify

import (
	"encoding/json"
	"slices"
)

// said are the members of a JSON object by their exact names: a struct would also accept names in
// other letter case, which nothing else here does.
type said map[string]json.RawMessage

// saidIn parses a text; the result is nil if it is not a JSON object. Details of changes that are
// not objects have a finding of their own.
func saidIn[T string | json.RawMessage](text T) (s said) {
	_ = json.Unmarshal([]byte(text), &s)
	return s
}

// member returns a member of type T; the zero value if it is missing or has another type.
func member[T any](s said, name string) T {
	var value, none T
	if json.Unmarshal(s[name], &value) != nil {
		return none
	}
	return value
}

// groups returns the names of groups; none unless all are text.
func (s said) groups() (names []string) {
	all := member[[]*string](s, "groups")
	if slices.Contains(all, nil) {
		return nil
	}
	for _, name := range all {
		names = append(names, *name)
	}
	return names
}
