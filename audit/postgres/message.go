package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgproto3"
)

// textStatement is one that is prepared without a name and executed once. Its
// arguments are text; nil is null.
type textStatement struct {
	sql  string
	args [][]byte
}

// The frame of every transaction of statements. The isolation is said
// explicitly: begin_commit would let a stale epoch pass under a stricter one.
const (
	begin  = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
	commit = "COMMIT"
)

// appendStatements adds messages that execute the statements one after the
// other, until one fails.
func appendStatements(b []byte, statements ...textStatement) (_ []byte, err error) {
	for _, s := range statements {
		if b, err = (&pgproto3.Parse{Query: s.sql}).Encode(b); err != nil {
			return nil, fmt.Errorf("cannot encode a statement: %w", err)
		}
		if b, err = appendExecution(b, &pgproto3.Bind{Parameters: s.args}); err != nil {
			return nil, err
		}
	}
	return (&pgproto3.Sync{}).Encode(b)
}

// appendExecution adds messages that give a statement its parameters and execute
// it.
func appendExecution(b []byte, bind *pgproto3.Bind) (_ []byte, err error) {
	if b, err = bind.Encode(b); err != nil {
		return nil, fmt.Errorf("cannot encode parameters: %w", err)
	}
	return (&pgproto3.Execute{}).Encode(b)
}
