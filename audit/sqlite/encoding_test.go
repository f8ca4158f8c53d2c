package sqlite

import (
	"testing"

	"spendgate/audit/chain"
)

// TestColumnsHaveForms: a column without its form ends the program when it starts.
func TestColumnsHaveForms(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a column without a form is accepted")
		}
	}()
	newEncoding("drafts", chain.DraftColumns(), draftRows.forms[1:]...)
}
