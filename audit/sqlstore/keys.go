package sqlstore

import (
	"cmp"
	"context"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// KeyColumns are what ScanKey reads.
const KeyColumns = "id, hash, name, rpm, active, created_at, last_used, CAST(grants AS text), coalesce(stopped, 0), " +
	"coalesce(granter_since, 0), generation"

// KeyNow is a key as of a generation.
type KeyNow struct {
	*audit.Key
	Generation int64
}

// ScanKey reads KeyColumns.
func ScanKey(row Row) (KeyNow, error) {
	k := KeyNow{Key: new(audit.Key)}
	err := row.Scan(&k.ID, &k.Hash, &k.Name, &k.RateLimitRPM, &k.Active, &k.CreatedAt, &k.LastUsedAt, parse(&k.Grants, spend.ParseGrants),
		&k.Stopped, &k.GranterSince, &k.Generation)
	return k, err
}

// KeysNow returns those of the keys that exist, by key_id.
func KeysNow(ctx context.Context, tx Tx, keyIDs ...string) (map[string]KeyNow, error) {
	var ids []spend.ID
	for _, text := range keyIDs {
		if id, err := spend.ParseID(text, spend.PrefixKey); err == nil {
			ids = append(ids, id)
		}
	}
	if ids == nil {
		return nil, nil
	}
	var w where
	in(&w, "id", ids)
	all, err := collect(ctx, tx, ScanKey, "SELECT "+KeyColumns+" FROM keys"+w.String(), w.args...)
	found := make(map[string]KeyNow, len(all))
	for _, k := range all {
		found[k.ID.Text(spend.PrefixKey)] = k
	}
	return found, err
}

// Parties implements audit.Keys.
func (s *Store) Parties(ctx context.Context, keyIDs []string) (parties map[string]audit.Party, err error) {
	err = s.db.Read(ctx, "cannot read who stands behind keys", func(ctx context.Context, tx Tx) error {
		keys, err := KeysNow(ctx, tx, keyIDs...)
		parties = make(map[string]audit.Party, len(keys))
		for id, k := range keys {
			parties[id] = k.Party()
		}
		return err
	})
	return parties, err
}

// ListKeys implements audit.Keys.
func (s *Store) ListKeys(ctx context.Context, before spend.ID, limit int) (page audit.KeyPage, err error) {
	total, err := find(ctx, s, "cannot count keys", scalar[int64], "SELECT count(*) FROM keys")
	if err != nil {
		return page, err
	}
	keys, err := list(ctx, s, "cannot list keys", func(row Row) (audit.Key, error) {
		k, err := ScanKey(row)
		return *k.Key, err
	}, "SELECT "+KeyColumns+" FROM keys WHERE id < $1 ORDER BY id DESC LIMIT $2", cmp.Or(before, audit.MaxID()), limit+1)
	page.Total = *total
	page.Keys, page.More = audit.Cut(keys, limit)
	return page, err
}

// KeyByHash implements audit.Keys.
func (s *Store) KeyByHash(ctx context.Context, hash spend.Hash) (*audit.Key, error) {
	k, err := find(ctx, s, "cannot read a key", ScanKey, "SELECT "+KeyColumns+" FROM keys WHERE hash = $1", hash)
	if err != nil {
		return nil, err
	}
	return k.Key, nil
}
