package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// ReadOnly returns the members that the API adds to a policy and refuses in requests.
func ReadOnly() []string {
	return []string{"version", "created_at", "updated_at", "author", "drafted_by", "approved_by", "forced"}
}

// WithoutReadOnly returns the policy without the members that the API adds, and the names of the
// removed members.
func (p Policy) WithoutReadOnly() (sent Policy, dropped []string) {
	sent, err := p.edited(func(name string) bool {
		if slices.Contains(ReadOnly(), name) {
			dropped = append(dropped, name)
			return false
		}
		return true
	}, "", nil)
	if err != nil || dropped == nil {
		return p, nil // the API reports what is wrong with the body
	}
	return sent, dropped
}

// Has reports whether the policy has a member with that name.
func (p Policy) Has(name string) (has bool) {
	_, _ = p.edited(func(other string) bool { has = has || other == name; return true }, "", nil) // a body that is no object has no members
	return has
}

// With returns the policy with the member set to value.
func (p Policy) With(name string, value any) (Policy, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return p, err
	}
	return p.edited(func(other string) bool { return other != name }, name, text)
}

// Without returns the policy without the member.
func (p Policy) Without(name string) (Policy, error) {
	return p.edited(func(other string) bool { return other != name }, "", nil)
}

// edited copies the members that keep accepts, unchanged, and adds one unless its name is empty.
func (p Policy) edited(keep func(name string) bool, added string, value []byte) (Policy, error) {
	d := jsontext.NewDecoder(bytes.NewReader(p.Body))
	if token, err := d.ReadToken(); err != nil || token.Kind() != jsontext.KindBeginObject {
		return p, errors.Join(err, errors.New("not a JSON object"))
	}
	out := []byte{'{'}
	member := func(name string, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, name)
		out = append(append(out, ':'), value...)
	}
	for d.PeekKind() == jsontext.KindString {
		token, err := d.ReadToken()
		if err != nil {
			return p, err
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return p, err
		}
		if keep(name) {
			member(name, value)
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return p, err
	}
	if added != "" {
		member(added, value)
	}
	p.Body = append(out, '}')
	return p, nil
}
