package auditcmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"spendgate/audit/checkpoint"
	"spendgate/audit/postgres/detach"
	"spendgate/audit/verify"
	"spendgate/cmd/spendgate/cli"
	"spendgate/config"
)

func auditDetachCommand() cli.Command {
	return cli.Command{
		Name: "detach", Summary: "archive old days of checks, or months of violations, and take them out of the database", Setup: auditDetach,
		Details: "Needs the URL of the tables' owner in SPENDGATE_DATABASE_URL. Each day is written to DIR as compressed JSON lines with a\n" +
			"manifest, and goes only when the archive was compared with the chain. Refuses days that are still needed. Interrupted,\n" +
			"run it again. GET answers check_not_found for what is archived.\n\n" +
			"With --violations it takes out months of violations, all of whose days of checks were detached and have their archives\n" +
			"in DIR: each violation is compared with its check there. They are neither listed nor counted from then on; how many of\n" +
			"each kind there were stays in the database.\n\n" +
			"With --fold the batches of the hash chains, and the notes and references of outcomes, leave for archives in DIR, too, once all\n" +
			"that they list was detached: chain by chain from the first on, but for the last. Signed with SPENDGATE_CHECKPOINT_KEY.",
	}
}

func auditDetach(flags *flag.FlagSet) cli.Action {
	before := flags.String("before", "", "days, or months that end, before this `DATE`, which stays (required)")
	dir := flags.String("archive", "", "write the archives to `DIR`, which must be there (required)")
	violations := flags.Bool("violations", false, "take out months of violations, instead of days of checks")
	fold := flags.Bool("fold", false, "take out what the hash chains have of detached days, too")
	dryRun := flags.Bool("dry-run", false, "tell what would be done")
	drop := flags.Bool("drop", false,
		"drop the tables of detached days, instead of leaving them for you to drop; delete the rows of detached months")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		if *before == "" || *dir == "" {
			return cli.UsageError{Text: "needs --before DATE and --archive DIR"}
		}
		date, err := time.Parse(time.DateOnly, *before)
		if err != nil {
			return cli.UsageError{Text: "--before must be a date, such as 2026-03-01"}
		}
		if info, err := os.Stat(*dir); err != nil || !info.IsDir() {
			return fmt.Errorf("--archive: %s %w", *dir, errNoFolder)
		}
		c, err := p.Load(config.Audit)
		if err != nil {
			return err
		}
		run, period := detach.Checks, "day"
		if *violations {
			run, period = detach.Violations, "month"
		}
		var key checkpoint.Key
		if *fold {
			if key, err = foldKey(c, *violations); err != nil {
				return err
			}
		}
		parts := 0
		err = run(ctx, detach.Options{
			URL: string(c.DatabaseURL), Dir: *dir, Before: date, DryRun: *dryRun, Drop: *drop, Now: time.Now(), Fold: *fold, Key: key,
			Report: func(d detach.Detached) {
				parts++
				//nolint:errcheck // the work is done
				fmt.Fprintf(p.Stdout, "%s: %s%s\n", d.Part, strings.Join(d.Steps, ", "), rowCount(d.Rows, d.Part.Table()))
			},
			Found: func(f verify.Finding) { fmt.Fprintln(p.Stdout, f) },                  //nolint:errcheck // the error says that there are some
			Left:  func(u detach.NotFolded) { fmt.Fprintln(p.Stdout, left(u, *before)) }, //nolint:errcheck // as above
		})
		if err != nil {
			return err
		}
		if parts == 0 {
			_, err = fmt.Fprintf(p.Stdout, "no %s before %s is left to detach\n", period, *before)
		}
		return err
	}
}

// foldKey returns the key that signs folded chains.
func foldKey(c config.Config, violations bool) (key checkpoint.Key, err error) {
	switch {
	case violations:
		return key, cli.UsageError{Text: "--fold goes with days of checks, not with --violations"}
	case c.Checkpoints.Key == "":
		return key, errors.New("--fold needs SPENDGATE_CHECKPOINT_KEY, which signs what leaves")
	}
	return checkpoint.NewKey([]byte(c.Checkpoints.Key))
}

// left says why some batches were not detached.
func left(u detach.NotFolded, before string) string {
	return fmt.Sprintf("%d batches that list nothing from %s on stay: %d are the last of their chains, and %d follow one that lists "+
		"something which is not detached", u.Last+u.Behind, before, u.Last, u.Behind)
}

var errNoFolder = errors.New("must be a folder that is there")

func rowCount(rows int64, noun string) string {
	if rows == 0 {
		return ""
	}
	return fmt.Sprintf(", %d %s", rows, noun)
}
