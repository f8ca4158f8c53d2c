package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"

	"spendgate/audit/archive"
	"spendgate/audit/spend"
)

// ArchiveNote is the database's note about an archive: of the checks of a day, or the violations of a
// month.
type ArchiveNote struct {
	Rows     int64
	Manifest spend.Hash // SHA-256 of the archive's manifest
	At       time.Time
}

// describes reports whether the note is about that archive.
func (n ArchiveNote) describes(a *archive.Archive) bool {
	return a.SHA256 == n.Manifest && a.Rows == n.Rows
}

// Time is the beginning of the day.
func (d Day) Time() time.Time { return time.UnixMilli(int64(d) * dayMS).UTC() }

// inArchive reports whether the checks of a day are read from an archive.
func (v *verifier) inArchive(day Day) bool {
	_, noted := v.overview.Archived[day]
	return noted || v.leaving(day)
}

func (v *verifier) leaving(day Day) bool {
	return v.o.Leaving != nil && v.o.Leaving.Day == day.String()
}

// anyInArchive reports whether any day of a range is read from an archive.
func (v *verifier) anyInArchive(r Range) bool {
	for day := range v.overview.Archived {
		if DayOf(r.Low) <= day && day <= DayOf(r.High) {
			return true
		}
	}
	if v.o.Leaving == nil {
		return false
	}
	day, err := time.Parse(time.DateOnly, v.o.Leaving.Day) // fails for a month
	leaving := Day(day.UnixMilli() / dayMS)
	return err == nil && DayOf(r.Low) <= leaving && leaving <= DayOf(r.High)
}

// archivedDay compares the part of a range in one archived day. copies is nil unless the violations
// of its month are archived.
func (v *verifier) archivedDay(ctx context.Context, day Day, r Range, copies *copies) error {
	a, err := v.archiveOf(ctx, day)
	if a == nil || err != nil {
		v.tally.unreadDay(day)
		return err
	}
	rows := readArchive(a.All(), day.Range(), "day")
	defer rows.stop()
	err = v.cutDay(ctx, r, func(part Range) error {
		return (&slice{verifier: v, r: part, copies: copies, texts: make(Texts)}).compare(ctx, rows)
	})
	if err == nil {
		err = rows.drain()
	}
	switch {
	case errors.Is(err, archive.ErrAltered):
		v.tally.find(Altered, archiveName(day), "%v", err)
		v.tally.unreadDay(day)
		return nil
	case errors.Is(err, fs.ErrNotExist) && !v.leaving(day):
		v.tally.unreadDay(day)
		v.tally.find(Unchecked, "day "+day.String(), "%s is not there; its manifest is", a.Path())
		return nil
	}
	return err
}

// archiveOf opens a day's archive. If there is none that can be compared, it reports that and
// returns nil.
func (v *verifier) archiveOf(ctx context.Context, day Day) (*archive.Archive, error) {
	if v.leaving(day) {
		return v.o.Leaving, nil
	}
	noted := v.overview.Archived[day]
	a, err := v.open(archive.ChecksOf(day.Time()), noted, "day", "checks")
	if a == nil || err != nil {
		return nil, err
	}
	if !noted.describes(a) {
		v.tally.unreadDay(day)
	}
	live, err := v.o.Evidence.Weigh(ctx, day.Range())
	if err == nil && live.Rows {
		v.tally.find(Inserted, "day "+day.String(), "it was archived, and the database has checks of it")
	}
	return a, err
}

// open opens an archive that the database notes, and names what is wrong with it. It returns nil if
// there is nothing to compare.
func (v *verifier) open(part archive.Part, noted ArchiveNote, period, rows string) (*archive.Archive, error) {
	name, at := period+" "+part.String(), noted.At.UTC().Format(time.RFC3339)
	if v.o.Archives == "" {
		v.tally.find(Unchecked, name, "its %d %s were archived at %s: give --archive with the folder where they are", noted.Rows, rows, at)
		return nil, nil //nolint:nilnil // nothing to compare, as reported
	}
	a, err := archive.Open(v.o.Archives, part)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.tally.find(Unchecked, name, "its %d %s were archived at %s, and the archive is not in %s", noted.Rows, rows, at, v.o.Archives)
		return nil, nil //nolint:nilnil // as above
	case errors.Is(err, archive.ErrAltered):
		v.tally.find(Altered, archiveName(part), "%v", err)
		return nil, nil //nolint:nilnil // as above
	case err == nil && !noted.describes(a):
		v.tally.find(Altered, archiveName(part), "its manifest is not the one with which the %s was detached", period)
	}
	return a, err
}

func archiveName(part fmt.Stringer) string { return "archive of " + part.String() }

// archived are the rows of an archive, which can only be read sequentially: ranges must be
// requested in order.
type archived struct {
	of     Range
	period string // day, month
	next   func() ([]byte, error, bool)
	stop   func()
	row    []byte // already read, for a later range
	id     spend.ID
}

func readArchive(all iter.Seq2[[]byte, error], of Range, period string) *archived {
	next, stop := iter.Pull2(all)
	return &archived{of: of, period: period, next: next, stop: stop}
}

// Rows implements Rows.
func (a *archived) Rows(_ context.Context, r Range, each func(row []byte) error) error {
	for {
		more, err := a.fetch()
		if err != nil || !more || less(r.High, a.id) {
			return err
		}
		row := a.row
		a.row = nil
		if less(a.id, r.Low) {
			continue // before the wanted range
		}
		if err := each(row); err != nil {
			return err
		}
	}
}

// fetch reads a row if none is pending, and reports whether there is one.
func (a *archived) fetch() (more bool, err error) {
	if a.row != nil {
		return true, nil
	}
	row, err, more := a.next()
	if err != nil || !more {
		return false, err
	}
	a.row, a.id = row, archive.ID(row)
	if !a.of.Holds(a.id) {
		return false, fmt.Errorf("%w: %s is of another %s", archive.ErrAltered, a.id.Text(""), a.period)
	}
	return true, nil
}

// drain reads to the end, where it is known whether the files are complete.
func (a *archived) drain() error {
	for {
		a.row = nil
		if more, err := a.fetch(); err != nil || !more {
			return err
		}
	}
}
