package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"spendgate/audit/postgres"
	"spendgate/audit/verify"
	"spendgate/config"
)

func auditDetachCommand() command {
	return command{
		name: "detach", summary: "archive old days of checks, or months of violations, and take them out of the database", setup: auditDetach,
		details: "Needs the URL of the tables' owner in SPENDGATE_DATABASE_URL. Each day is written to DIR as compressed JSON lines with a\n" +
			"manifest, and goes only when the archive was compared with the chain. Refuses days that are still needed. Interrupted,\n" +
			"run it again. GET answers check_not_found for what is archived.\n\n" +
			"With --violations it takes out months of violations, all of whose days of checks were detached and have their archives\n" +
			"in DIR: each violation is compared with its check there. They are neither listed nor counted from then on; how many of\n" +
			"each kind there were stays in the database.",
	}
}

func auditDetach(flags *flag.FlagSet) action {
	before := flags.String("before", "", "days, or months that end, before this `DATE`, which stays (required)")
	dir := flags.String("to", "", "write the archives to `DIR`, which must be there (required)")
	violations := flags.Bool("violations", false, "take out months of violations, instead of days of checks")
	dryRun := flags.Bool("dry-run", false, "tell what would be done")
	drop := flags.Bool("drop", false,
		"drop the tables of detached days, instead of leaving them for you to drop; delete the rows of detached months")
	return func(ctx context.Context, p process, _ []string) error {
		if *before == "" || *dir == "" {
			return usageError{text: "needs --before DATE and --to DIR"}
		}
		date, err := time.Parse(time.DateOnly, *before)
		if err != nil {
			return usageError{text: "--before must be a date, such as 2026-03-01"}
		}
		if info, err := os.Stat(*dir); err != nil || !info.IsDir() {
			return fmt.Errorf("--to: %s %w", *dir, errNoFolder)
		}
		c, err := p.load(config.Audit)
		if err != nil {
			return err
		}
		detach, period, noun := postgres.Detach, "day", "checks"
		if *violations {
			detach, period, noun = postgres.DetachViolations, "month", "violations"
		}
		parts := 0
		err = detach(ctx, postgres.DetachOptions{
			URL: string(c.DatabaseURL), Dir: *dir, Before: date, DryRun: *dryRun, Drop: *drop, Now: time.Now(),
			Report: func(d postgres.Detached) {
				parts++
				fmt.Fprintf(p.stdout, "%s: %s%s\n", d.Part, strings.Join(d.Steps, ", "), rowCount(d.Rows, noun)) //nolint:errcheck // the work is done
			},
			Found: func(f verify.Finding) { fmt.Fprintln(p.stdout, f) }, //nolint:errcheck // the error tells that there are some
		})
		if err != nil {
			return err
		}
		if parts == 0 {
			_, err = fmt.Fprintf(p.stdout, "no %s before %s is left to detach\n", period, *before)
		}
		return err
	}
}

var errNoFolder = errors.New("must be a folder that is there")

func rowCount(rows int64, noun string) string {
	if rows == 0 {
		return ""
	}
	return fmt.Sprintf(", %d %s", rows, noun)
}
