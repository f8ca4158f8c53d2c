package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// scanner is a databaseRow.
type scanner = sqlstore.Row

// querier is *sql.DB or *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
}

// each scans the rows of a query one after the other.
func each(ctx context.Context, from querier, doing string, scan func(scanner) error, query string, args ...any) error {
	rows, err := from.QueryContext(ctx, query, arguments(args)...)
	if err != nil {
		return unavailable(doing, err)
	}
	defer func() { _ = rows.Close() }() // its error is rows.Err's
	for rows.Next() {
		if err := scan(databaseRow{rows}); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	if err := rows.Err(); err != nil {
		return unavailable(doing, err)
	}
	return nil
}

// collect returns all rows of a query.
func collect[T any](
	ctx context.Context, from querier, doing string, scan func(scanner) (T, error), query string, args ...any,
) (all []T, err error) {
	err = each(ctx, from, doing, func(row scanner) error {
		one, err := scan(row)
		all = append(all, one)
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// one reads the only row of a query. It fails with audit.ErrNotFound if there is none.
func one[T any](ctx context.Context, from querier, doing string, scan func(scanner) (T, error), query string, args ...any) (T, error) {
	found, err := scan(databaseRow{from.QueryRowContext(ctx, query, arguments(args)...)})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	case err != nil:
		err = unavailable(doing, err)
	}
	return found, err
}

// orNil returns nil with an error, and otherwise a pointer to what was read.
func orNil[T any](found T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return &found, nil
}

// scalar scans the only column of a row.
func scalar[T any](row scanner) (value T, err error) {
	err = row.Scan(&value)
	return value, err
}

func scanID(row scanner) (id spend.ID, err error) {
	err = row.Scan(blob(id[:]))
	return id, err
}

// Scan targets for columns. Null becomes the zero value.

// blob is the whole of an identifier or a hash.
type blob []byte

// Scan implements sql.Scanner.
func (b blob) Scan(column any) error {
	value, _ := column.([]byte)
	if column != nil && len(value) != len(b) {
		return fmt.Errorf("%d bytes where there should be %d", len(value), len(b))
	}
	clear(b)
	copy(b, value)
	return nil
}

// text is a text, or null for an empty one.
type text string

// Scan implements sql.Scanner.
func (t *text) Scan(column any) error {
	value, _ := column.(string)
	*t = text(value)
	return nil
}

// integer is a number, or null for zero.
type integer int64

// Scan implements sql.Scanner.
func (n *integer) Scan(column any) error {
	value, _ := column.(int64)
	*n = integer(value)
	return nil
}

// millis is a time in Unix milliseconds.
type millis time.Time

// Scan implements sql.Scanner.
func (m *millis) Scan(column any) error {
	*m = millis{}
	if ms, ok := column.(int64); ok {
		*m = millis(fromMilli(ms))
	}
	return nil
}

// orAbsent is sqlstore.Parse for a column that may be null.
func orAbsent[T any](into *T, by func(string) (T, error)) sqlstore.Parsed {
	return sqlstore.Parse(into, func(text string) (absent T, err error) {
		if text == "" {
			return absent, nil
		}
		return by(text)
	})
}

// known is sqlstore.Parse for a text with a fixed set of values.
func known[T any](into *T, by func(string) (T, bool)) sqlstore.Parsed {
	return func(text string) error {
		var ok bool
		if *into, ok = by(text); !ok {
			return fmt.Errorf("unknown %q", text)
		}
		return nil
	}
}

// affected returns how many rows a statement changed.
func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Arguments of queries.

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func fromMilli(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

// anys returns values as arguments.
func anys[T any](values []T, as func(*T) any) []any {
	args := make([]any, len(values))
	for i := range values {
		args[i] = as(&values[i])
	}
	return args
}

func idArgs(ids []spend.ID) []any { return anys(ids, func(id *spend.ID) any { return id[:] }) }

func hashArgs(hashes []spend.Hash) []any {
	return anys(hashes, func(h *spend.Hash) any { return h[:] })
}

// addAmounts adds the bounds of amounts. These are shortest plain decimals, whose order is that of their digits before the point,
// and then that of the texts.
func addAmounts(w *sqlstore.Where, a audit.Amounts) {
	bound := func(sign string, of *spend.Amount) {
		if of != nil {
			value := w.Arg(of.String())
			w.Text += " AND (instr(amount || '.', '.'), amount) " + sign + " (instr(" + value + " || '.', '.'), " + value + ")"
		}
	}
	bound(">=", a.AmountFrom)
	bound("<=", a.AmountTo)
}
