package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

func TestCanonical(t *testing.T) {
	for value, want := range map[string]string{
		`{"b":1.0,"a":[ true,null,"\u0041" ]}`:              `{"a":[true,null,"A"],"b":1}`,
		`[100,1e2,0.10,-0.0,-5e-1,12345678901234567890123]`: `[1e2,1e2,1e-1,0,-5e-1,12345678901234567890123]`,
		`{"a":1,"a":2}`: "error", `"\ud800"`: "error", `1 2`: "error", `{`: "error",
	} {
		got, err := canonical(jsontext.Value(value))
		if err != nil {
			got = []byte("error")
		}
		if string(got) != want {
			t.Errorf("%s: %s", value, got)
		}
	}
}

// An object with very many members is read quickly, and names that programs could confuse
// are refused in it, too.
func TestManyMembers(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"Name":1`)
	for i := range 100_000 {
		fmt.Fprintf(&b, `,"a%d":1`, i)
	}
	started := time.Now()
	if o, err := parseObject(jsontext.Value(b.String() + "}")); err != nil || len(o) != 100_001 || time.Since(started) > 10*time.Second {
		t.Error(len(o), err, time.Since(started))
	}
	for _, name := range []string{"name", "Name", "A7", "\u212a"} {
		text := b.String() + `,"K":1,"` + name + `":1}`
		if _, err := parseObject(jsontext.Value(text)); err == nil {
			t.Errorf("%q is no other name", name)
		}
	}
}
