package auditcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"spendgate/audit"
	"spendgate/audit/export"
	"spendgate/audit/postgres/snapshot"
	"spendgate/audit/spend"
	"spendgate/audit/sqlite"
	"spendgate/audit/verify"
	"spendgate/cmd/spendgate/cli"
	"spendgate/config"
)

// record is one moment of an audit trail, of either store.
type record interface {
	verify.Evidence
	export.Record
	// Approval returns an approval, or audit.ErrNotFound.
	Approval(ctx context.Context, id spend.ID) (*audit.Approval, error)
}

// openRecord begins to read the database of SPENDGATE_DATABASE_URL with conns connections, or the
// embedded store in a folder. done ends the reading.
func openRecord(ctx context.Context, p cli.Process, dataDir string, conns int) (_ record, done func(), err error) {
	if dataDir != "" {
		store, err := openDev(ctx, dataDir)
		if err != nil {
			return nil, nil, err
		}
		snapshot, err := store.Snapshot(ctx)
		if err != nil {
			store.Close()
			return nil, nil, err
		}
		return snapshot, func() { snapshot.Close(); store.Close() }, nil
	}
	c, err := p.Load(config.Audit)
	if err != nil {
		return nil, nil, err
	}
	s, err := snapshot.Open(ctx, string(c.DatabaseURL), conns)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// openDev opens the store of a single node.
func openDev(ctx context.Context, dataDir string) (*sqlite.Store, error) {
	path := filepath.Join(dataDir, cli.StoreFile)
	if _, err := os.Stat(path); err != nil { // opening a missing file would create it
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	return sqlite.OpenMade(ctx, path, slog.New(slog.DiscardHandler))
}

// optional turns a not-found error into the zero value.
func optional[T any](found T, err error) (T, error) {
	if errors.Is(err, audit.ErrNotFound) {
		var none T
		return none, nil
	}
	return found, err
}

// unfolded is a record together with its detached batches, from the archives in a folder.
type unfolded struct {
	record
	batches *verify.Unfolded
}

// unfold adds the detached batches of a range of checks. It begins one day earlier, since clocks may
// differ by that much, and ends with the last batch, since outcomes and uses of approvals are later
// than their checks. It fails if the archives were altered; the verifier reports batches that the
// folder lacks.
func unfold(ctx context.Context, r record, archives string, of verify.Range) (unfolded, error) {
	var wrong error
	of = verify.Range{Low: audit.FirstID(of.Low.Time().AddDate(0, 0, -1).UnixMilli()), High: audit.MaxID()}
	batches, err := verify.Unfold(ctx, verify.Options{Evidence: r, Archives: archives}, of, func(f verify.Finding) {
		if f.Kind != verify.Unchecked {
			wrong = errors.Join(wrong, errors.New(f.String()))
		}
	})
	if err = errors.Join(err, wrong); err != nil {
		return unfolded{}, fmt.Errorf("cannot read the archives of batches: %w", err)
	}
	return unfolded{r, batches}, nil
}

// Batches implements verify.Evidence.
func (u unfolded) Batches(ctx context.Context, r verify.Range, each func(verify.Batch) error) error {
	return u.batches.Batches(ctx, r, each)
}

// Chain implements verify.Evidence.
func (u unfolded) Chain(ctx context.Context, chainID spend.ID, from, to int64, each func(verify.Batch) error) error {
	return u.batches.Chain(ctx, chainID, from, to, each)
}

// Heads implements verify.Evidence.
func (u unfolded) Heads(ctx context.Context, places []verify.Place) (map[verify.Place]spend.Hash, map[spend.ID]int64, error) {
	return u.batches.Heads(ctx, places)
}
