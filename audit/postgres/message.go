package postgres

import (
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
)

// textStatement is a statement that is prepared without a name and executed once. Its arguments are
// text; nil is null.
type textStatement struct {
	sql  string
	args [][]byte
}

func textCall(sql string, args ...any) textStatement {
	s := textStatement{sql: sql}
	for _, arg := range args {
		s.args = append(s.args, textOf(arg))
	}
	return s
}

// textOf returns an argument as text: bytes become hexadecimal digits, which a uuid and the
// function decode accept.
func textOf(arg any) []byte {
	switch v := arg.(type) {
	case nil:
		return nil
	case []byte:
		return hex.AppendEncode(nil, v)
	case string, bool, int, int64:
		return fmt.Append([]byte{}, v) // an empty text is not null
	default:
		panic(fmt.Sprintf("BUG: an argument of type %T", v))
	}
}

// orNull returns nil, which is null, for an empty text.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// pointed returns nil, which is null, for a nil pointer, and otherwise what p points to.
func pointed[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// textRow is a row whose columns are text.
type textRow struct {
	fields []pgconn.FieldDescription
	values [][]byte
}

func (r textRow) scan(into []any) error {
	if r.values == nil {
		return audit.ErrNotFound
	}
	return pgx.ScanRow(pgtype.NewMap(), r.fields, r.values, pg.Targets(into...)...)
}

// These statements frame every transaction. The isolation level is explicit, because begin_commit
// would let a stale epoch pass under a stricter level.
const (
	begin  = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
	commit = "COMMIT"
)

// appendStatements adds messages that execute the statements in order, until one fails.
func appendStatements(b []byte, statements ...textStatement) (_ []byte, err error) {
	for _, s := range statements {
		if b, err = (&pgproto3.Parse{Query: s.sql}).Encode(b); err != nil {
			return nil, fmt.Errorf("cannot encode a statement: %w", err)
		}
		if b, err = (&pgproto3.Bind{Parameters: s.args}).Encode(b); err != nil {
			return nil, fmt.Errorf("cannot encode parameters: %w", err)
		}
		if b, err = (&pgproto3.Describe{ObjectType: 'P'}).Encode(b); err != nil {
			return nil, err
		}
		if b, err = (&pgproto3.Execute{}).Encode(b); err != nil {
			return nil, err
		}
	}
	return (&pgproto3.Sync{}).Encode(b)
}
