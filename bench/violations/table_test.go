package main

import (
	"os"
	"strings"
	"testing"
)

// The page shows what the command prints on the results beside it.
func TestPageShowsTheResults(t *testing.T) {
	var printed strings.Builder
	if err := run(t.Context(), &printed, []string{"-table", "-results", "../results"}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../deploy/CAPACITY.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```text\n"+printed.String()+"```\n") {
		t.Errorf("deploy/CAPACITY.md does not show what go run ./bench/violations -table prints:\n%s", printed.String())
	}
}
