package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"

	"modernc.org/sqlite"

	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// The driver keeps the functions of all its databases in one place.
func init() {
	sqlite.MustRegisterScalarFunction("now_ms", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return time.Now().UnixMilli(), nil
	})
	sqlite.MustRegisterDeterministicScalarFunction("from_ms", 1, func(_ *sqlite.FunctionContext, ms []driver.Value) (driver.Value, error) {
		return ms[0], nil
	})
}

// database is the store's sqlstore.DB.
type database struct{ *Store }

// Read implements sqlstore.DB.
func (d database) Read(ctx context.Context, doing string, fn func(context.Context, sqlstore.Tx) error) error {
	if err := fn(ctx, databaseTx{d.reader}); err != nil {
		return fmt.Errorf("%s: %w", doing, classify(err))
	}
	return nil
}

// Exec implements sqlstore.DB.
func (d database) Exec(ctx context.Context, doing, statement string, args ...any) (changed int64, err error) {
	err = d.Write(ctx, doing, "", func(ctx context.Context, tx sqlstore.Tx) (err error) {
		changed, err = tx.Exec(ctx, statement, args...)
		return err
	})
	return changed, err
}

// Write implements sqlstore.DB. All transactions that write take turns here.
func (d database) Write(ctx context.Context, doing, _ string, fn func(context.Context, sqlstore.Tx) error) error {
	return d.write(ctx, doing, func(tx *sql.Tx) error { return fn(context.WithoutCancel(ctx), databaseTx{tx}) })
}

// databaseTx is a *sql.DB or a *sql.Tx.
type databaseTx struct{ db querier }

// Query implements sqlstore.Tx.
func (t databaseTx) Query(ctx context.Context, each func(sqlstore.Row) error, query string, args ...any) error {
	rows, err := t.db.QueryContext(ctx, query, arguments(args)...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // its error is rows.Err's
	for rows.Next() {
		if err := each(databaseRow{rows}); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Exec implements sqlstore.Tx.
func (t databaseTx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	return affected(t.db.ExecContext(ctx, statement, arguments(args)...))
}

func arguments(args []any) []any {
	for i, arg := range args {
		switch arg := arg.(type) {
		case spend.ID:
			args[i] = arg[:]
		case spend.Hash:
			args[i] = arg[:]
		}
	}
	return args
}

// databaseRow is a *sql.Row or *sql.Rows.
type databaseRow struct{ row scanner }

// Scan implements sqlstore.Row.
func (r databaseRow) Scan(targets ...any) error {
	for i, target := range targets {
		switch target := target.(type) {
		case *spend.ID:
			targets[i] = blob(target[:])
		case *spend.Hash:
			targets[i] = blob(target[:])
		case *time.Time:
			targets[i] = (*millis)(target)
		}
	}
	return r.row.Scan(targets...)
}

// rowOf returns the only row of a query, whose scan fails with sql.ErrNoRows if there is none.
func rowOf(tx *sql.Tx, query string, args ...any) databaseRow {
	return databaseRow{tx.QueryRow(query, arguments(args)...)}
}
