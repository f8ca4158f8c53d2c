// Package policycheck checks policies in files without a node: faults that the API
// would refuse, legal rules that are probably not meant, and the decisions about
// given actions.
package policycheck

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/policyfile"
	"spendgate/hotpath/httpapi"
	"spendgate/hotpath/policy"
)

// Finding is what was found at a place in a file.
type Finding struct {
	File    string
	Line    int // 0 if the finding has no line of its own
	Text    string
	Warning bool // the API would accept it
}

// String returns "file:line: text", as compilers write.
func (f Finding) String() string {
	place, kind := f.File, ""
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	if f.Warning {
		kind = "warning: "
	}
	return place + ": " + kind + f.Text
}

// Lint returns everything in the policies that the API would refuse, and warnings, by file and
// line.
func Lint(policies []policyfile.Policy) []Finding {
	var found []Finding
	for _, p := range policies {
		found = append(found, lint(p)...)
	}
	twice, _ := Unreadable(policyfile.CheckUnique(policies))
	found = append(found, twice...)
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
	return found
}

func lint(p policyfile.Policy) (found []Finding) {
	add := func(faults spend.Faults, warning bool) {
		for _, f := range faults {
			found = append(found, Finding{p.File, p.Line(f.Path), f.Path + " " + f.Problem, warning})
		}
	}
	warn := func(name, problem string) {
		found = append(found, Finding{p.File, p.Line(name), name + " " + problem, true})
	}
	p, dropped := p.WithoutReadOnly()
	for _, name := range dropped {
		warn(name, "is not sent: only the server says it")
	}
	if p.Has("drop_budgets") { // each time the file is applied, the budgets would be emptied again
		warn("drop_budgets", "empties budgets with every version that ends them: give it to apply, as --drop-budget")
	}
	read, err := httpapi.ReadPolicy(p.Body)
	faults, only := errors.AsType[spend.Faults](err)
	if err != nil && !only {
		return []Finding{{p.File, p.Line(""), err.Error(), false}}
	}
	policy.Compile(read.PolicyID, 0, read.Rules, &faults)
	policy.CompileChanges(read.Changes, &faults)
	add(faults, false)
	add(policy.Warnings(read.Rules), true)
	if p.ID() == "" {
		found = append(found, Finding{p.File, p.Line(""), "has no policy_id: each apply makes another policy", true})
	}
	return found
}

// Unreadable returns a finding for each fault of files that err lists, or err itself if it is
// another error.
func Unreadable(err error) (found []Finding, other error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			more, err := Unreadable(one)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
		return found, nil
	}
	file, ok := errors.AsType[*policyfile.FileError](err)
	if !ok {
		return nil, err
	}
	for _, f := range file.Faults {
		found = append(found, Finding{file.File, f.Line, f.Text, false})
	}
	return found, nil
}
