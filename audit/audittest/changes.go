package audittest

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// changesAreRecorded makes a change of every kind, by actors of every kind, and reads the record:
// it is complete, in order, chained, and equal to the stored configuration.
func changesAreRecorded(t *testing.T, s Subject) {
	ctx, began := t.Context(), now()
	admin, key, system := actor(), actor(), audit.Actor{Principal: "test"}
	key.Credential = ""
	p, k := newPolicy("p"), newKey()
	p.Note = "because\nof \"it\" <ü>"
	k.Name = `Kasse – ゼロ <"\\">`
	must(t, s.CreatePolicy(ctx, key, p, audit.NewBudgets{}, epochStart))
	must(t, s.CreateKey(ctx, system, k))
	if _, err := s.UpdateKey(ctx, admin, spend.NewID(now()), audit.KeyChange{Active: new(false)}); !errors.Is(err, audit.ErrNotFound) {
		t.Fatal(err)
	}
	must(t, s.NoteKeyUses(ctx, []audit.KeyUse{{ID: k.ID, At: epochStart}}))
	changed := get(s.UpdateKey(ctx, admin, k.ID, audit.KeyChange{Active: new(false)}))(t)
	made, secret := newWebhook(), newSecret()
	must(t, s.CreateWebhook(ctx, admin, made, secret, 0))
	rotated := *made
	must(t, updateAndDelete(t, s, admin, system, &rotated))
	got := mustRecord(t, s, audit.ChangeQuery{})
	want := []audit.Change{
		audit.ChangeOfPolicy(p, nil, 1, key, time.Time{}), audit.ChangeOfKey(audit.KeyCreated, k, 2, system, time.Time{}),
		audit.ChangeOfKey(audit.KeyChanged, changed, 3, admin, time.Time{}),
		audit.ChangeOfWebhook(audit.WebhookCreated, made, 4, admin, time.Time{}),
		audit.ChangeOfWebhook(audit.WebhookChanged, &rotated, 5, admin, time.Time{}),
		audit.ChangeOfWebhook(audit.WebhookDeleted, &rotated, 6, system, time.Time{}),
	}
	var previous spend.Hash
	for i, c := range got {
		if head := chain.ChangeHead(previous, c.Row()); c.Head != head {
			t.Errorf("change %d has the head %x, computed %x", c.Seq, c.Head, head)
		}
		previous = c.Head
		if c.At.Before(began.Add(-clockTolerance)) || c.At.After(now().Add(clockTolerance)) {
			t.Errorf("change %d was made at %v", c.Seq, c.At)
		}
		if i < len(want) {
			if details(t, c.Details) != details(t, want[i].Details) {
				t.Errorf("change %d tells %s, want %s", c.Seq, c.Details, want[i].Details)
			}
			want[i].At, want[i].Head, want[i].Details = c.At, c.Head, c.Details
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("recorded\n%+v\nwant\n%+v", got, want)
	}
	changesAreFiltered(t, s, k.ID.Text(spend.PrefixKey), key.KeyID, began)
}

// updateAndDelete changes all fields of a webhook, and deletes it.
func updateAndDelete(t *testing.T, s Subject, by, deletedBy audit.Actor, w *audit.Webhook) error {
	change := audit.WebhookChange{
		URL: new("http://x/ゼロ"), EventTypes: []audit.EventType{audit.EventKeyChanged}, Active: new(false), Secret: newSecret(),
	}
	change.Apply(w)
	_, err := s.UpdateWebhook(t.Context(), by, w.ID, change)
	return errors.Join(err, s.DeleteWebhook(t.Context(), deletedBy, w.ID))
}

// changesAreFiltered queries changes that changesAreRecorded made to one key, and with another key.
func changesAreFiltered(t *testing.T, s Subject, changed, author string, began time.Time) {
	for _, c := range []struct {
		query audit.ChangeQuery
		want  []int64
	}{
		{audit.ChangeQuery{PolicyID: "p"}, []int64{1}},
		{audit.ChangeQuery{PolicyID: changed}, nil},
		{audit.ChangeQuery{KeyID: changed}, []int64{2, 3}},
		{audit.ChangeQuery{KeyID: author}, []int64{1, 3, 4, 5}}, // made with it
		{audit.ChangeQuery{KeyID: "p"}, nil},
		{audit.ChangeQuery{Since: now().Add(time.Hour)}, nil},
		{audit.ChangeQuery{Since: began.Add(-time.Hour)}, []int64{1, 2, 3, 4, 5, 6}},
		{audit.ChangeQuery{After: 5}, []int64{6}},
		{audit.ChangeQuery{Limit: 2}, []int64{1, 2}},
	} {
		var numbers []int64
		for _, found := range mustRecord(t, s, c.query) {
			numbers = append(numbers, found.Seq)
		}
		if !slices.Equal(numbers, c.want) {
			t.Errorf("%+v: got %d, want %d", c.query, numbers, c.want)
		}
	}
}

// mustRecord reads changes; a limit of 0 means no limit.
func mustRecord(t *testing.T, s Subject, q audit.ChangeQuery) []audit.Change {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	changes := get(s.Changes(t.Context(), q))(t)
	return changes
}

// details returns a JSON object with sorted members and without white space.
func details(t *testing.T, object string) string {
	t.Helper()
	var members map[string]any
	must(t, json.Unmarshal([]byte(object), &members))
	b := get(json.Marshal(members))(t)
	return string(b)
}

// noChangeWithoutRecord: the database refuses changes of the configuration without a record.
func noChangeWithoutRecord(t *testing.T, s Subject) {
	ctx := t.Context()
	k := newKey()
	must(t, s.CreatePolicy(ctx, actor(), newPolicy("p"), audit.NewBudgets{}, epochStart))
	must(t, s.CreateKey(ctx, actor(), k))
	mustCreateWebhook(t, s, 0)
	const policy = "INSERT INTO policies (policy_id, version, name, description, rules, metadata, created_at, updated_at, generation) " +
		"SELECT policy_id, 2, name, description, rules, metadata, created_at, updated_at, "
	for _, statement := range append([]string{
		policy + "generation FROM policies", policy + "generation + 2 FROM policies",
		"UPDATE keys SET rpm = 7", "UPDATE keys SET rpm = 7, generation = generation + 1", "UPDATE keys SET generation = 1",
	}, s.Unrecorded...) {
		if err := s.Exec(t, statement); err == nil {
			t.Errorf("%s: was not refused", statement)
		}
	}
	if got, err := s.KeyByHash(ctx, k.Hash); err != nil || !reflect.DeepEqual(got, k) {
		t.Errorf("the key is now %+v, %v", got, err)
	}
	if p, err := s.Policy(ctx, "p", 0); err != nil || p.Version != 1 {
		t.Errorf("the policy is now %+v, %v", p, err)
	}
	if recorded := mustRecord(t, s, audit.ChangeQuery{}); len(recorded) != 3 {
		t.Errorf("%d changes are recorded, want 3", len(recorded))
	}
}
