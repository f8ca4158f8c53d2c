package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// database is the store's sqlstore.DB.
type database struct{ *Store }

// Read implements sqlstore.DB.
func (d database) Read(ctx context.Context, doing string, fn func(context.Context, sqlstore.Tx) error) error {
	return d.read(ctx, doing, func(ctx context.Context, db *pgx.Conn) error { return fn(ctx, databaseTx{db}) })
}

// Exec implements sqlstore.DB.
func (d database) Exec(ctx context.Context, doing, statement string, args ...any) (changed int64, err error) {
	err = d.Read(ctx, doing, func(ctx context.Context, tx sqlstore.Tx) (err error) {
		changed, err = tx.Exec(ctx, statement, args...)
		return err
	})
	return changed, err
}

// Write implements sqlstore.DB.
func (d database) Write(ctx context.Context, doing, turn string, fn func(context.Context, sqlstore.Tx) error) error {
	return d.read(ctx, doing, func(ctx context.Context, db *pgx.Conn) error {
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if turn != "" {
				if err := takeTurn(ctx, tx, turn); err != nil {
					return err
				}
			}
			return fn(ctx, databaseTx{tx})
		})
	})
}

// takeTurn waits for other transactions that name the same table.
func takeTurn(ctx context.Context, tx pgx.Tx, table string) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::text::regclass::oid::integer, 0)", table)
	return err
}

// databaseTx is a *pgx.Conn or a pgx.Tx.
type databaseTx struct {
	db interface {
		Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
		Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
	}
}

// Query implements sqlstore.Tx.
func (t databaseTx) Query(ctx context.Context, each func(sqlstore.Row) error, query string, args ...any) error {
	rows, err := t.db.Query(ctx, query, arguments(args)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(pg.Row{CollectableRow: rows}); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Exec implements sqlstore.Tx.
func (t databaseTx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	done, err := t.db.Exec(ctx, statement, arguments(args)...)
	return done.RowsAffected(), err
}

func arguments(args []any) []any {
	for i, arg := range args {
		switch arg := arg.(type) {
		case spend.ID:
			args[i] = [16]byte(arg)
		case spend.Hash:
			args[i] = arg[:]
		}
	}
	return args
}
