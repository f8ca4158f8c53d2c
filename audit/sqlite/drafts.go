package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const draftColumns = "policy_id, generation, base_version, name, description, rules, metadata, made_at, redeem, changes"

// PutDraft implements audit.Drafts.
func (s *Store) PutDraft(ctx context.Context, by audit.Actor, d *audit.Draft, now time.Time) error {
	made := *d
	err := s.write(ctx, fmt.Sprintf("cannot put the draft of policy %q", d.PolicyID), func(tx *sql.Tx) (err error) {
		made.BaseVersion, err = latestVersion(tx, d.PolicyID)
		if err != nil {
			return err
		}
		return recordDraft(tx, &made, audit.DraftPut, by, now)
	})
	if err == nil {
		*d = made
	}
	return err
}

// latestVersion fails with sql.ErrNoRows if the policy does not exist.
func latestVersion(tx *sql.Tx, policyID string) (version int, err error) {
	err = tx.QueryRow("SELECT version FROM policies WHERE policy_id = ? ORDER BY version DESC LIMIT 1", policyID).Scan(&version)
	return version, err
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
func (s *Store) DeleteDraft(ctx context.Context, by audit.Actor, policyID string, now time.Time) error {
	return s.write(ctx, fmt.Sprintf("cannot delete the draft of policy %q", policyID), func(tx *sql.Tx) error {
		d, err := readDraft(tx.QueryRow(selectDraft, policyID))
		if err != nil {
			return err
		}
		return recordDraft(tx, &audit.Draft{PolicyID: policyID, BaseVersion: d.BaseVersion}, audit.DraftDeleted, by, now)
	})
}

// PromoteDraft implements audit.Drafts.
func (s *Store) PromoteDraft(ctx context.Context, by audit.Actor, p audit.Promotion, now time.Time) (made *audit.Policy, err error) {
	err = s.write(ctx, fmt.Sprintf("cannot promote the draft of policy %q", p.PolicyID), func(tx *sql.Tx) error {
		d, err := readDraft(tx.QueryRow(selectDraft, p.PolicyID))
		if err != nil {
			return err
		}
		if d.Generation != p.Generation {
			return audit.ErrNotFound
		}
		latest, err := latestVersion(tx, p.PolicyID)
		if err != nil {
			return err
		}
		if latest != p.Version {
			return &audit.VersionError{Version: latest}
		}
		forced, err := approved(tx, by, &d, p.Budgets.Drop, now)
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

const selectDraft = `SELECT d.policy_id, d.generation, d.base_version, d.name, d.description, d.rules, d.metadata, d.made_at, d.redeem,
	coalesce(d.changes, ''), c.hash,
	coalesce(c.key_id, ''), coalesce(c.principal, ''), coalesce(c.credential, ''), coalesce(c.details ->> 'note', '')
	FROM drafts AS d JOIN changes AS c ON c.seq = d.generation WHERE d.policy_id = ? ORDER BY d.generation DESC LIMIT 1`

// readDraft reads selectDraft. It also fails with sql.ErrNoRows if the draft has ended.
func readDraft(row scanner) (d audit.Draft, err error) {
	err = row.Scan(&d.PolicyID, &d.Generation, &d.BaseVersion, &d.Name, &d.Description, &d.Rules, &d.Metadata, (*millis)(&d.MadeAt),
		parse(&d.Redeem, spend.ParseRedeemTerms), &d.Changes, blob(d.Hash[:]),
		&d.Author.KeyID, &d.Author.Principal, &d.Author.Credential, &d.Note)
	if err == nil && d.Rules == audit.DraftEnded {
		err = sql.ErrNoRows
	}
	return d, err
}

// Draft implements audit.Drafts.
func (s *Store) Draft(ctx context.Context, policyID string) (*audit.Draft, error) {
	return orNil(one(ctx, s.reader, fmt.Sprintf("cannot read the draft of policy %q", policyID), readDraft, selectDraft, policyID))
}

// JudgeDraft implements audit.Drafts. It takes its turn with the other writers, but does not wait
// for the disk: what a power cut loses here is not part of the record.
func (s *Store) JudgeDraft(ctx context.Context, t *audit.DraftTake) (taken audit.DraftTaken, err error) {
	const doing = "cannot judge by a draft"
	turn, err := s.writer.Conn(ctx)
	if err != nil {
		return taken, unavailable(doing, err)
	}
	defer func() { _ = turn.Close() }() // returns it to the pool
	tx, err := s.hasty.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return taken, unavailable(doing, err)
	}
	if taken, err = judgeDraft(tx, t); err != nil {
		_ = tx.Rollback() // an open transaction ends with its connection at the latest
		return taken, fmt.Errorf("%s: %w", doing, classify(err))
	}
	if err := tx.Commit(); err != nil {
		return taken, unavailable(doing, err)
	}
	return taken, nil
}

func judgeDraft(tx *sql.Tx, t *audit.DraftTake) (taken audit.DraftTaken, err error) {
	at := t.Check.Time().UnixMilli()
	if t.Looks {
		sure := audit.FirstID(at - audit.SurePassMS)
		err = tx.QueryRow(`SELECT check_id FROM draft_passes AS p WHERE draft = ?1 AND fingerprint = ?2 AND until_ms > ?3
			AND (check_id < ?4 OR EXISTS (SELECT 1 FROM checks AS c WHERE c.check_id = p.check_id))`, t.Draft, t.Fingerprint[:], at, sure[:]).
			Scan(blob(taken.Repeats[:]))
		if err == nil || !errors.Is(err, sql.ErrNoRows) {
			return taken, err
		}
	}
	for i := range t.Charges {
		u, err := draftUsage(tx, t.Draft, &t.Charges[i])
		if err != nil {
			return taken, err
		}
		taken.Usages = append(taken.Usages, u)
	}
	takes, leaves := t.Settle(taken.Usages)
	for i := 0; takes && i < len(t.Charges); i++ {
		if err := takeDraft(tx, t.Draft, &t.Charges[i]); err != nil {
			return taken, err
		}
	}
	if leaves {
		_, err = tx.Exec("INSERT OR REPLACE INTO draft_passes (draft, fingerprint, check_id, until_ms) VALUES (?, ?, ?, ?)",
			t.Draft, t.Fingerprint[:], t.Check[:], t.UntilMS)
		return taken, err
	}
	return taken, nil
}

// draftUsage returns the use of a draft's counter, in all buckets that count.
func draftUsage(tx *sql.Tx, draft int64, c *spend.Charge) (u spend.Usage, err error) {
	rows, err := tx.Query("SELECT used, count FROM draft_counters WHERE draft = ? AND counter_id = ? AND start_ms BETWEEN ? AND ?",
		draft, c.Counter.ID[:], c.Counter.StartMS-spend.RollingBuckets*c.Counter.BucketMS, c.Counter.StartMS)
	if err != nil {
		return u, err
	}
	defer func() { _ = rows.Close() }() // its error is rows.Err's
	for rows.Next() {
		var used spend.Total
		var count int64
		if err := rows.Scan(parse(&used, spend.ParseTotal), &count); err != nil {
			return u, err
		}
		u.Used, u.Count = u.Used.Plus(used), u.Count+count
	}
	return u, rows.Err()
}

func takeDraft(tx *sql.Tx, draft int64, c *spend.Charge) error {
	var u spend.Usage
	err := tx.QueryRow("SELECT used, count FROM draft_counters WHERE draft = ? AND counter_id = ? AND start_ms = ?",
		draft, c.Counter.ID[:], c.Counter.StartMS).Scan(parse(&u.Used, spend.ParseTotal), &u.Count)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	u = u.Plus(c)
	_, err = tx.Exec("INSERT OR REPLACE INTO draft_counters (draft, counter_id, start_ms, end_ms, used, count) "+
		"VALUES (?, ?, ?, nullif(?, 0), ?, ?)",
		draft, c.Counter.ID[:], c.Counter.StartMS, c.EndMS, u.Used.String(), u.Count)
	return err
}
