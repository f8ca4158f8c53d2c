package main

import (
	"io"
	"path/filepath"
	"testing"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// A pattern without matches and an invalid pattern are different errors.
func TestNoMutants(t *testing.T) {
	for pattern, want := range map[string]string{
		"testdata/mutants/*.none": `no mutants match "testdata/mutants/*.none"`,
		"[":                       `cannot look for mutants by "[": ` + filepath.ErrBadPattern.Error(),
	} {
		if err := runMutants(t.Context(), options{mutants: pattern}, io.Discard); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Every mutant describes what it breaks and still applies to the source.
func TestMutantsApply(t *testing.T) {
	paths, err := filepath.Glob("testdata/mutants/*.patch")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no mutants: %v", err)
	}
	root, err := fleet.ModuleRoot()
	must.Do(t, err)
	for _, path := range paths {
		m, err := readMutant(path)
		if err != nil {
			t.Error(err)
			continue
		}
		patch := must.Get(filepath.Abs(path))(t)
		must.Check(t, m.apply(t.Context(), root, patch, "--check"))
	}
}
