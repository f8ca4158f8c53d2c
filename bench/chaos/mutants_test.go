package main

import (
	"path/filepath"
	"testing"

	"spendgate/bench/fleet"
)

// Every mutant says what it breaks and still applies to the source: one that
// does not proves nothing.
func TestMutantsApply(t *testing.T) {
	paths, err := filepath.Glob("testdata/mutants/*.patch")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no mutants: %v", err)
	}
	root, err := fleet.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		m, err := readMutant(path)
		if err != nil {
			t.Error(err)
			continue
		}
		patch, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.apply(t.Context(), root, patch, "--check"); err != nil {
			t.Error(err)
		}
	}
}
