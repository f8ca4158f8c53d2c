package policycmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/policycheck"
	"spendgate/cmd/spendgate/policyfile"
)

func policiesLint(flags *flag.FlagSet) cli.Action {
	path := fileFlag(flags)
	strict := flags.Bool("strict", false, "fail for warnings, too")
	return func(_ context.Context, p cli.Process, _ []string) error {
		if *path == "" {
			return cli.UsageError{Text: "needs -f FILE"}
		}
		policies, err := policyfile.Read(*path, p.Stdin)
		found, err := policycheck.Unreadable(err)
		if err != nil {
			return fmt.Errorf("cannot read policies: %w", err)
		}
		found = append(found, policycheck.Lint(policies)...)
		if err := printFindings(p.Stdout, found); err != nil {
			return err
		}
		faults, warnings := 0, 0
		for _, f := range found {
			if f.Warning {
				warnings++
			} else {
				faults++
			}
		}
		if faults > 0 || *strict && warnings > 0 {
			return fmt.Errorf("%d faults and %d warnings", faults, warnings)
		}
		return nil
	}
}

func policiesTest(flags *flag.FlagSet) cli.Action {
	path := fileFlag(flags)
	return func(_ context.Context, p cli.Process, args []string) error {
		if *path == "" || len(args) == 0 {
			return cli.UsageError{Text: "needs -f FILE and at least one file or folder of CASES"}
		}
		if *path == "-" && slices.Contains(args, "-") {
			return cli.UsageError{Text: "standard input cannot be both the policies and the cases"}
		}
		policies, err := readPolicies(p, *path)
		if err != nil {
			return err
		}
		var suites []policyfile.Policy
		for _, arg := range args {
			more, err := policyfile.Read(arg, p.Stdin)
			if err != nil {
				return fmt.Errorf("cannot read cases: %w", err)
			}
			suites = append(suites, more...)
		}
		cases, wrong := policycheck.Test(policies, suites)
		if err := printFindings(p.Stdout, wrong); err != nil {
			return err
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%d failures; %d cases were judged", len(wrong), cases)
		}
		_, err = fmt.Fprintf(p.Stdout, "%d cases passed\n", cases)
		return err
	}
}

func printFindings(w io.Writer, found []policycheck.Finding) error {
	var failed error
	for _, f := range found {
		_, err := fmt.Fprintln(w, spend.Printable(f.String()))
		failed = errors.Join(failed, err)
	}
	return failed
}
