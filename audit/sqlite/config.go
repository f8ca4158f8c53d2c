package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// CreatePolicy implements audit.Policies.
func (s *Store) CreatePolicy(ctx context.Context, by audit.Actor, p *audit.Policy, b audit.NewBudgets, now time.Time) error {
	stored := p
	err := s.write(ctx, fmt.Sprintf("cannot create policy %q", p.PolicyID), func(tx *sql.Tx) error {
		asked, version, err := sqlstore.Asks(ctx, databaseTx{tx}, p.PolicyID)
		if err != nil {
			return err
		}
		if p.Replaces != nil && *p.Replaces != version {
			return &audit.VersionError{Version: version}
		}
		var forced *audit.Forcing
		if asked != nil {
			if by.Kind() != audit.KindAdmin {
				return &audit.ChangeNeedsApprovalError{PolicyID: p.PolicyID, Version: version}
			}
			forced = new(audit.Forcing)
		}
		stored, err = createPolicy(tx, by, newVersion{p, b, forced}, now)
		return err
	})
	if err == nil {
		*p = *stored
	}
	return err
}

// newVersion is a version of a policy to be created.
type newVersion struct {
	*audit.Policy
	budgets audit.NewBudgets
	forced  *audit.Forcing // nil unless an admin creates it against the requirements of the previous version
}

// createPolicy adds a version, whatever the previous version asks of people.
func createPolicy(tx *sql.Tx, by audit.Actor, p newVersion, now time.Time) (*audit.Policy, error) {
	stored := *p.Policy
	stored.Forced = p.forced != nil
	generation, err := raise(tx)
	if err != nil {
		return nil, err
	}
	var last, created sql.NullInt64
	err = tx.QueryRow("SELECT max(version), min(created_at) FROM policies WHERE policy_id = ?", p.PolicyID).Scan(&last, &created)
	if err != nil {
		return nil, err
	}
	if !created.Valid {
		created.Int64 = now.UnixMilli()
	}
	stored.Version = int(last.Int64) + 1
	stored.CreatedAt, stored.UpdatedAt = fromMilli(created.Int64), fromMilli(now.UnixMilli())
	if stored.Budgets, err = countSince(tx, &stored, p.budgets); err != nil {
		return nil, err
	}
	_, err = tx.Exec(`INSERT INTO policies (policy_id, version, name, description, rules, metadata, created_at, updated_at, generation,
		budgets, redeem, changes)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, p.PolicyID, stored.Version, p.Name, p.Description, p.Rules, p.Metadata,
		created.Int64, now.UnixMilli(), generation, orNull(audit.BudgetsText(stored.Budgets)), orNull(p.Redeem.Text()), orNull(p.Changes))
	if err != nil {
		return nil, err
	}
	change := audit.ChangeOfPolicy(&stored, p.budgets.Drop, generation, by, time.Now())
	if err := record(tx, change); err != nil || p.forced == nil {
		return &stored, err
	}
	return &stored, record(tx, audit.ChangeOfForcing(p.forced, &change, time.Now()))
}

// countSince returns the budgets of a new version: budgets that are the same as in the previous
// version go on counting; any other must not be in use, unless it is dropped (S63).
func countSince(tx *sql.Tx, p *audit.Policy, b audit.NewBudgets) (map[string]spend.BudgetSince, error) {
	var text sql.NullString
	err := tx.QueryRow("SELECT budgets FROM policies WHERE policy_id = ? AND version = ?", p.PolicyID, p.Version-1).Scan(&text)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	previous, err := audit.ParseBudgets(text.String)
	if err != nil {
		return nil, err
	}
	budgets := audit.CountSince(b.Identities, previous, p.Version, p.UpdatedAt)
	err = b.Refuse(budgets, previous, func(ruleID string) (used bool, err error) {
		err = tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM budget_counters WHERE policy_id = ? AND rule_id = ? AND since = ?
			AND (used <> '0' OR count > 0) AND (end_ms IS NULL OR end_ms > ?))`,
			p.PolicyID, ruleID, previous[ruleID].Version, p.UpdatedAt.UnixMilli()).Scan(&used)
		return used, err
	})
	return budgets, err
}

// CreateKey implements audit.Keys.
func (s *Store) CreateKey(ctx context.Context, by audit.Actor, k *audit.Key) error {
	return s.write(ctx, "cannot create key "+k.ID.Text(spend.PrefixKey), func(tx *sql.Tx) error {
		generation, err := raise(tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec("INSERT INTO keys (id, hash, name, rpm, active, created_at, grants, generation) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			k.ID[:], k.Hash[:], k.Name, k.RateLimitRPM, k.Active, k.CreatedAt.UnixMilli(), orNull(k.Grants.Text()), generation)
		if err != nil {
			return err
		}
		stored := *k
		stored.CreatedAt = fromMilli(k.CreatedAt.UnixMilli())
		return record(tx, audit.ChangeOfKey(audit.KeyCreated, &stored, generation, by, time.Now()))
	})
}

// UpdateKey implements audit.Keys.
func (s *Store) UpdateKey(ctx context.Context, by audit.Actor, id spend.ID, change audit.KeyChange) (*audit.Key, error) {
	var k audit.Key
	err := s.write(ctx, "cannot update key "+id.Text(spend.PrefixKey), func(tx *sql.Tx) error {
		generation, err := raise(tx)
		if err != nil {
			return err
		}
		// If the key does not exist, the generation is rolled back.
		before, err := sqlstore.ScanKey(rowOf(tx, "SELECT "+sqlstore.KeyColumns+" FROM keys WHERE id = ?", id[:]))
		if err != nil {
			return err
		}
		k, err = sqlstore.ScanKey(rowOf(tx, `UPDATE keys SET active = coalesce(?1, active), name = coalesce(?2, name),
			rpm = coalesce(?3, rpm), grants = CASE WHEN ?4 IS NULL THEN grants ELSE nullif(json_patch(coalesce(grants, '{}'), ?4), '{}') END,
			generation = ?5 WHERE id = ?6 RETURNING `+sqlstore.KeyColumns,
			change.Active, change.Name, change.RateLimitRPM, orNull(change.Grants.MergePatch()), generation, id[:]))
		at := time.Now()
		if change.Stops {
			k.Stopped = generation
		}
		if k.MayGrant(at) && !before.MayGrant(at) {
			k.GranterSince = generation
		}
		if err == nil {
			_, err = tx.Exec("UPDATE keys SET stopped = nullif(?, 0), granter_since = nullif(?, 0) WHERE id = ?", k.Stopped, k.GranterSince, id[:])
		}
		if err != nil {
			return err
		}
		made := audit.ChangeOfKey(audit.KeyChanged, &k, generation, by, at)
		if !change.Stales() {
			return record(tx, made)
		}
		if err := stop(tx, made); err != nil {
			return err
		}
		return reopenApprovedBy(ctx, tx, id.Text(spend.PrefixKey), by, func(asked *spend.Check) bool {
			return change.Deactivates() || k.MayDecide(asked, at) && !before.MayDecide(asked, at)
		})
	})
	return orNil(k, err)
}

// RecordExpiring implements audit.Keys.
func (s *Store) RecordExpiring(ctx context.Context, expiring *audit.Key) error {
	return s.write(ctx, "cannot record that key "+expiring.ID.Text(spend.PrefixKey)+" expires", func(tx *sql.Tx) error {
		k, err := sqlstore.ScanKey(rowOf(tx, `SELECT `+sqlstore.KeyColumns+` FROM keys
			WHERE id = ?1 AND active AND grants ->> '$.expires_at' = ?2 ->> '$.expires_at' AND NOT EXISTS (SELECT 1 FROM changes
				WHERE subject = ?3 AND kind = 'key.expiring' AND details ->> '$.expires_at' = ?2 ->> '$.expires_at')`,
			expiring.ID[:], expiring.Grants.Text(), expiring.ID.Text(spend.PrefixKey)))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		var generation int64
		if err == nil {
			generation, err = raise(tx)
		}
		if err == nil {
			_, err = tx.Exec("UPDATE keys SET generation = ? WHERE id = ?", generation, k.ID[:])
		}
		if err == nil {
			err = record(tx, audit.ChangeOfKey(audit.KeyExpiring, &k, generation, audit.Actor{}, time.Now()))
		}
		return err
	})
}

// NoteKeyUses implements audit.Keys.
func (s *Store) NoteKeyUses(ctx context.Context, uses []audit.KeyUse) error {
	return s.write(ctx, "cannot note uses of keys", func(tx *sql.Tx) error {
		for _, u := range uses {
			ms := u.At.UnixMilli()
			if _, err := tx.Exec("UPDATE keys SET last_used = ?1 WHERE id = ?2 AND coalesce(last_used, 0) < ?1", ms, u.ID[:]); err != nil {
				return err
			}
		}
		return nil
	})
}

// ConfigChanges implements audit.Store.
func (s *Store) ConfigChanges(ctx context.Context, since int64) (audit.ConfigChanges, error) {
	const doing = "cannot read the configuration's changes"
	var changes audit.ConfigChanges
	// A read transaction sees one state of the file.
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return changes, unavailable(doing, err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	if changes.Generation, err = one(ctx, tx, doing, scalar[int64], "SELECT generation FROM config"); err != nil {
		return changes, err
	}
	if changes.Keys, err = collect(ctx, tx, doing, sqlstore.ScanKey,
		"SELECT "+sqlstore.KeyColumns+" FROM keys WHERE generation > ?", since); err != nil {
		return changes, err
	}
	if changes.PolicyIDs, err = collect(ctx, tx, doing, scalar[string],
		"SELECT DISTINCT policy_id FROM policies WHERE generation > ?", since); err != nil {
		return changes, err
	}
	if changes.Stops, err = one(ctx, tx, doing, scalar[int64], "SELECT stops FROM epoch"); err != nil {
		return changes, err
	}
	changes.Stopping, err = collect(ctx, tx, doing, sqlstore.ScanChange, `SELECT `+sqlstore.ChangeColumns+` FROM changes AS c
		WHERE kind LIKE 'freeze.%' AND seq > ?1 AND (?1 > 0 OR kind = 'freeze.created' AND NOT EXISTS (
			SELECT 1 FROM changes AS e WHERE e.subject = c.subject AND e.kind IN ('freeze.released', 'freeze.ended')))
		UNION ALL SELECT `+sqlstore.ChangeColumns+` FROM changes AS c
		WHERE kind LIKE 'grant.%' AND seq > ?1 AND details ->> 'until_ms' > ?2`, since, time.Now().Add(-audit.GrantMargin).UnixMilli())
	return changes, err
}
