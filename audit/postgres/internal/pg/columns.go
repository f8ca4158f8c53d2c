package pg

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// Scan targets for columns. Null becomes the zero value.

type idColumn spend.ID

// UUID scans an identifier.
func UUID(id *spend.ID) *idColumn { return (*idColumn)(id) }

// ScanUUID implements pgtype.UUIDScanner.
func (id *idColumn) ScanUUID(v pgtype.UUID) error {
	*id = v.Bytes
	return nil
}

type hashColumn spend.Hash

// Bytea scans a hash.
func Bytea(hash *spend.Hash) *hashColumn { return (*hashColumn)(hash) }

// ScanBytes implements pgtype.BytesScanner. A value that is no hash becomes the zero hash.
func (h *hashColumn) ScanBytes(v []byte) error {
	*h = hashColumn{}
	if len(v) == len(h) {
		*h = hashColumn(v)
	}
	return nil
}

type timeColumn time.Time

// UTC scans a time.
func UTC(at *time.Time) *timeColumn { return (*timeColumn)(at) }

// ScanTimestamptz implements pgtype.TimestamptzScanner. Infinity, which nothing here writes,
// becomes a time after all others, so that a reader can report it.
func (t *timeColumn) ScanTimestamptz(v pgtype.Timestamptz) error {
	const farSeconds = 1 << 43
	switch {
	case !v.Valid:
		*t = timeColumn{}
	case v.InfinityModifier != pgtype.Finite:
		*t = timeColumn(time.Unix(int64(v.InfinityModifier)*farSeconds, 0).UTC())
	default:
		*t = timeColumn(v.Time.UTC())
	}
	return nil
}

// ScanInt64 implements pgtype.Int64Scanner, for Unix milliseconds.
func (t *timeColumn) ScanInt64(v pgtype.Int8) error {
	if *t = (timeColumn{}); v.Valid {
		*t = timeColumn(time.UnixMilli(v.Int64).UTC())
	}
	return nil
}

// NullTime scans a time; null becomes nil.
type NullTime struct{ At **time.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (t NullTime) ScanTimestamptz(v pgtype.Timestamptz) error {
	if *t.At = nil; !v.Valid {
		return nil
	}
	*t.At = new(time.Time)
	return UTC(*t.At).ScanTimestamptz(v)
}

// Targets replaces pointers to identifiers, hashes and times, in place, by what scans these.
func Targets(targets ...any) []any {
	for i, target := range targets {
		switch target := target.(type) {
		case *spend.ID:
			targets[i] = UUID(target)
		case *spend.Hash:
			targets[i] = Bytea(target)
		case *time.Time:
			targets[i] = UTC(target)
		}
	}
	return targets
}

// Row is a row of which Targets are scanned.
type Row struct{ pgx.CollectableRow }

// Scan scans the row.
func (r Row) Scan(targets ...any) error { return r.CollectableRow.Scan(Targets(targets...)...) }

// Arguments of queries.

// UUIDs is an array of identifiers as an argument.
func UUIDs(ids []spend.ID) [][16]byte {
	out := make([][16]byte, len(ids))
	for i, id := range ids {
		out[i] = id
	}
	return out
}

// Byteas is an array of hashes as an argument.
func Byteas(hashes []spend.Hash) [][]byte {
	out := make([][]byte, len(hashes))
	for i := range hashes {
		out[i] = hashes[i][:]
	}
	return out
}

// ColumnList returns the columns of a table as their rows are encoded: a numeric as a text.
func ColumnList(t chain.Table) string {
	columns := t.Columns()
	for i, f := range t.Fields {
		if f.Kind == chain.Amount {
			columns[i] += "::text"
		}
	}
	return strings.Join(columns, ",")
}
