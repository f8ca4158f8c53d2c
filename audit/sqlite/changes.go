package sqlite

import (
	"database/sql"
	"errors"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

const changeColumns = "seq, kind, subject, version, actor, key_id, principal, credential, request_id, address, at, details, hash, head"

// raise increments the generation of the configuration and returns it.
func raise(tx *sql.Tx) (int64, error) {
	return scalar[int64](tx.QueryRow("UPDATE config SET generation = generation + 1 RETURNING generation"))
}

// record adds a change to the chain. One without a number gets the next generation.
func record(tx *sql.Tx, c audit.Change) error {
	if c.Seq == 0 {
		var err error
		if c.Seq, err = raise(tx); err != nil {
			return err
		}
	}
	var before spend.Hash
	err := tx.QueryRow("SELECT head FROM changes ORDER BY seq DESC LIMIT 1").Scan(blob(before[:]))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	c.Head = chain.ChangeHead(before, c.Row())
	_, err = tx.Exec("INSERT INTO changes ("+changeColumns+") VALUES (?, ?, ?, nullif(?, 0), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		c.Seq, string(c.Kind), c.Subject, c.Version, c.By.Kind(), orNull(c.By.KeyID), orNull(c.By.Principal), orNull(c.By.Credential),
		orNull(c.By.RequestID), orNull(c.By.Address), c.At.UnixMilli(), c.Details, c.Hash[:], c.Head[:])
	return err
}
