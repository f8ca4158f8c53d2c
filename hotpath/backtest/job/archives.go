package job

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"spendgate/audit"
	"spendgate/audit/archive"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// readArchive feeds the records of a day's archive between two IDs, both excluded. A day whose archive
// is not available is named in the coverage.
func (r *run) readArchive(ctx context.Context, day audit.ArchivedDay, at, end spend.ID) error {
	name := day.Day.Format(time.DateOnly)
	if r.Archives == "" {
		r.missing = append(r.missing, name)
		return nil
	}
	a, err := archive.Open(r.Archives, archive.ChecksOf(day.Day))
	if errors.Is(err, fs.ErrNotExist) {
		r.missing = append(r.missing, name)
		return nil
	}
	if err != nil {
		return err
	}
	if a.SHA256 != day.Manifest {
		return fmt.Errorf("the archive of %s: %w", name, archive.ErrAltered)
	}
	var page audit.HistoryPage
	flush := func() error {
		if len(page.Checks) == 0 {
			return nil
		}
		page.Outcomes, err = ask(ctx, func(ctx context.Context) ([]*spend.Outcome, error) {
			return r.Store.HistoryOutcomes(ctx, page.Checks[0].ID, page.Checks[len(page.Checks)-1].ID)
		})
		if err != nil {
			return err
		}
		err := r.feed(ctx, page)
		page = audit.HistoryPage{}
		return err
	}
	for row, err := range a.All() {
		if errors.Is(err, fs.ErrNotExist) { // only the manifest is there
			r.missing = append(r.missing, name)
			return nil
		}
		if err != nil {
			return err
		}
		c, err := r.archived(row)
		if err != nil {
			return err
		}
		if c.ID.Compare(at) <= 0 || c.ID.Compare(end) >= 0 {
			continue
		}
		if page.Checks = append(page.Checks, c); len(page.Checks) == pageSize {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// archived reads a check of an archive.
func (r *run) archived(row []byte) (h audit.HistoryCheck, err error) {
	c, err := chain.ParseCheck(row)
	if err != nil {
		return h, err
	}
	if c.Action.PolicyID != r.b.PolicyID {
		h.SetForeign(c)
		return h, nil
	}
	if text := c.Action.Metadata.JSON; text != "" {
		var faults spend.Faults
		if c.Action.Metadata = spend.ParseMetadata(text, "metadata", &faults); faults != nil {
			return h, faults.Err()
		}
	}
	h.Check = *c
	return h, nil
}
