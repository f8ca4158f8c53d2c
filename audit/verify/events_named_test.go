package verify

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"spendgate/audit"
)

// TestSourcesHaveNames has a name for what every type of events is about.
func TestSourcesHaveNames(t *testing.T) {
	t.Parallel()
	for _, of := range audit.EventTypes() {
		if int(of.Source()) >= len(sourceNames) || sourceNames[of.Source()] == nil {
			t.Errorf("what %s is about has no name", of)
		}
	}
}

// TestStrangerOrdersChanges compares the types that verify.py takes for events of changes, whose order
// it checks.
func TestStrangerOrdersChanges(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile("../../deploy/audit/verify.py")
	if err != nil {
		t.Fatal(err)
	}
	var letters string
	for _, of := range audit.EventTypes() {
		if of.Source() == audit.SourceChange {
			letters += string(of.Letter())
		}
	}
	if want := fmt.Sprintf("\nOF_CHANGES = %q ", letters); !strings.Contains(string(program), want) {
		t.Errorf("it does not have%s", want)
	}
}
