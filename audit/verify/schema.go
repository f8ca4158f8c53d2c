package verify

import (
	"context"
	"slices"
	"strings"
	"time"
)

// anyDay stands for any day in the names of objects that the migrations make.
const anyDay = "checks_DAY"

// schema compares the objects on which the guarantees rest with what the migrations make: disabled
// triggers or a missing index change no row.
func (v *verifier) schema(ctx context.Context) error {
	if v.o.Leaving != nil {
		return nil
	}
	found, made, err := v.o.Evidence.Schema(ctx)
	if err != nil {
		return err
	}
	expected := make(map[string][]string)
	overloaded := make(map[string]bool)
	for _, o := range made {
		if name, _, is := strings.Cut(o.Name, "("); is {
			overloaded[name] = true
		}
		if !strings.Contains(o.Name, anyDay) {
			expected[o.Name] = append(expected[o.Name], o.Definition)
			continue
		}
		for day := range v.overview.Days {
			table := "checks_" + time.Unix(int64(day)*86400, 0).UTC().Format("20060102")
			name := strings.ReplaceAll(o.Name, anyDay, table)
			expected[name] = append(expected[name], o.Definition)
		}
	}
	for _, o := range found {
		wanted, is := expected[o.Name]
		i := slices.Index(wanted, o.Definition)
		switch kind, rest, _ := strings.Cut(o.Name, " "); {
		case i >= 0:
			expected[o.Name] = slices.Delete(wanted, i, i+1)
		case len(wanted) > 0:
			v.tally.find(Altered, o.Name, "it is %q, and was made as %q", o.Definition, wanted[0])
			expected[o.Name] = wanted[1:]
		case is, kind == "trigger", kind == "default", kind == "constraint", kind == "unique", kind == "setting":
			v.tally.find(Inserted, o.Name, "no migration makes it: %s", o.Definition)
		case kind == "function" && overloaded["function "+rest[:strings.Index(rest, "(")]]:
			v.tally.find(Inserted, o.Name, "no migration makes it, and it has the name of one that a migration makes")
		}
	}
	for name, left := range expected {
		if len(left) > 0 && !strings.HasPrefix(name, "trigger closed on ") {
			v.tally.find(Removed, name, "the migrations make it")
		}
	}
	return nil
}
