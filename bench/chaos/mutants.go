package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"spendgate/bench/chaos/judge"
	"spendgate/bench/fleet"
)

// mutant is a way to break the service, as a patch.
type mutant struct {
	path   string
	name   string
	what   string
	rule   string // the number of the broken guarantee
	faults string // a pattern of the faults that provoke the bug
}

// readMutant reads a patch: a line that says what it does, then the rule and
// the faults, then the differences.
func readMutant(path string) (mutant, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return mutant{}, fmt.Errorf("cannot read a mutant: %w", err)
	}
	head, _, _ := strings.Cut(string(content), "\n\n")
	lines := strings.Split(head, "\n")
	m := mutant{path: path, name: strings.TrimSuffix(filepath.Base(path), ".patch"), what: lines[0]}
	for _, line := range lines[1:] {
		switch name, value, _ := strings.Cut(line, ": "); name {
		case "rule":
			m.rule = value
		case "faults":
			m.faults = value
		}
	}
	if m.what == "" || m.rule == "" {
		return mutant{}, fmt.Errorf("%s does not say what it breaks", path)
	}
	return m, nil
}

// mutantRounds is the number of rounds within which a mutant must be detected.
const mutantRounds = 3

var errUndetected = errors.New("mutants were not detected")

// runMutants runs rounds against each mutant until it is detected, and prints
// what detected it.
func runMutants(ctx context.Context, o options, out io.Writer) error {
	paths, err := filepath.Glob(o.mutants)
	if err != nil {
		return fmt.Errorf("cannot look for mutants by %q: %w", o.mutants, err)
	}
	if len(paths) == 0 {
		return fmt.Errorf("no mutants match %q", o.mutants)
	}
	var undetected []string
	for _, path := range paths {
		m, err := readMutant(path)
		if err != nil {
			return err
		}
		caught, err := m.run(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if !slices.Contains(slices.Collect(maps.Keys(caught)), m.rule) {
			undetected = append(undetected, m.name)
		}
		if _, err := fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", m.name, m.what, m.rule, rules(caught)); err != nil {
			return err
		}
	}
	if len(undetected) > 0 {
		return fmt.Errorf("%w: %s", errUndetected, strings.Join(undetected, ", "))
	}
	return nil
}

// rules lists how often each rule was violated, most often first.
func rules(caught map[string]int) string {
	if len(caught) == 0 {
		return "nothing"
	}
	names := slices.SortedFunc(maps.Keys(caught), func(a, b string) int { return cmp.Compare(caught[b], caught[a]) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", name, caught[name])
	}
	return strings.Join(names, ", ")
}

// run returns how often a mutant violated each rule.
func (m mutant) run(ctx context.Context, o options) (map[string]int, error) {
	dir, err := os.MkdirTemp("", "spendgate-mutant-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder for a mutant: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	if err := m.copyTo(ctx, dir); err != nil {
		return nil, err
	}
	binary, err := fleet.Build(ctx, dir, fleet.BuildOptions{Module: dir})
	if err != nil {
		return nil, err
	}
	caught := make(map[string]int)
	for i := range mutantRounds {
		o.seed, o.faults = o.seed+uint64(i), m.faults
		h, logs, err := round(ctx, binary, o)
		if err != nil {
			return nil, err
		}
		findings, err := judge.Judge(h)
		if err := errors.Join(err, os.Remove(logs)); err != nil {
			return nil, err
		}
		for _, f := range findings {
			caught[f.Rule]++
		}
		if caught[m.rule] > 0 {
			break
		}
	}
	return caught, nil
}

// copyTo copies the module to dir and patches the copy.
func (m mutant) copyTo(ctx context.Context, dir string) error {
	root, err := fleet.ModuleRoot()
	if err != nil {
		return err
	}
	patch, err := filepath.Abs(m.path)
	if err != nil {
		return fmt.Errorf("cannot find a mutant: %w", err)
	}
	// A module is built from these alone; other files may be large.
	for _, part := range []string{"go.mod", "go.sum", "audit", "bench", "cmd", "config", "deploy", "hotpath", "ratelimit"} {
		from, to := filepath.Join(root, part), filepath.Join(dir, part)
		if info, err := os.Stat(from); err != nil {
			return fmt.Errorf("cannot copy the module: %w", err)
		} else if info.IsDir() {
			err = os.CopyFS(to, os.DirFS(from))
			if err != nil {
				return fmt.Errorf("cannot copy the module: %w", err)
			}
			continue
		}
		content, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, content, 0o600)
		}
		if err != nil {
			return fmt.Errorf("cannot copy the module: %w", err)
		}
	}
	return m.apply(ctx, dir, patch)
}

// apply patches the module in dir. Hunks may have moved, but not changed.
func (m mutant) apply(ctx context.Context, dir, patch string, flags ...string) error {
	apply := exec.CommandContext(ctx, "git", append(append([]string{"apply", "-C1"}, flags...), patch)...)
	apply.Dir = dir
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if output, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot apply %s, which has to be made anew: %w\n%s", m.path, err, bytes.TrimSpace(output))
	}
	return nil
}
