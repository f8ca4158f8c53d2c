package apicmd

import "testing"

// The values of metadata have types: of those that look alike each is a counter of its own.
func TestPerText(t *testing.T) {
	for _, c := range []struct {
		name, want string
		value      any
	}{
		{"metadata.e", `metadata.e=5`, 5.0},
		{"metadata.e", `metadata.e="5"`, "5"},
		{"metadata.e", `metadata.e=" e1 "`, " e1 "},
		{"metadata.e", `metadata.e=e1`, "e1"},
		{"agent_id", `agent_id=5`, "5"},
	} {
		if got := perText(map[string]any{c.name: c.value}); got != c.want {
			t.Errorf("%#v: %s, want %s", c.value, got, c.want)
		}
	}
}
