package verify

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/archive"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// Month is a UTC month, counted from the year 0.
type Month int64

// MonthOf is the month of a time.
func MonthOf(at time.Time) Month {
	at = at.UTC()
	return Month(int64(at.Year())*12 + int64(at.Month()) - 1)
}

// Time is the beginning of the month.
func (m Month) Time() time.Time { return time.Date(0, time.Month(m+1), 1, 0, 0, 0, 0, time.UTC) }

// String is the month's year and number.
func (m Month) String() string { return m.Time().Format("2006-01") }

// end is the millisecond at which the next month begins.
func (m Month) end() int64 { return (m + 1).Time().UnixMilli() }

// Range is the month's range of identifiers.
func (m Month) Range() Range {
	return Range{audit.FirstID(m.Time().UnixMilli()), audit.LastID(m.end() - 1)}
}

// ArchivedMonth is a month whose violations are in an archive.
type ArchivedMonth struct {
	ArchiveNote
	Kinds [len(kinds)]int64 // the number of violations of each kind
}

// kinds are the letters of action type and decision, in the order of the columns of
// archived_violations.
var kinds = [...]string{"rb", "re", "cb", "ce", "db", "de", "sb", "se"}

// archivedMonths lists the archived months that overlap a range, oldest first.
func (v *verifier) archivedMonths(r Range) (all []Month) {
	for month := range v.overview.Months {
		all = append(all, month)
	}
	if v.o.Leaving != nil {
		if at, err := time.Parse("2006-01", v.o.Leaving.Month); err == nil {
			all = append(all, MonthOf(at))
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(m Month) bool {
		return less(r.High, m.Range().Low) || less(m.Range().High, r.Low)
	})
}

// archivedMonth compares the part of a range in one month whose violations are archived. The
// archive can only be read sequentially, so one worker has all of it.
func (v *verifier) archivedMonth(ctx context.Context, month Month, r Range) error {
	c := &copies{verifier: v}
	a := v.o.Leaving
	if !v.leavingMonth(month) {
		var err error
		if a, err = v.open(archive.ViolationsOf(month.Time()), v.overview.Months[month].ArchiveNote, "month", "violations"); err != nil {
			return err
		}
	}
	if c.unread = a == nil; !c.unread {
		c.rows, c.archived = a.Rows, readArchive(c.counting(a.All()), month.Range(), "month")
		defer c.stop()
	}
	err := v.cut(ctx, r, func(part Range) error {
		err := v.slice(ctx, part, c)
		c.pass(part.High)
		return err
	})
	if err != nil {
		return err
	}
	c.unlisted(r.High)
	c.pass(audit.MaxID()) // to the end: only there is it known whether the files are complete
	switch noted, is := v.overview.Months[month]; {
	case errors.Is(c.failed, archive.ErrAltered):
		v.tally.find(Altered, archiveName(month), "%v", c.failed)
	case errors.Is(c.failed, fs.ErrNotExist) && !v.leavingMonth(month):
		v.tally.find(Unchecked, "month "+month.String(), "%s is not there; its manifest is", a.Path())
	case c.failed != nil:
		return c.failed
	case is && !c.unread && c.kinds != noted.Kinds:
		v.tally.find(Altered, "month "+month.String(), "its archive has not as many violations of each kind as the database says")
	}
	return nil
}

func (v *verifier) leavingMonth(m Month) bool {
	return v.o.Leaving != nil && v.o.Leaving.Month == m.String()
}

// loadViolations reads violations from the database, or from an archive. Archived violations that
// are still in the database must be in the archive.
func (s *slice) loadViolations(ctx context.Context) error {
	stored, err := s.copiesOf(ctx, func(ctx context.Context, r Range, each func([]byte) error) error {
		return s.o.Evidence.Walk(ctx, Violations(r), each)
	})
	s.tally.storedViolations.Add(int64(len(stored)))
	if s.copies == nil || err != nil {
		s.violations = stored
		s.tally.violations.Add(int64(len(stored)))
		return err
	}
	kept, err := s.copiesOf(ctx, s.copies.Violations)
	if s.copies.unread || err != nil {
		return err
	}
	s.violations = kept
	s.tally.violations.Add(int64(len(kept)))
	rest := kept
	for _, one := range stored {
		for len(rest) > 0 && less(rest[0].id, one.id) {
			rest = rest[1:]
		}
		if len(rest) == 0 || rest[0] != one {
			s.tally.find(Inserted, violationName(one.id), "its month was archived without it as it is here")
		}
	}
	return err
}

func (s *slice) copiesOf(ctx context.Context, read func(context.Context, Range, func([]byte) error) error) (all []copied, err error) {
	err = read(ctx, s.r, func(row []byte) error {
		var err error
		if s.fields, err = chain.ParseRow(s.fields[:0], row); err == nil {
			all = append(all, copied{spend.ID(s.fields[0]), chain.HashCopy(row)})
		}
		return err
	})
	return all, err
}

// copies are the violations of an archive, requested in order.
type copies struct {
	*archived
	verifier *verifier
	unread   bool  // there is no archive that can be compared
	failed   error // the archive's fault
	rows     int64 // noted by the database
	read     int64
	kinds    [len(kinds)]int64
}

// Violations implements Rows, and names the violations before the range that were not compared with
// anything.
func (c *copies) Violations(ctx context.Context, r Range, each func(row []byte) error) error {
	c.unlisted(r.Low.Previous())
	if c.unread {
		return nil
	}
	c.fail(c.Rows(ctx, r, each))
	return nil
}

// fail notes a fault of the archive, as distinct from a fault of a day's archive, and ends the
// comparison unless all rows were read.
func (c *copies) fail(err error) {
	if err != nil {
		c.failed, c.unread = err, c.read < c.rows
	}
}

// unlisted names the violations up to an identifier, in a stretch without checks and batches.
func (c *copies) unlisted(high spend.ID) {
	c.each(high, func(id spend.ID) {
		if !less(id, c.verifier.all.Low) {
			c.verifier.tally.find(Inserted, violationName(id), "it has no check, and no batch lists one")
		}
	})
}

// pass skips the violations up to an identifier, as for a day whose archive is absent.
func (c *copies) pass(high spend.ID) { c.each(high, func(spend.ID) {}) }

func (c *copies) each(high spend.ID, visit func(id spend.ID)) {
	for !c.unread {
		more, err := c.fetch()
		if err != nil || !more || less(high, c.id) {
			c.fail(err)
			return
		}
		c.row = nil
		visit(c.id)
	}
}

// counting counts the yielded rows by kind.
func (c *copies) counting(all iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var fields [][]byte
		for row, err := range all {
			if err == nil {
				c.read++
				if fields, err = chain.ParseRow(fields[:0], row); err == nil {
					if i := slices.Index(kinds[:], string(fields[3])+string(fields[4])); i >= 0 {
						c.kinds[i]++
					}
				}
			}
			if !yield(row, err) {
				return
			}
		}
	}
}
