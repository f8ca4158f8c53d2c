package detach

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"spendgate/audit"
	"spendgate/audit/archive"
	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// deletedAtOnce bounds a transaction that deletes archived violations.
const deletedAtOnce = 1000

// month is a month that has violations in the database.
type month struct {
	begin    time.Time // 00:00 UTC of its first day
	archived bool      // noted as archived
	manifest spend.Hash
}

func (m month) end() time.Time { return m.begin.AddDate(0, 1, 0) }

func (m month) part() archive.Part { return archive.ViolationsOf(m.begin) }

// Violations archives the violations of months and takes them out of lists and counts, oldest
// first. Each month is written to its archive, which is compared with the table and, row by row,
// with the archives of the days' checks, before the month is noted. Rows are deleted afterwards, if
// wanted. If DetachViolations is interrupted, each month is either listed or has a complete
// archive, and the next call continues.
func Violations(ctx context.Context, o Options) error {
	db, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	if o.step == nil {
		o.step = func(string) {}
	}
	if o.atOnce == 0 {
		o.atOnce = deletedAtOnce
	}
	months, err := db.months(ctx, o.Before)
	if err != nil {
		return err
	}
	if !o.DryRun {
		if err := db.trimCounts(ctx); err != nil { // left by an interrupted call
			return err
		}
	}
	for _, one := range months {
		if one.archived && !o.Drop {
			continue // detached before
		}
		if err := o.detachMonth(ctx, db, one); err != nil {
			return fmt.Errorf("%s stays as it is: %w", one.part(), err)
		}
	}
	return nil
}

func (o Options) detachMonth(ctx context.Context, db *days, m month) error {
	if !m.archived {
		if err := db.withoutChecks(ctx, m); err != nil {
			return err
		}
	}
	d := detachingMonth{leaving{Options: o, db: db, part: m.part()}, m}
	d.rows = func(ctx context.Context) iter.Seq2[[]byte, error] { return db.violations(ctx, m) }
	return d.run(ctx, !m.archived, d.leave, d.drop)
}

// detachingMonth is one month of violations that is being detached.
type detachingMonth struct {
	leaving
	month month
}

// leave archives the month and notes that it is archived.
func (d *detachingMonth) leave(ctx context.Context) error {
	d.step("number") // numbering an event reads its violation
	if err := pg.SequenceEvents(ctx, d.db.conn); err != nil {
		return err
	}
	err := d.prove(ctx, verify.Options{From: d.month.begin, To: d.month.end().Add(-time.Millisecond), Archives: d.Dir})
	if err != nil {
		return err
	}
	d.step("detach")
	err = d.db.patiently(ctx, "the violations of "+d.part.String(), defaultPartition, "SELECT detach_violations($1, $2, $3)",
		d.month.begin, d.archive.Rows, d.archive.SHA256[:])
	if err != nil {
		return err
	}
	d.month.manifest = d.archive.SHA256
	d.done.Steps = append(d.done.Steps, "detached")
	d.step("trim")
	return d.db.trimCounts(ctx)
}

// drop deletes the rows, if the archive is still the one that was noted and contains all remaining
// rows.
func (d *detachingMonth) drop(ctx context.Context) (err error) {
	if err := d.reopen(d.month.manifest); err != nil {
		return err
	}
	d.step("reread")
	if err := contains(d.archive, d.rows(ctx)); err != nil {
		return err
	}
	for last, more := (spend.ID{}), true; more; {
		d.step("delete")
		if last, more, err = d.db.deleteViolations(ctx, d.month, last, d.atOnce); err != nil {
			return err
		}
	}
	d.step("vacuum")
	if err := d.db.vacuumViolations(ctx); err != nil {
		return err
	}
	d.done.Steps, d.done.Rows = append(d.done.Steps, "dropped"), d.archive.Rows
	return nil
}

// contains checks that an archive has the rows, byte by byte; it may have more.
func contains(a *archive.Archive, rows iter.Seq2[[]byte, error]) error {
	next, stop := iter.Pull2(rows)
	defer stop()
	row, err, more := next()
	for kept, broken := range a.All() { // to the end: the file's hashes are known only there
		if err = errors.Join(err, broken); err != nil {
			return err
		}
		if more && string(kept) == string(row) {
			row, err, more = next()
		}
	}
	if err == nil && more {
		err = fmt.Errorf("%s: %w: it has not all that the database holds", a.Path(), archive.ErrAltered)
	}
	return err
}

// months lists the months before a date that have violations, oldest first.
func (d *days) months(ctx context.Context, before time.Time) (all []month, err error) {
	const doing = "cannot list the months of violations: %w"
	end := audit.FirstID(time.Date(before.Year(), before.Month(), 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	for from := (spend.ID{}); ; {
		var first spend.ID
		err := d.conn.QueryRow(ctx, "SELECT id FROM violations WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 1", [16]byte(from), [16]byte(end)).
			Scan(pg.UUID(&first))
		if errors.Is(err, pgx.ErrNoRows) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf(doing, err)
		}
		at := first.Time().UTC()
		one := month{begin: time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)}
		var manifest []byte
		err = d.conn.QueryRow(ctx, "SELECT manifest_sha256 FROM archived_violations WHERE month = $1", one.begin).Scan(&manifest)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return nil, fmt.Errorf(doing, err)
		}
		one.archived = err == nil
		copy(one.manifest[:], manifest)
		all, from = append(all, one), audit.FirstID(one.end().UnixMilli())
	}
}

// withoutChecks fails while the database has checks of the month or of days before it.
func (d *days) withoutChecks(ctx context.Context, m month) error {
	all, err := d.before(ctx, m.end())
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.attached {
			return fmt.Errorf("the checks of %s are %w here: detach days before %s first, without --violations", one.name(), errStillNeeded,
				m.end().Format(time.DateOnly))
		}
	}
	unpartitioned, err := d.unpartitioned(ctx, m.end())
	if err == nil && unpartitioned {
		err = errUnpartitioned
	}
	return err
}

// violations reads the violations of a month all of whose days have left.
func (d *days) violations(ctx context.Context, m month) iter.Seq2[[]byte, error] {
	return d.read(ctx, period{"violations", chain.Violations(), m.begin, m.end(), 24 * time.Hour})
}

// trimCounts takes archived violations out of the counts, one agent at a time.
func (d *days) trimCounts(ctx context.Context) error {
	for more := true; more; {
		begun := time.Now()
		if err := d.conn.QueryRow(ctx, "SELECT trim_violation_counts()").Scan(&more); err != nil {
			return fmt.Errorf("cannot take archived violations out of the counts: %w", err)
		}
		if err := pg.Rest(ctx, begun); err != nil {
			return err
		}
	}
	return nil
}

// deleteViolations deletes at most a number of an archived month's violations that follow an ID. It
// returns the last deleted, and reports whether there may be more.
func (d *days) deleteViolations(ctx context.Context, m month, after spend.ID, most int) (last spend.ID, more bool, err error) {
	begun := time.Now()
	var deleted pgtype.UUID
	if err := d.conn.QueryRow(ctx, "SELECT delete_violations($1, $2, $3)", m.begin, [16]byte(after), most).Scan(&deleted); err != nil {
		return last, false, fmt.Errorf("cannot delete violations: %w", err)
	}
	return deleted.Bytes, deleted.Valid, pg.Rest(ctx, begun)
}

// vacuumViolations removes deleted rows from pages and indexes; listings would have to read past
// them. TRUNCATE would stop commits.
func (d *days) vacuumViolations(ctx context.Context) error {
	if _, err := d.conn.Exec(ctx, "VACUUM (TRUNCATE false) violations"); err != nil {
		return fmt.Errorf("cannot vacuum violations: %w", err)
	}
	return nil
}
