package audittest

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// delivered returns a successful first attempt.
func delivered(webhook spend.ID, sequence int64) audit.DeliveryResult {
	time.Sleep(time.Microsecond) // IDs of the same quarter microsecond are unordered
	return audit.DeliveryResult{
		Delivery: audit.Delivery{
			ID: spend.NewID(now()), WebhookID: webhook, Sequence: sequence, EventID: audit.EventID(audit.EventApprovalRequested, webhook),
			EventType: audit.EventApprovalRequested, Attempt: 1, Duration: 12 * time.Millisecond, StatusCode: 204,
		},
		EventAt: epochStart, Seen: audit.WebhookSeen{Cursor: sequence, EventTypes: newWebhook().EventTypes},
	}
}

// failed returns a failed attempt, after which the event is due again at once.
func failed(webhook spend.ID, sequence int64, retry *audit.WebhookRetry) audit.DeliveryResult {
	r := delivered(webhook, sequence)
	r.StatusCode, r.Error, r.RetryIn, r.Pause, r.Retry = 500, "status 500 – ゼロ", time.Millisecond, time.Hour, retry
	if retry != nil {
		r.Attempt, r.Seen = retry.Attempts+1, audit.WebhookSeen{}
	}
	return r
}

// webhookDeliveries records attempts of every kind and reads what is due.
func webhookDeliveries(t *testing.T, s Subject) {
	node := spend.NewID(now())
	w, _ := mustCreateWebhook(t, s, 10)
	other, _ := mustCreateWebhook(t, s, 10)
	mustLease(t, s, node)
	var want []audit.Delivery
	attempt := func(r audit.DeliveryResult) *audit.WebhookTask {
		t.Helper()
		must(t, s.RecordDelivery(t.Context(), node, r))
		want = append([]audit.Delivery{r.Delivery}, want...)
		return mustHold(t, s, node, w.ID)
	}
	if task := attempt(delivered(w.ID, 11)); task.Cursor != 11 || task.Failures != 0 || task.FirstRetry() != nil ||
		task.ResumeAt.After(task.Now) {
		t.Errorf("after a delivery: %+v", task)
	}
	task := attempt(failed(w.ID, 12, nil))
	if task.Cursor != 12 || task.Failures != 1 || task.FirstRetry() == nil || !task.ResumeAt.After(task.Now) ||
		!task.OldestAt.Equal(epochStart) {
		t.Fatalf("after a failure: %+v", task)
	}
	if r := task.FirstRetry(); r.Sequence != 12 || r.Attempts != 1 {
		t.Errorf("to be tried again: %+v", r)
	}
	task = attempt(failed(w.ID, 12, task.FirstRetry()))
	if task.Cursor != 12 || task.Failures != 2 || task.FirstRetry() == nil || task.FirstRetry().Attempts != 2 ||
		!task.OldestAt.Equal(epochStart) {
		t.Fatalf("after a second failure: %+v, %+v", task, task.FirstRetry())
	}
	task = attempt(redelivered(w.ID, task.FirstRetry()))
	if task.Failures != 0 || task.FirstRetry() != nil || task.ResumeAt.After(task.Now) || !task.OldestAt.IsZero() {
		t.Errorf("after a retry that was delivered: %+v", task)
	}
	last := failed(w.ID, 13, nil)
	last.RetryIn = 0
	if task = attempt(last); task.Cursor != 13 || task.Failures != 1 || task.FirstRetry() != nil {
		t.Errorf("after a last failure: %+v", task)
	}
	if task := mustHold(t, s, node, other.ID); task.Cursor != 10 || task.Failures != 0 {
		t.Errorf("the other webhook is at %+v", task)
	}
	var got []audit.Delivery
	for q := (audit.DeliveryQuery{WebhookID: w.ID, Limit: 4}); ; {
		page, more, err := s.Deliveries(t.Context(), q)
		if err != nil || len(page) != 4 && more {
			t.Fatalf("%d attempts, %v", len(page), err)
		}
		if got = append(got, page...); !more {
			break
		}
		q.Before = page[len(page)-1].ID
	}
	for i := range got {
		if (got[i].Error != "" && got[i].Attempt < 3 && got[i].Sequence != 13) == got[i].NextAt.IsZero() {
			t.Errorf("attempt %+v", got[i])
		}
		got[i].NextAt = time.Time{}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("listed\n%+v\nwant\n%+v", got, want)
	}
}

// redelivered is delivered of a retry.
func redelivered(webhook spend.ID, retry *audit.WebhookRetry) audit.DeliveryResult {
	r := delivered(webhook, retry.Sequence)
	r.Attempt, r.Retry, r.Seen = retry.Attempts+1, retry, audit.WebhookSeen{}
	return r
}

// webhookReplays replays events: a delivered one, one that waits for its retry, and one that is
// being tried.
func webhookReplays(t *testing.T, s Subject) {
	ctx, node := t.Context(), spend.NewID(now())
	w, _ := mustCreateWebhook(t, s, 0)
	mustLease(t, s, node)
	one, two := delivered(w.ID, 1), failed(w.ID, 2, nil)
	two.RetryIn = time.Hour
	for _, r := range []audit.DeliveryResult{one, two} {
		must(t, s.RecordDelivery(ctx, node, r))
	}
	replay := func(id spend.ID) *audit.WebhookTask {
		t.Helper()
		if d, err := s.ReplayDelivery(ctx, w.ID, id); err != nil || d.ID != id || d.WebhookID != w.ID {
			t.Fatalf("got %+v, %v", d, err)
		}
		return mustHold(t, s, node, w.ID)
	}
	due := func() []spend.ID {
		t.Helper()
		leases, err := s.LeaseWebhooks(ctx, node, []spend.ID{w.ID}, longLease)
		must(t, err)
		return leases.Due
	}
	if ids := due(); len(ids) > 0 {
		t.Errorf("due before the replay: %x", ids)
	}
	task := replay(one.ID)
	if ids := due(); !slices.Equal(ids, []spend.ID{w.ID}) {
		t.Errorf("due after the replay: %x", ids)
	}
	if r := task.FirstRetry(); r == nil || r.Sequence != 1 || r.Attempts != 0 || r.DueAt.After(task.Now) {
		t.Fatalf("to be tried again: %+v", r)
	}
	// Replay an event while it is being tried.
	trying := task.FirstRetry()
	time.Sleep(2 * time.Millisecond)
	replay(one.ID)
	must(t, s.RecordDelivery(ctx, node, redelivered(w.ID, trying)))
	task = mustHold(t, s, node, w.ID)
	if r := task.FirstRetry(); r == nil || r.Sequence != 1 || r.Attempts != 0 {
		t.Fatalf("the replay is lost: %+v", r)
	}
	must(t, s.RecordDelivery(ctx, node, redelivered(w.ID, task.FirstRetry())))
	if r := replay(two.ID).FirstRetry(); r == nil || r.Sequence != 2 || r.Attempts != 0 {
		t.Errorf("to be tried again: %+v", r)
	}
	other, _ := mustCreateWebhook(t, s, 0)
	for _, ids := range [][2]spend.ID{{other.ID, one.ID}, {w.ID, spend.NewID(now())}} {
		if _, err := s.ReplayDelivery(ctx, ids[0], ids[1]); !errors.Is(err, audit.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	}
	must(t, s.DeleteWebhook(ctx, actor(), w.ID))
	if _, err := s.ReplayDelivery(ctx, w.ID, one.ID); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("of a deleted webhook: %v", err)
	}
}

// webhookRetries: an admin, or the end of an outage, makes all waiting events due at once, in their
// order; an event that is being tried is unaffected.
func webhookRetries(t *testing.T, s Subject) {
	ctx, node := t.Context(), spend.NewID(now())
	w, _ := mustCreateWebhook(t, s, 0)
	other, _ := mustCreateWebhook(t, s, 0)
	mustLease(t, s, node)
	fail := func(webhook spend.ID, sequence int64, in time.Duration) {
		t.Helper()
		r := failed(webhook, sequence, nil)
		r.RetryIn = in
		must(t, s.RecordDelivery(ctx, node, r))
	}
	fail(w.ID, 1, time.Millisecond)
	fail(w.ID, 3, time.Hour)
	fail(w.ID, 2, 2*time.Hour)
	fail(other.ID, 1, time.Hour)
	time.Sleep(5 * time.Millisecond)
	leases, err := s.LeaseWebhooks(ctx, node, []spend.ID{w.ID, other.ID}, longLease)
	if err != nil || leases.Waiting != 4 {
		t.Errorf("%d wait, %v", leases.Waiting, err)
	}
	due := func() (sequences []int64) {
		t.Helper()
		task := mustHold(t, s, node, w.ID)
		for _, r := range task.Retries {
			if !r.DueAt.After(task.Now) {
				sequences = append(sequences, r.Sequence)
			}
		}
		return sequences
	}
	task := mustHold(t, s, node, w.ID)
	if got := due(); !slices.Equal(got, []int64{1}) || len(task.Retries) != 3 || task.Retries[1].Sequence != 3 ||
		task.Retries[1].Attempts != 1 {
		t.Errorf("due are %v of %+v", got, task.Retries)
	}
	over := redelivered(w.ID, task.FirstRetry())
	over.Over = true
	must(t, s.RecordDelivery(ctx, node, over))
	if got := due(); !slices.Equal(got, []int64{2, 3}) {
		t.Errorf("after an outage due are %v", got)
	}
	fail(w.ID, 4, time.Hour)
	if n, err := s.RetryWebhook(ctx, w.ID); err != nil || n != 3 {
		t.Errorf("%d are tried again, %v", n, err)
	}
	if got := due(); !slices.Equal(got, []int64{2, 3, 4}) {
		t.Errorf("after an admin said so due are %v", got)
	}
	if task = mustHold(t, s, node, w.ID); task.Failures != 0 || task.ResumeAt.After(task.Now) || task.Retries[0].Attempts != 1 {
		t.Errorf("after an admin said so: %+v", task)
	}
	if task := mustHold(t, s, node, other.ID); !task.FirstRetry().DueAt.After(task.Now) {
		t.Errorf("of another webhook: %+v", task.Retries)
	}
	if _, err := s.RetryWebhook(ctx, spend.NewID(now())); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	page, more, err := s.Deliveries(ctx, audit.DeliveryQuery{WebhookID: w.ID, Failed: true, Limit: 3})
	if err != nil || !more || len(page) != 3 || page[0].Sequence != 4 || page[1].Sequence != 2 || page[2].Sequence != 3 {
		t.Errorf("failed are %+v, more: %t, %v", page, more, err)
	}
}

// webhookSecrets rotates twice: the two newest secrets sign.
func webhookSecrets(t *testing.T, s Subject) {
	node := spend.NewID(now())
	w, first := mustCreateWebhook(t, s, 0)
	mustLease(t, s, node)
	want := []audit.Secret{first}
	for range 3 {
		if task := mustHold(t, s, node, w.ID); !slices.Equal(task.Secrets, want) {
			t.Errorf("%d secrets sign, want %d, the newest first", len(task.Secrets), len(want))
		}
		next := newSecret()
		get(s.UpdateWebhook(t.Context(), actor(), w.ID, audit.WebhookChange{Secret: next}))(t)
		want = []audit.Secret{next, want[0]}
	}
	must(t, s.Exec(t, "UPDATE webhook_states SET previous_until = previous_until - 25 * 3600 * 1000"))
	if task := mustHold(t, s, node, w.ID); !slices.Equal(task.Secrets, want[:1]) {
		t.Errorf("%d secrets sign after a day, want 1", len(task.Secrets))
	}
}

// webhookTypes changes the types while a page of the feed, read with the old types, is being
// delivered: the cursor stays, so that no event of a new type is missed.
func webhookTypes(t *testing.T, s Subject) {
	ctx, node := t.Context(), spend.NewID(now())
	w, _ := mustCreateWebhook(t, s, 5)
	mustLease(t, s, node)
	read := audit.WebhookSeen{Cursor: 9, EventTypes: w.EventTypes}
	get(s.UpdateWebhook(ctx, actor(), w.ID, audit.WebhookChange{EventTypes: []audit.EventType{audit.EventKeyChanged}}))(t)
	must(t, s.RecordDelivery(ctx, node, delivered(w.ID, 8)))
	if task, err := s.HoldWebhook(ctx, node, w.ID, read, longLease); err != nil || task.Cursor != 5 {
		t.Fatalf("the cursor moved: %+v, %v", task, err)
	}
	for _, cursor := range []int64{7, 6} { // never back
		read = audit.WebhookSeen{Cursor: cursor, EventTypes: []audit.EventType{audit.EventKeyChanged}}
		if task, err := s.HoldWebhook(ctx, node, w.ID, read, longLease); err != nil || task.Cursor != 7 {
			t.Errorf("to do: %+v, %v", task, err)
		}
	}
}

// deliveriesExpire: attempts are listed for some days.
func deliveriesExpire(t *testing.T, s Subject) {
	ctx, node := t.Context(), spend.NewID(now())
	w, _ := mustCreateWebhook(t, s, 0)
	mustLease(t, s, node)
	old, recent := delivered(w.ID, 1), delivered(w.ID, 2)
	old.ID = spend.NewID(now().Add(-audit.KeepDeliveries - time.Hour))
	for _, r := range []audit.DeliveryResult{old, recent} {
		must(t, s.RecordDelivery(ctx, node, r))
	}
	must(t, s.Tidy(ctx, now()))
	page, _, err := s.Deliveries(ctx, audit.DeliveryQuery{WebhookID: w.ID, Limit: 10})
	if err != nil || len(page) != 1 || page[0].ID != recent.ID {
		t.Errorf("listed %+v, %v", page, err)
	}
}
