package verify_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// addKey makes change 4, a new key, and change 5, the same key deactivated.
// lastStop returns the last change that stops something.
func (tr *trail) lastStop() int64 {
	tr.t.Helper()
	changes := must.Get(tr.store.ConfigChanges(tr.t.Context(), 0))(tr.t)
	return changes.Stops
}

func (tr *trail) addKey() (name string) {
	tr.t.Helper()
	k := &audit.Key{ID: spend.NewID(time.Now()), Name: "till", RateLimitRPM: 7, Active: true, CreatedAt: time.Now()}
	_, _ = rand.Read(k.Hash[:]) // never fails
	by := audit.Actor{KeyID: "key_1", Principal: "p", Credential: "01234567", RequestID: "req_1", Address: "192.0.2.1"}
	must.Do(tr.t, tr.store.CreateKey(tr.t.Context(), by, k))
	must.Get(tr.store.UpdateKey(tr.t.Context(), by, k.ID, audit.KeyChange{Active: new(false)}))(tr.t)
	return "key " + k.ID.Text(spend.PrefixKey)
}

// TestTamperedKeys alters each column of a key without a record, restores an earlier state, removes
// it and inserts one. Noting its use is not a change.
func TestTamperedKeys(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	key := tr.addKey()
	tr.exec("UPDATE keys SET last_used = now()")
	tr.tamper("keys", key, map[string]string{
		"UPDATE keys SET active = true, generation = 4": "altered " + key,
		"DELETE FROM keys": "removed " + key,
		`INSERT INTO keys (id, hash, name, rpm, active, created_at, last_used, generation) SELECT '00000000-0000-0000-0000-000000000001',
			'\x00', name, rpm, active, created_at, last_used, generation FROM keys`: "inserted key key_00000000000000000000000000000001",
	}, "id", "last_used")
}

// tamper runs each of the statements in tampered and alters each column of the table's one row,
// except the columns in but. Each alteration must have its own finding, or the finding that the row
// was altered.
func (tr *trail) tamper(table, row string, tampered map[string]string, but ...string) {
	tr.t.Helper()
	tr.finds(tr.held)
	for _, column := range tr.columns(table) {
		to := map[string]string{
			"text": "%s || ' '", "integer": "%s + 10", "bigint": "coalesce(%s, 0) + 10", "timestamp with time zone": "%s + interval '1 microsecond'",
			"boolean": "NOT %s", "jsonb": `coalesce(%s, '{}') || '{"owner": "x"}'`, "bytea": "set_byte(%s, 31, 255 - get_byte(%[1]s, 31))",
		}[column[1]]
		if !slices.Contains(but, column[0]) {
			tampered[fmt.Sprintf("UPDATE %s SET %s = %s", table, column[0], fmt.Sprintf(to, column[0]))] = "altered " + row
		}
	}
	if len(tampered) < 8 {
		tr.t.Fatalf("only %d ways: %v", len(tampered), tampered)
	}
	for tamper, want := range tampered {
		tr.exec("CREATE TEMPORARY TABLE kept AS TABLE %s", table)
		tr.exec("%s", tamper)
		tr.finds(nil, want)
		tr.exec("DELETE FROM %s; INSERT INTO %[1]s TABLE kept; DROP TABLE kept", table)
	}
	tr.finds(tr.held)
}

// addWebhook makes a webhook and changes it, and makes another and deletes it.
func (tr *trail) addWebhook() (name string) {
	tr.t.Helper()
	ctx, by := tr.t.Context(), audit.Actor{Credential: "01234567"}
	add := func() *audit.Webhook {
		w := &audit.Webhook{
			ID: spend.NewID(time.Now()), URL: "https://example.com/ゼロ", EventTypes: []audit.EventType{audit.EventKeyChanged},
			CreatedAt: time.Now(),
		}
		must.Do(tr.t, tr.store.CreateWebhook(ctx, by, w, audit.Secret(rand.Text()), 0))
		return w
	}
	kept, deleted := add(), add()
	must.Get(tr.store.UpdateWebhook(ctx, by, kept.ID,
		audit.WebhookChange{Active: new(true), Secret: audit.Secret(rand.Text())}))(tr.t)
	must.Do(tr.t, tr.store.DeleteWebhook(ctx, by, deleted.ID))
	return "webhook " + kept.ID.Text(spend.PrefixWebhook)
}

// TestTamperedWebhooks alters each column of a webhook without a record, removes it and inserts
// one: nobody can redirect deliveries unnoticed.
func TestTamperedWebhooks(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	webhook := tr.addWebhook()
	tr.tamper("webhooks", webhook, map[string]string{
		"DELETE FROM webhooks": "removed " + webhook,
		`INSERT INTO webhooks SELECT '00000000-0000-0000-0000-000000000001', url, event_types, active, secret_sha256, created_at, generation
			FROM webhooks`: "inserted webhook whk_00000000000000000000000000000001",
	}, "id")
}

// TestTamperedChanges alters each column of a change.
func TestTamperedChanges(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	key := tr.addKey()
	const change = "change 4 of the configuration"
	for _, column := range tr.columns("changes") {
		to := map[string]string{
			"text": "%s || ' '", "timestamp with time zone": "%s + interval '1 microsecond'", "integer": "7",
			"bytea": "set_byte(%s, 31, 255 - get_byte(%[1]s, 31))",
		}[column[1]]
		want := []string{"altered " + change}
		switch column[0] {
		case "seq":
			continue // see below
		case "xid", "position":
			continue // bookkeeping
		case "subject":
			want = append(want, "removed "+key+" ")
		}
		tr.exec("CREATE TEMPORARY TABLE kept AS SELECT * FROM changes")
		if set := fmt.Sprintf(to, column[0]); column[1] == "integer" {
			tr.exec("UPDATE changes SET %s = 7 WHERE seq = 4", column[0])
		} else {
			tr.exec("UPDATE changes SET %s = %s WHERE seq = 4", column[0], set)
		}
		tr.finds(nil, want...)
		tr.exec("DELETE FROM changes; INSERT INTO changes SELECT * FROM kept; DROP TABLE kept")
	}
	tr.exec("UPDATE changes SET seq = 6 WHERE seq = 5")
	tr.finds(nil, "removed change 5 of the configuration")
	tr.exec("UPDATE changes SET seq = 5 WHERE seq = 6")
	tr.finds(tr.held)
	// The end cut off, key and all: only a checkpoint tells.
	tr.sign()
	tr.exec("DELETE FROM changes WHERE seq >= 4; DELETE FROM keys")
	tr.finds(nil)
	tr.finds(tr.held, "removed change 5 of the configuration")
}

// TestBackdatedChange names a change that is older than a checkpoint without it.
func TestBackdatedChange(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	tr.addKey()
	tr.exec("UPDATE changes SET at = at - interval '1 hour' WHERE seq = 5")
	changes, err := tr.store.Changes(t.Context(), audit.ChangeQuery{After: 3, Limit: 2})
	if err != nil || len(changes) != 2 {
		t.Fatalf("%v, %v", changes, err)
	}
	head := chain.ChangeHead(changes[0].Head, changes[1].Row())
	if bytes.Equal(head[:], changes[1].Head[:]) {
		t.Error("the head does not depend on the time")
	}
	tr.exec(`UPDATE changes SET head = '\x%x' WHERE seq = 5`, head[:])
	tr.finds(nil)
	tr.finds(tr.held, "inserted change 5 of the configuration")
}
