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
		name: "detach", summary: "archive old days of checks and take them out of the database", setup: auditDetach,
		details: "Needs the URL of the tables' owner in SPENDGATE_DATABASE_URL. Each day is written to DIR as compressed JSON lines with a\n" +
			"manifest, and goes only when the archive was compared with the chain. Refuses days that are still needed. Interrupted,\n" +
			"run it again. Violations are never taken out. GET answers check_not_found for what is archived.",
	}
}

func auditDetach(flags *flag.FlagSet) action {
	before := flags.String("before", "", "days before this `DATE`, which stays (required)")
	dir := flags.String("to", "", "write the archives to `DIR`, which must be there (required)")
	dryRun := flags.Bool("dry-run", false, "tell what would be done")
	drop := flags.Bool("drop", false, "drop the tables of detached days, instead of leaving them for you to drop")
	return func(ctx context.Context, p process, args []string) error {
		if *before == "" || *dir == "" || len(args) > 0 {
			return usageError{text: "needs --before DATE and --to DIR, and no arguments"}
		}
		date, err := time.Parse(time.DateOnly, *before)
		if err != nil {
			return usageError{text: "--before must be a date, such as 2026-03-01"}
		}
		if info, err := os.Stat(*dir); err != nil || !info.IsDir() {
			return fmt.Errorf("--to: %w", errors.Join(err, errNoFolder))
		}
		c, err := p.load(config.Audit)
		if err != nil {
			return err
		}
		days := 0
		err = postgres.Detach(ctx, postgres.DetachOptions{
			URL: string(c.DatabaseURL), Dir: *dir, Before: date, DryRun: *dryRun, Drop: *drop, Now: time.Now(),
			Report: func(d postgres.DetachedDay) {
				days++
				fmt.Fprintf(p.stdout, "%s: %s%s\n", d.Date.Format(time.DateOnly), strings.Join(d.Steps, ", "), rowCount(d.Rows)) //nolint:errcheck // the work is done
			},
			Found: func(f verify.Finding) { fmt.Fprintln(p.stdout, f) }, //nolint:errcheck // the error tells that there are some
		})
		if err != nil {
			return err
		}
		if days == 0 {
			_, err = fmt.Fprintf(p.stdout, "no day before %s is left to detach\n", *before)
		}
		return err
	}
}

var errNoFolder = errors.New("must be a folder that is there")

func rowCount(rows int64) string {
	if rows == 0 {
		return ""
	}
	return fmt.Sprintf(", %d checks", rows)
}
