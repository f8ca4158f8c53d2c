package sqlstore

import (
	"context"
	"fmt"

	"spendgate/audit"
)

// Store has the methods that both stores share.
type Store struct {
	db          DB
	eventsFloor string
}

// New makes a Store on a database. eventsFloor selects the number up to which events were removed.
func New(db DB, eventsFloor string) *Store { return &Store{db: db, eventsFloor: eventsFloor} }

// DB is the database of a store. Its methods fail as those of audit.Store do.
//
// Arguments of statements are numbers, texts, booleans, spend.ID and spend.Hash. Rows are scanned into these, into time.Time
// and into sql.Scanner; null becomes the zero spend.ID, spend.Hash or time.Time.
type DB interface {
	// Read runs queries, each of which sees what was committed before it.
	Read(ctx context.Context, doing string, fn func(context.Context, Tx) error) error
	// Exec runs a statement that may be repeated, and returns how many rows it changed.
	Exec(ctx context.Context, doing, statement string, args ...any) (changed int64, err error)
	// Write runs a transaction that may be repeated. Transactions that name the same table take turns: all others were
	// committed before one reads, or have not begun. The empty name takes no turn.
	Write(ctx context.Context, doing, turn string, fn func(context.Context, Tx) error) error
}

// Tx is a connection, within a transaction or not.
type Tx interface {
	Query(ctx context.Context, each func(Row) error, query string, args ...any) error
	Exec(ctx context.Context, statement string, args ...any) (changed int64, err error)
}

// Row is a row of a result.
type Row interface{ Scan(targets ...any) error }

// collect returns all rows of a query.
func collect[T any](ctx context.Context, tx Tx, scan func(Row) (T, error), query string, args ...any) (all []T, err error) {
	err = tx.Query(ctx, func(row Row) error {
		one, err := scan(row)
		all = append(all, one)
		return err
	}, query, args...)
	return all, err
}

// list returns all rows of a query.
func list[T any](ctx context.Context, s *Store, doing string, scan func(Row) (T, error), query string, args ...any) (all []T, err error) {
	err = s.db.Read(ctx, doing, func(ctx context.Context, tx Tx) (err error) {
		all, err = collect(ctx, tx, scan, query, args...)
		return err
	})
	return all, err
}

// find returns the only row of a query. It fails with audit.ErrNotFound if there is none.
func find[T any](ctx context.Context, s *Store, doing string, scan func(Row) (T, error), query string, args ...any) (*T, error) {
	all, err := list(ctx, s, doing, scan, query, args...)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	}
	return &all[0], nil
}

// value returns the only column of the only row of a query.
func value[T any](ctx context.Context, s *Store, doing, query string, args ...any) (of T, err error) {
	found, err := find(ctx, s, doing, scalar[T], query, args...)
	if err == nil {
		of = *found
	}
	return of, err
}

// scalar scans the only column of a row.
func scalar[T any](row Row) (value T, err error) {
	err = row.Scan(&value)
	return value, err
}

// change runs a statement that may be repeated. It fails with audit.ErrNotFound if the statement changes nothing.
func (s *Store) change(ctx context.Context, doing, statement string, args ...any) error {
	changed, err := s.db.Exec(ctx, doing, statement, args...)
	if err == nil && changed == 0 {
		err = fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	}
	return err
}

// write runs a transaction. If fn refuses what was asked, the transaction is committed, and write fails with the refusal.
func (s *Store) write(ctx context.Context, doing, turn string, fn func(context.Context, Tx) (refused, err error)) error {
	var refused error
	err := s.db.Write(ctx, doing, turn, func(ctx context.Context, tx Tx) (err error) {
		refused, err = fn(ctx, tx)
		return err
	})
	if err == nil && refused != nil {
		err = fmt.Errorf("%s: %w", doing, refused)
	}
	return err
}

// Parsed parses a text column; null is the empty text.
type Parsed func(text string) error

// Scan implements sql.Scanner.
func (p Parsed) Scan(column any) error {
	text, _ := column.(string)
	return p(text)
}

// Parse returns the target of a scan of a text that by reads.
func Parse[T any](into *T, by func(string) (T, error)) Parsed {
	return func(text string) (err error) {
		*into, err = by(text)
		return err
	}
}
