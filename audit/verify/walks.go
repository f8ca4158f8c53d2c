package verify

import (
	"context"
	"encoding/binary"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// Walk says which rows of a table are read, and in which order.
type Walk struct {
	chain.Table
	By    string // the column whose identifier is in the range, or whose text is Text; empty for all rows
	Range Range
	Text  string
	Order string // the columns by which the rows are sorted
}

// Tables reads the tables of a record.
type Tables interface {
	// Walk calls each with every row of a walk, in its order, encoded as PostgreSQL sends it in the binary format: the row
	// that chain hashes. The row is valid until each returns. An error of each ends the walk and is returned.
	Walk(ctx context.Context, w Walk, each func(row []byte) error) error
}

// Checks walks over the checks of a range.
func Checks(r Range) Walk {
	return Walk{Table: chain.Checks(), By: "check_id", Range: r, Order: "check_id"}
}

// Violations walks over the violations of a range.
func Violations(r Range) Walk {
	return Walk{Table: chain.Violations(), By: "id", Range: r, Order: "id"}
}

// Outcomes walks over the outcomes whose own identifiers are in a range.
func Outcomes(r Range) Walk {
	return Walk{Table: chain.Outcomes(), By: "outcome_id", Range: r, Order: "outcome_id"}
}

// Steps walks over the outcomes whose checks are in a range, in the order of the checks and their steps.
func Steps(r Range) Walk {
	return Walk{Table: chain.Outcomes(), By: "check_id", Range: r, Order: "check_id, step"}
}

// walkFields is Walk for the fields of the rows, which are valid until each returns.
func walkFields(ctx context.Context, t Tables, w Walk, each func(fields [][]byte, row []byte) error) error {
	fields := make([][]byte, 0, len(w.Fields))
	return t.Walk(ctx, w, func(row []byte) (err error) {
		if fields, err = chain.ParseFields(fields[:0], row); err != nil {
			return err
		}
		return each(fields, row)
	})
}

// Change is a stored change of the configuration. Its hashes are zero if they are none; of its actor only the key, the
// principal and the credential are read.
type Change struct {
	audit.Change
	Row []byte // encoded; valid until the call returns
}

// Changes calls each with every change of the configuration, in the order of their numbers.
func Changes(ctx context.Context, t Tables, each func(Change) error) error {
	var whole []byte
	return walkFields(ctx, t, Walk{Table: chain.Changes(), Order: "seq"}, func(f [][]byte, row []byte) error {
		c := Change{Change: audit.Change{
			Seq: chain.Integer(f[0]), Kind: audit.ChangeKind(f[1]), Subject: string(f[2]), Version: int(chain.Integer(f[3])),
			By: audit.Actor{KeyID: string(f[5]), Principal: string(f[6]), Credential: string(f[7])}, Details: string(f[11]),
			Hash: hashIn(f[12]), Head: hashIn(f[13]),
		}}
		c.At, _ = chain.Time(f[10])
		// The row without its last column, the head.
		whole = binary.BigEndian.AppendUint16(whole[:0], uint16(len(f)-1))
		whole = append(whole, row[2:len(row)-4-len(f[13])]...)
		c.Row = whole
		return each(c)
	})
}

// Policies calls each with every policy and its encoded row.
func Policies(ctx context.Context, t Tables, each func(p PolicyVersion, row []byte) error) error {
	return walkFields(ctx, t, Walk{Table: chain.Policies(), Order: "generation"}, func(f [][]byte, row []byte) error {
		return each(PolicyVersion{PolicyID: string(f[0]), Version: int(chain.Integer(f[1]))}, row)
	})
}

// identifier returns an identifier; zero if the field is none.
func identifier(field []byte) (id spend.ID) {
	if len(field) == len(id) {
		copy(id[:], field)
	}
	return id
}

// hashIn returns a hash; zero if the field is none.
func hashIn(field []byte) (h spend.Hash) {
	if len(field) == len(h) {
		copy(h[:], field)
	}
	return h
}
