package sqlstore

import (
	"cmp"
	"context"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// KeyColumns are what KeyTargets take.
const KeyColumns = "id, hash, name, rpm, active, created_at, last_used, CAST(grants AS text), coalesce(stopped, 0), " +
	"coalesce(granter_since, 0)"

// KeyTargets returns the targets of a scan of KeyColumns.
func KeyTargets(k *audit.Key) []any {
	return []any{
		&k.ID, &k.Hash, &k.Name, &k.RateLimitRPM, &k.Active, &k.CreatedAt, &k.LastUsedAt, Parse(&k.Grants, spend.ParseGrants),
		&k.Stopped, &k.GranterSince,
	}
}

// ScanKey reads KeyColumns.
func ScanKey(row Row) (k audit.Key, err error) { return k, row.Scan(KeyTargets(&k)...) }

// KeyNow is a key as of a generation.
type KeyNow struct {
	*audit.Key
	Generation int64
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
	var w Where
	Among(&w, "id", ids)
	all, err := collect(ctx, tx, func(row Row) (KeyNow, error) {
		k := KeyNow{Key: new(audit.Key)}
		return k, row.Scan(append(KeyTargets(k.Key), &k.Generation)...)
	}, "SELECT "+KeyColumns+", generation FROM keys"+w.String(), w.Args...)
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
	if page.Total, err = value[int64](ctx, s, "cannot count keys", "SELECT count(*) FROM keys"); err != nil {
		return page, err
	}
	keys, err := list(ctx, s, "cannot list keys", ScanKey,
		"SELECT "+KeyColumns+" FROM keys WHERE id < $1 ORDER BY id DESC LIMIT $2", cmp.Or(before, audit.MaxID()), limit+1)
	page.Keys, page.More = audit.Cut(keys, limit)
	return page, err
}

// KeyByHash implements audit.Keys.
func (s *Store) KeyByHash(ctx context.Context, hash spend.Hash) (*audit.Key, error) {
	return find(ctx, s, "cannot read a key", ScanKey, "SELECT "+KeyColumns+" FROM keys WHERE hash = $1", hash)
}
