package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/audit/sqlite"
	"spendgate/audit/verify"
	"spendgate/cmd/spendgate/checkreport"
)

// reportOfDev reads the store of a single node.
func reportOfDev(ctx context.Context, dataDir string, id spend.ID) (*checkreport.Report, error) {
	store, err := openDev(ctx, dataDir)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	found, err := store.Checks(ctx, []spend.ID{id})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s is not in the record", id.Text(spend.PrefixCheck))
	}
	r := &checkreport.Report{Check: found[0], Source: filepath.Join(dataDir, storeFile)}
	at := place{Place: verify.Place{Chain: r.Check.Fence.Node}}
	if at.Seq, at.entry, err = store.Place(ctx, at.Chain, id); err != nil {
		return nil, err
	}
	r.Chain = at.judge(chain.HashCheck(r.Check))
	if r.Outcomes, err = store.Outcomes(ctx, []spend.ID{id}); err != nil {
		return nil, err
	}
	if asked := checkreport.ApprovalID(r.Check); !asked.IsZero() {
		approvals, err := store.Approvals(ctx, []spend.ID{asked})
		if err != nil {
			return nil, err
		}
		if len(approvals) > 0 {
			r.Approval = approvals[0]
		}
	}
	if r.Policy, err = optional(store.Policy(ctx, r.Check.Action.PolicyID, r.Check.Decision.PolicyVersion)); err != nil {
		return nil, err
	}
	r.KeyName, err = keyName(ctx, store, r.Check.KeyID)
	return r, err
}

// openDev opens the store of a single node.
func openDev(ctx context.Context, dataDir string) (*sqlite.Store, error) {
	path := filepath.Join(dataDir, storeFile)
	if _, err := os.Stat(path); err != nil { // opening a missing file would create it
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	return sqlite.OpenMade(ctx, path, slog.New(slog.DiscardHandler))
}

// keyName returns the name of a key, empty if there is no such key.
func keyName(ctx context.Context, keys audit.Keys, keyID string) (string, error) {
	const page = 100
	var before spend.ID
	for {
		some, err := keys.ListKeys(ctx, before, page)
		if err != nil {
			return "", err
		}
		for _, k := range some.Keys {
			if k.ID.Text(spend.PrefixKey) == keyID {
				return k.Name, nil
			}
			before = k.ID
		}
		if !some.More {
			return "", nil
		}
	}
}

// optional turns a not-found error into the zero value.
func optional[T any](found T, err error) (T, error) {
	if errors.Is(err, audit.ErrNotFound) {
		var none T
		return none, nil
	}
	return found, err
}
