package verify

import (
	"encoding/json"
	"slices"
)

// said are the members of a JSON object by their names as they are: a struct would take those in
// other letters, which nothing else here reads.
type said map[string]json.RawMessage

// saidIn returns what a text says; nothing where that is no object. Of the details of a change
// that tells: they are named.
func saidIn(text []byte) (s said) {
	_ = json.Unmarshal(text, &s)
	return s
}

// member returns a member that is of that type; the zero value of any other, or without one.
func member[T any](s said, name string) T {
	var value, none T
	if json.Unmarshal(s[name], &value) != nil {
		return none
	}
	return value
}

// groups are the names of groups; none unless all are text.
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
