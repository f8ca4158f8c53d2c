package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/sqlstore"
)

const draftColumns = "policy_id, generation, base_version, name, description, rules, metadata, made_at, redeem, changes"

// PutDraft implements audit.Drafts.
func (s *Store) PutDraft(ctx context.Context, by audit.Actor, d *audit.Draft, now time.Time) error {
	made := *d
	err := s.write(ctx, fmt.Sprintf("cannot put the draft of policy %q", d.PolicyID), func(tx *sql.Tx) error {
		asked, version, err := sqlstore.Asks(ctx, databaseTx{tx}, d.PolicyID)
		if err != nil {
			return err
		}
		before, err := sqlstore.ReadDraft(ctx, databaseTx{tx}, d.PolicyID)
		switch {
		case version == 0:
			return audit.ErrNotFound
		case errors.Is(err, audit.ErrNotFound):
			before = new(audit.Draft)
		case err != nil:
			return err
		}
		if before.Generation != d.Replaces {
			return audit.ErrDraftChanged
		}
		made.BaseVersion, made.Submitted = version, asked != nil
		return recordDraft(tx, &made, audit.DraftPut, by, now)
	})
	if err == nil {
		*d = made
	}
	return err
}

// recordDraft adds a row, which ends the draft if its rules are empty, and the change.
func recordDraft(tx *sql.Tx, d *audit.Draft, kind audit.ChangeKind, by audit.Actor, now time.Time) (err error) {
	if d.Generation, err = raise(tx); err != nil {
		return err
	}
	d.MadeAt, d.Author = fromMilli(now.UnixMilli()), by
	_, err = tx.Exec("INSERT INTO drafts ("+draftColumns+") VALUES ("+marks(10)+")",
		d.PolicyID, d.Generation, d.BaseVersion, d.Name, d.Description, d.Rules, d.Metadata, now.UnixMilli(), orNull(d.Redeem.Text()),
		orNull(d.Changes))
	if err != nil {
		return err
	}
	change := d.Change(kind, by, time.Now())
	d.Hash = change.Hash
	return record(tx, change)
}

// DeleteDraft implements audit.Drafts.
func (s *Store) DeleteDraft(ctx context.Context, by audit.Actor, policyID string, generation int64, now time.Time) error {
	return s.write(ctx, fmt.Sprintf("cannot delete the draft of policy %q", policyID), func(tx *sql.Tx) error {
		d, err := sqlstore.ReadDraft(ctx, databaseTx{tx}, policyID)
		if err != nil {
			return err
		}
		if d.Generation != generation {
			return audit.ErrNotFound
		}
		return recordDraft(tx, &audit.Draft{PolicyID: policyID, BaseVersion: d.BaseVersion}, audit.DraftDeleted, by, now)
	})
}

// PromoteDraft implements audit.Drafts.
func (s *Store) PromoteDraft(ctx context.Context, by audit.Actor, p audit.Promotion, now time.Time) (made *audit.Policy, err error) {
	err = s.write(ctx, fmt.Sprintf("cannot promote the draft of policy %q", p.PolicyID), func(tx *sql.Tx) error {
		d, err := sqlstore.ReadDraft(ctx, databaseTx{tx}, p.PolicyID)
		if err != nil {
			return err
		}
		if d.Generation != p.Generation {
			return audit.ErrNotFound
		}
		_, latest, err := sqlstore.Asks(ctx, databaseTx{tx}, p.PolicyID)
		if err != nil {
			return err
		}
		if latest != p.Version {
			return &audit.VersionError{Version: latest}
		}
		forced, err := approved(tx, by, d, p.Budgets.Drop)
		if err != nil {
			return err
		}
		if err := recordDraft(tx, &audit.Draft{PolicyID: p.PolicyID, BaseVersion: latest}, audit.DraftPromoted, by, now); err != nil {
			return err
		}
		made, err = createPolicy(tx, by, newVersion{&audit.Policy{
			PolicyID: p.PolicyID, Name: d.Name, Description: d.Description, Rules: d.Rules, Metadata: d.Metadata, Redeem: d.Redeem,
			Changes: d.Changes, Note: p.Note,
		}, p.Budgets, forced}, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}
