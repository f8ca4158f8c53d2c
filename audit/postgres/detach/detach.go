// Package detach takes days of checks and months of violations out of a fleet's database, into archives.
package detach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"

	"spendgate/audit/archive"
	"spendgate/audit/checkpoint"
	"spendgate/audit/postgres/snapshot"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// Options select what leaves a database: days of checks, or months of violations.
type Options struct {
	URL    string         // of the owner of the tables
	Dir    string         // where the archives are written
	Before time.Time      // 00:00 UTC: days or months that end before this day leave
	DryRun bool           // change and write nothing
	Drop   bool           // also drop the tables or delete the rows of detached days or months, including those of earlier calls
	Now    time.Time      // the time that the archives bear
	Fold   bool           // also fold the batches that list only detached days, including those of earlier calls
	Key    checkpoint.Key // signs the folds

	Report func(Detached)       // is called for each day or month that is done
	Found  func(verify.Finding) // is called with what is wrong with a day or month, which then stays
	Left   func(NotFolded)      // is called at the end with the batches that could not be folded

	// step is called with the name of the next step; tests end the process there.
	step func(string)
	// atOnce bounds a transaction that deletes violations; 0 is deletedAtOnce.
	atOnce int
}

// Detached is what was done with a day or a month, or would be done in a dry run.
type Detached struct {
	Part  archive.Part
	Steps []string // in words: archived, detached, dropped
	Rows  int64    // of the archive; 0 without one
}

// errStillNeeded says that a promise needs a day that was to be detached.
var errStillNeeded = errors.New("still needed")

var errUnpartitioned = errors.New("the default partition has checks of days before that: the runbook, " +
	"SpendgateDefaultPartitionOccupied, says how to give them days of their own")

// Checks archives days of checks and takes their partitions out, oldest first. Each day is closed
// and written to its archive, and the archive is compared with the partition and with the chain,
// before the partition goes. If Detach is interrupted, each day is either attached or has a
// complete archive, and the next call continues.
func Checks(ctx context.Context, o Options) error {
	db, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	if o.step == nil {
		o.step = func(string) {}
	}
	limit, err := db.detachableBefore(ctx)
	if err != nil {
		return err
	}
	if o.Before.After(limit) {
		return fmt.Errorf("days from %s on are %w: by replays of idempotency keys, or by duplicate windows; take --before %s or earlier",
			limit.Format(time.DateOnly), errStillNeeded, limit.Format(time.DateOnly))
	}
	unpartitioned, err := db.unpartitioned(ctx, o.Before)
	if err != nil {
		return err
	}
	if unpartitioned {
		return errUnpartitioned
	}
	all, err := db.before(ctx, o.Before)
	if err != nil {
		return err
	}
	for _, one := range all {
		if !one.attached && (!one.detached || !o.Drop) {
			continue // detached before
		}
		d := detaching{leaving{Options: o, db: db, part: one.part()}, one}
		d.rows = func(ctx context.Context) iter.Seq2[[]byte, error] { return db.rows(ctx, one) }
		if err := d.run(ctx, one.attached, d.leave, d.drop); err != nil {
			return fmt.Errorf("%s stays as it is: %w", one.name(), err)
		}
	}
	if !o.Fold {
		return nil
	}
	return o.fold(ctx, db)
}

// open connects, and keeps others from detaching unless it is a dry run.
func (o Options) open(ctx context.Context) (*days, error) {
	db, err := openDays(ctx, o.URL)
	if err != nil || o.DryRun {
		return db, err
	}
	if err := db.takeTurn(ctx, o.URL); err != nil {
		db.close()
		return nil, err
	}
	return db, nil
}

// leaving is the part of detaching that days of checks and months of violations share.
type leaving struct {
	Options
	db      *days
	part    archive.Part
	rows    func(context.Context) iter.Seq2[[]byte, error] // in the database
	archive *archive.Archive
	done    Detached
}

// run detaches an attached part by calling leave, and drops it by calling drop if that is wanted.
func (l *leaving) run(ctx context.Context, attached bool, leave, drop func(context.Context) error) error {
	l.done.Part = l.part
	if l.DryRun {
		l.Report(planned(l.done, attached, l.Drop))
		return nil
	}
	if attached {
		if err := leave(ctx); err != nil {
			return err
		}
	}
	if l.Drop {
		if err := drop(ctx); err != nil {
			return err
		}
	}
	l.Report(l.done)
	return nil
}

// planned adds the steps that would be taken.
func planned(d Detached, attached, drop bool) Detached {
	if attached {
		d.Steps = append(d.Steps, "to be archived", "to be detached")
	}
	if drop {
		d.Steps = append(d.Steps, "to be dropped")
	}
	return d
}

// prove writes the archive, unless an interrupted call has left one, and verifies it against the
// database's rows and the chain, as `audit verify` will.
func (l *leaving) prove(ctx context.Context, v verify.Options) (err error) {
	l.step("archive")
	if l.archive, err = archive.Open(l.Dir, l.part); errors.Is(err, fs.ErrNotExist) {
		l.archive, err = l.write(ctx)
	}
	if err != nil {
		return err
	}
	l.done.Steps, l.done.Rows = append(l.done.Steps, "archived"), l.archive.Rows
	l.step("compare")
	if err := compare(l.archive, l.rows(ctx)); err != nil {
		return err
	}
	l.step("verify")
	v.Leaving = l.archive
	return l.verify(ctx, v)
}

func (l *leaving) write(ctx context.Context) (*archive.Archive, error) {
	schema, err := l.db.schema(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := archive.Write(l.Dir, l.part, schema, l.Now, l.rows(ctx)); err != nil {
		return nil, err
	}
	l.step("reopen")
	return archive.Open(l.Dir, l.part) // from the disk, as a later verification will
}

// verify fails when there are findings.
func (l *leaving) verify(ctx context.Context, v verify.Options) error {
	moment, err := snapshot.Open(ctx, l.URL, 1)
	if err != nil {
		return err
	}
	defer moment.Close()
	wrong := 0
	v.Evidence, v.Workers, v.Found = moment, 1, func(f verify.Finding) {
		wrong++
		l.Found(f)
	}
	_, err = verify.Verify(ctx, v)
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d findings: what the chain does not prove is not archived", wrong)
	}
	return err
}

// reopen opens the archive with which the part was detached.
func (l *leaving) reopen(manifest spend.Hash) (err error) {
	l.archive, err = archive.Open(l.Dir, l.part)
	if err == nil && l.archive.SHA256 != manifest {
		return fmt.Errorf("%s: %w: it is not the one with which %s was detached", archive.ManifestPath(l.Dir, l.part), archive.ErrAltered, l.part)
	}
	return err
}

// detaching is one day that is being detached.
type detaching struct {
	leaving
	day day
}

// leave archives the day and detaches it.
func (d *detaching) leave(ctx context.Context) error {
	d.step("close")
	if err := d.db.seal(ctx, d.day); err != nil {
		return err
	}
	if err := d.prove(ctx, verify.Options{From: d.day.date, To: d.day.date.AddDate(0, 0, 1).Add(-time.Millisecond)}); err != nil {
		return err
	}
	d.step("detach")
	if err := d.db.detach(ctx, d.day, d.archive.Rows, d.archive.SHA256); err != nil {
		return err
	}
	d.day.manifest = d.archive.SHA256
	d.done.Steps = append(d.done.Steps, "detached")
	return nil
}

// compare checks that an archive has exactly the rows that are to leave, byte by byte.
func compare(a *archive.Archive, rows iter.Seq2[[]byte, error]) error {
	next, stop := iter.Pull2(a.All())
	defer stop()
	for row, err := range rows {
		if err != nil {
			return err
		}
		kept, err, more := next()
		if err != nil {
			return err
		}
		if !more || !bytes.Equal(kept, row) {
			return fmt.Errorf("%s: %w: it is not what the database holds; move it away and run this again", a.Path(), archive.ErrAltered)
		}
	}
	// Read to the end: the file's hashes are known only there.
	_, err, more := next()
	if err == nil && more {
		err = fmt.Errorf("%s: %w: it has more rows than the database; move it away and run this again", a.Path(), archive.ErrAltered)
	}
	return err
}

// drop removes the table, if the archive is still the one that was noted.
func (d *detaching) drop(ctx context.Context) error {
	if err := d.reopen(d.day.manifest); err != nil {
		return err
	}
	d.step("reread")
	if err := compare(d.archive, d.rows(ctx)); err != nil {
		return err
	}
	d.step("drop")
	if err := d.db.drop(ctx, d.day); err != nil {
		return err
	}
	d.done.Steps, d.done.Rows = append(d.done.Steps, "dropped"), d.archive.Rows
	return nil
}
