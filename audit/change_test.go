package audit

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"spendgate/bench/must"
)

// Every kind that is declared is one that a command may ask for.
func TestChangeKindsAreAll(t *testing.T) {
	source := must.Get(os.ReadFile("change.go"))(t)
	var declared []ChangeKind
	for _, m := range regexp.MustCompile(`ChangeKind += "([a-z._]+)"`).FindAllStringSubmatch(string(source), -1) {
		declared = append(declared, ChangeKind(m[1]))
	}
	if got := ChangeKinds(); len(declared) == 0 || !slices.Equal(got, declared) {
		t.Errorf("%v, declared are %v", got, declared)
	}
}
