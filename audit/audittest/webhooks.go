package audittest

import (
	"crypto/rand"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

func webhookTests() []test {
	return []test{
		{"WebhooksComeBack", webhooksComeBack},
		{"WebhooksAreBounded", webhooksAreBounded},
		{"WebhookLeases", webhookLeases},
		{"WebhookLeasesRace", webhookLeasesRace},
		{"WebhookDeliveries", webhookDeliveries},
		{"WebhookReplays", webhookReplays},
		{"WebhookRetries", webhookRetries},
		{"WebhookSecrets", webhookSecrets},
		{"WebhookTypes", webhookTypes},
		{"DeliveriesExpire", deliveriesExpire},
	}
}

const longLease = time.Minute

// newWebhook returns an active webhook, listed before those made earlier.
func newWebhook() *audit.Webhook {
	time.Sleep(time.Microsecond) // IDs of the same quarter microsecond are unordered
	return &audit.Webhook{
		ID: spend.NewID(now()), URL: "https://receiver.example/ゼロ?a=b", Active: true, CreatedAt: epochStart,
		EventTypes: []audit.EventType{audit.EventApprovalRequested, audit.EventViolationRecorded},
	}
}

func newSecret() audit.Secret { return audit.Secret("whsec_" + rand.Text()) }

func mustCreateWebhook(t *testing.T, s Subject, cursor int64) (*audit.Webhook, audit.Secret) {
	t.Helper()
	w, secret := newWebhook(), newSecret()
	must(t, s.CreateWebhook(t.Context(), actor(), w, secret, cursor))
	return w, secret
}

func mustLease(t *testing.T, s Subject, holder spend.ID, serving ...spend.ID) []spend.ID {
	t.Helper()
	leases := get(s.LeaseWebhooks(t.Context(), holder, serving, longLease))(t)
	slices.SortFunc(leases.Taken, func(a, b spend.ID) int { return slices.Compare(a[:], b[:]) })
	return leases.Taken
}

func mustHold(t *testing.T, s Subject, holder, id spend.ID) *audit.WebhookTask {
	t.Helper()
	task := get(s.HoldWebhook(t.Context(), holder, id, audit.WebhookSeen{}, longLease))(t)
	return task
}

// webhooksComeBack changes webhooks in every way and reads them.
func webhooksComeBack(t *testing.T, s Subject) {
	ctx := t.Context()
	first, _ := mustCreateWebhook(t, s, 0)
	second, secret := mustCreateWebhook(t, s, 0)
	all, err := s.ListWebhooks(ctx)
	if want := []audit.Webhook{*second, *first}; err != nil || !reflect.DeepEqual(all, want) {
		t.Fatalf("listed %+v, %v, want %+v", all, err, want)
	}
	if second.SecretSum != secret.Sum() {
		t.Error("the webhook does not have the sum of its secret")
	}
	for _, change := range []audit.WebhookChange{
		{URL: new("http://elsewhere.example/")},
		{EventTypes: []audit.EventType{audit.EventKeyChanged}},
		{Active: new(false)},
		{Secret: newSecret()},
		{URL: new("https://receiver.example/"), EventTypes: first.EventTypes, Active: new(true)},
	} {
		change.Apply(second)
		changed := get(s.UpdateWebhook(ctx, actor(), second.ID, change))(t)
		changed.SecretSum = second.SecretSum // it may be left out
		got, err := s.Webhook(ctx, second.ID)
		if err != nil || !reflect.DeepEqual(got, second) || !reflect.DeepEqual(changed, second) {
			t.Errorf("%+v: read %+v, returned %+v, %v, want %+v", change, got, changed, err, second)
		}
	}
	must(t, s.DeleteWebhook(ctx, actor(), second.ID))
	unknown := spend.NewID(now())
	for what, err := range map[string]error{
		"read again":   errorOf(s.Webhook(ctx, second.ID)),
		"delete again": s.DeleteWebhook(ctx, actor(), second.ID),
		"update":       errorOf(s.UpdateWebhook(ctx, actor(), second.ID, audit.WebhookChange{Active: new(true)})),
		"unknown":      s.DeleteWebhook(ctx, actor(), unknown),
	} {
		if !errors.Is(err, audit.ErrNotFound) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if got, err := s.Webhook(ctx, first.ID); err != nil || !reflect.DeepEqual(got, first) {
		t.Errorf("the other is now %+v, %v", got, err)
	}
	if recorded := mustRecord(t, s, audit.ChangeQuery{}); len(recorded) != 8 {
		t.Errorf("%d changes are recorded, want 8", len(recorded))
	}
}

func errorOf[T any](_ T, err error) error { return err }

// webhooksAreBounded creates as many webhooks as allowed, and one more.
func webhooksAreBounded(t *testing.T, s Subject) {
	for range audit.MaxWebhooks {
		mustCreateWebhook(t, s, 0)
	}
	one := newWebhook()
	if err := s.CreateWebhook(t.Context(), actor(), one, newSecret(), 0); !errors.Is(err, audit.ErrWebhooksFull) {
		t.Fatalf("got %v, want ErrWebhooksFull", err)
	}
	all, err := s.ListWebhooks(t.Context())
	if err != nil || len(all) != audit.MaxWebhooks {
		t.Fatalf("%d webhooks, %v", len(all), err)
	}
	must(t, s.DeleteWebhook(t.Context(), actor(), all[0].ID))
	if err := s.CreateWebhook(t.Context(), actor(), one, newSecret(), 0); err != nil {
		t.Error(err)
	}
}

// webhookLeases lets nodes hold webhooks one after the other.
func webhookLeases(t *testing.T, s Subject) {
	ctx := t.Context()
	a, b := spend.NewID(now()), spend.NewID(now())
	first, _ := mustCreateWebhook(t, s, 7)
	if taken := mustLease(t, s, a); !slices.Equal(taken, []spend.ID{first.ID}) {
		t.Fatalf("took %x", taken)
	}
	second, _ := mustCreateWebhook(t, s, 7)
	disabled, _ := mustCreateWebhook(t, s, 7)
	get(s.UpdateWebhook(ctx, actor(), disabled.ID, audit.WebhookChange{Active: new(false)}))(t)
	if taken := mustLease(t, s, b); !slices.Equal(taken, []spend.ID{second.ID}) {
		t.Errorf("the other node took %x, want what nobody holds and is active", taken)
	}
	if leases, err := s.LeaseWebhooks(ctx, b, []spend.ID{second.ID}, longLease); err != nil || leases.Active != 2 || leases.Disabled != 1 ||
		len(leases.Taken) > 0 {
		t.Errorf("got %+v, %v", leases, err)
	}
	if taken := mustLease(t, s, a); !slices.Equal(taken, []spend.ID{first.ID}) {
		t.Errorf("took %x, want what it holds without serving it", taken)
	}
	mustNotHold := func(holder, id spend.ID) {
		t.Helper()
		if _, err := s.HoldWebhook(ctx, holder, id, audit.WebhookSeen{}, longLease); !errors.Is(err, audit.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
		if err := s.RecordDelivery(ctx, holder, delivered(id, 8)); !errors.Is(err, audit.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	}
	mustNotHold(b, first.ID)
	if task := mustHold(t, s, a, first.ID); task.Cursor != 7 || task.ID != first.ID || task.FirstRetry() != nil || !task.OldestAt.IsZero() {
		t.Errorf("to do: %+v", task)
	}
	// A lease that has ended without its holder knowing.
	get(s.HoldWebhook(ctx, a, first.ID, audit.WebhookSeen{Cursor: 9, EventTypes: first.EventTypes}, time.Millisecond))(t)
	time.Sleep(20 * time.Millisecond)
	mustNotHold(a, first.ID)
	if taken := mustLease(t, s, b, second.ID); !slices.Equal(taken, []spend.ID{first.ID}) {
		t.Errorf("took %x, want the one whose lease is over", taken)
	}
	mustNotHold(a, first.ID)
	if task := mustHold(t, s, b, first.ID); task.Cursor != 9 {
		t.Errorf("the cursor is %d, want that of the node before", task.Cursor)
	}
	must(t, s.ReleaseWebhooks(ctx, b))
	mustNotHold(b, first.ID)
	if taken := mustLease(t, s, a); !slices.Equal(taken, []spend.ID{first.ID, second.ID}) {
		t.Errorf("took %x, want what was released", taken)
	}
	get(s.UpdateWebhook(ctx, actor(), first.ID, audit.WebhookChange{Active: new(false)}))(t)
	if _, err := s.HoldWebhook(ctx, a, first.ID, audit.WebhookSeen{}, longLease); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("a disabled one is held: %v", err)
	}
}

// webhookLeasesRace lets many nodes take the same webhooks.
func webhookLeasesRace(t *testing.T, s Subject) {
	const webhooks, nodes = 8, 6
	for range webhooks {
		mustCreateWebhook(t, s, 0)
	}
	var mu sync.Mutex
	holders := make(map[spend.ID]int)
	var all sync.WaitGroup
	for range nodes {
		all.Go(func() {
			leases, err := s.LeaseWebhooks(t.Context(), spend.NewID(now()), nil, longLease)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, id := range leases.Taken {
				holders[id]++
			}
		})
	}
	all.Wait()
	for id, n := range holders {
		if n != 1 {
			t.Errorf("webhook %x has %d holders", id, n)
		}
	}
	if rest := mustLease(t, s, spend.NewID(now())); len(holders)+len(rest) != webhooks {
		t.Errorf("%d were taken, then %d, of %d", len(holders), len(rest), webhooks)
	}
}
