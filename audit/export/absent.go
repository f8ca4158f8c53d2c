package export

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"spendgate/audit/archive"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// AbsentDay is a day whose checks are in an archive that is not available.
type AbsentDay struct {
	Day    string `json:"day"`
	Checks int64  `json:"checks"`
}

// AbsentBatches are batches that left with a day, in an archive that is not available.
type AbsentBatches struct {
	Day     string `json:"day"`
	Batches int64  `json:"batches"`
}

// archived reads a day that left the database, or notes that its archive is absent.
func (g *reading) archived(ctx context.Context, day verify.Day, note verify.ArchiveNote, part verify.Range, take func([]*row) error) error {
	left := slices.ContainsFunc(g.skip, func(d AbsentDay) bool { return d.Day == day.String() })
	if g.archives == "" || left {
		g.absent = append(g.absent, AbsentDay{day.String(), note.Rows})
		return nil
	}
	a, err := archive.Open(g.archives, archive.ChecksOf(day.Time()))
	if errors.Is(err, fs.ErrNotExist) {
		g.absent = append(g.absent, AbsentDay{day.String(), note.Rows})
		return nil
	}
	if err != nil {
		return err
	}
	if a.SHA256 != note.Manifest || a.Rows != note.Rows {
		return fmt.Errorf("%s: its manifest is not the one with which the day was detached", a.Path())
	}
	return g.stretch(ctx, archivedRows{a}, part, take)
}

// archivedRows are the rows of one archive.
type archivedRows struct{ *archive.Archive }

// Rows implements verify.Rows. It reads the file to its end, where it is known whether the file is
// complete.
func (a archivedRows) Rows(_ context.Context, r verify.Range, each func([]byte) error) error {
	for row, err := range a.All() {
		if err != nil {
			return err
		}
		if r.Holds(archive.ID(row)) {
			if err := each(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// lacks counts what no available batch lists.
func (g *reading) lacks(node, id spend.ID) {
	if g.left != nil {
		if days := g.left.Blind(node, id); len(days) > 0 {
			for _, day := range days {
				g.blind[day] = true
			}
			g.notCompared++
			return
		}
	}
	g.unlisted++
}

// absentBatches returns the absent batches that may list what no available batch lists.
func (g *reading) absentBatches() (absent []AbsentBatches) {
	for _, day := range slices.Sorted(maps.Keys(g.blind)) {
		absent = append(absent, AbsentBatches{day.String(), g.left.Folded(day)})
	}
	return absent
}

// batches calls each with every batch that may list something of a range, including batches that
// left.
func (g *reading) batches(ctx context.Context, r verify.Range, each func(verify.Batch) error) error {
	if g.left != nil {
		return g.left.Batches(ctx, r, each)
	}
	return g.record.Batches(ctx, r, each)
}

// withoutAbsent returns the record as the maker of the file had it.
func withoutAbsent(left *verify.Unfolded, absent []AbsentBatches) (*verify.Unfolded, error) {
	days := make([]verify.Day, len(absent))
	for i, d := range absent {
		at, err := time.Parse(time.DateOnly, d.Day)
		if err != nil {
			return nil, fmt.Errorf("a day of the manifest cannot be read: %w", err)
		}
		days[i] = verify.DayAt(at)
	}
	return left.Without(days), nil
}

// sameAbsent reports archives that are absent now and were available to the maker of the file.
func sameAbsent(m, made *Manifest, found func(string)) {
	const was = " is not at hand, and was when the file was made: give --archive with the folder where it is"
	for _, d := range made.Absent {
		if !slices.Contains(m.Absent, d) {
			found("the archive of " + d.Day + was)
		}
	}
	for _, d := range made.AbsentBatches {
		if !slices.Contains(m.AbsentBatches, d) {
			found("the archive of the batches of " + d.Day + was)
		}
	}
}
