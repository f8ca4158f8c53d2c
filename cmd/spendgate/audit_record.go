package main

import (
	"context"

	"spendgate/audit/export"
	"spendgate/audit/postgres"
	"spendgate/audit/verify"
	"spendgate/config"
)

// record is one moment of an audit trail, of either store.
type record interface {
	verify.Evidence
	export.Record
}

// openRecord begins a reading of the database of SPENDGATE_DATABASE_URL with so many connections,
// or of the embedded store in a folder. done ends it.
func openRecord(ctx context.Context, p process, dataDir string, conns int) (_ record, done func(), err error) {
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
	c, err := p.load(config.Audit)
	if err != nil {
		return nil, nil, err
	}
	snapshot, err := postgres.OpenSnapshot(ctx, string(c.DatabaseURL), conns)
	if err != nil {
		return nil, nil, err
	}
	return snapshot, snapshot.Close, nil
}
