package violations

import (
	"os"
	"strings"
	"testing"

	"spendgate/bench/load"
)

// The page shows what the command prints on the results beside it.
func TestPageShowsTheResults(t *testing.T) {
	var printed strings.Builder
	if err := Run(t.Context(), load.NewCall("violations", []string{"-table", "-results", "../../results"}, &printed, "")); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/operate/capacity.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```text\n"+printed.String()+"```\n") {
		t.Errorf("docs/operate/capacity.md does not show what go run ./bench/measure violations -table prints:\n%s", printed.String())
	}
}
