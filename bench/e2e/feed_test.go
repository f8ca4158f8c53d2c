package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/hotpath/client"
)

// feed: eight writers on two nodes cause events, and a reader that is killed goes on
// from the cursor that it stored, on whichever node. It misses none, sees none twice,
// and none before its cause; each event is there when its request was answered (S51).
func (s *suite) feed(t *testing.T) {
	const writers, rounds = 8, 8
	ctx := limited(t, patience)
	admin, err := client.New(client.Options{BaseURL: s.Nodes[0].API, AdminKey: s.AdminKey})
	act(t, err)
	clients := func(g client.Grants) (both [2]*client.Client) {
		key, err := admin.CreateKey(ctx, client.KeyRequest{Name: "feed", RateLimitRPM: new(plenty), Grants: g})
		act(t, err)
		for i := range both {
			both[i], err = client.New(client.Options{BaseURL: s.Nodes[i].API, APIKey: key.APIKey})
			act(t, err)
		}
		return both
	}
	all, people := clients(client.Grants{}), clients(client.Grants{Role: "approver"})
	_, err = all[0].CreatePolicyJSON(ctx, []byte(`{"policy_id":"feed","name":"n","rules":[
		{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":1,"approval":{}}}]}`))
	act(t, err)
	r := &feedReader{at: all}
	for r.page(ctx, t, 0) { // what others caused
	}
	before, begin := len(r.seen), r.cursor

	var writing sync.WaitGroup
	var mu sync.Mutex
	var done atomic.Bool
	happened := make(map[string]bool)
	for w := range writers {
		writing.Go(func() {
			writer := &feedWriter{acts: all[w%2], person: people[1-w%2], reader: feedReader{at: all, cursor: begin}}
			for i := range rounds {
				caused := writer.round(ctx, t, fmt.Sprint(w, "-", i))
				writer.there(ctx, t, caused)
				mu.Lock()
				for _, one := range caused {
					happened[one] = true
				}
				mu.Unlock()
			}
		})
	}
	go func() { writing.Wait(); done.Store(true) }()
	kills := 0
	for n := 0; ctx.Err() == nil; n++ {
		last := done.Load()
		reading, kill := context.WithCancel(ctx)
		if n%3 == 1 { // in the middle of a request
			time.AfterFunc(time.Duration(n%7)*time.Millisecond, kill)
		}
		more := r.page(reading, t, n%2)
		killed := reading.Err() != nil
		if kill(); killed {
			kills++
		}
		if last && !more && !killed {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	times := timesOf(t, r.seen, before)
	for one := range happened {
		if times[one] != 1 {
			t.Errorf("%s was read %d times", one, times[one])
		}
	}
	if want := writers * rounds * 5; len(happened) != want {
		t.Errorf("%d things happened, want %d", len(happened), want)
	}
	t.Logf("%d events, the reader was killed %d times", len(r.seen)-before, kills)
}

// feedReader has what it read, and its cursor with it.
type feedReader struct {
	at     [2]*client.Client
	cursor int64
	seen   []client.Event
}

// page reads a page at a node, and reports whether there are more. A request that is
// cut off leaves nothing.
func (r *feedReader) page(ctx context.Context, t *testing.T, node int) (more bool) {
	page, err := r.at[node].Events(ctx, r.cursor, 1+len(r.seen)%100)
	if errors.Is(err, context.Canceled) {
		return true
	}
	if err != nil {
		t.Error(err)
		return false
	}
	r.seen, r.cursor = append(r.seen, page.Data...), page.NextAfter
	return page.HasMore
}

// timesOf returns how often each thing happened from some event on, and holds the
// order of all to what caused what.
func timesOf(t *testing.T, seen []client.Event, from int) map[string]int {
	times := make(map[string]int)
	ids := make(map[string]bool)
	var sequence int64
	causes := map[string]string{
		"approval.approved": "approval.requested", "approval.used": "approval.approved", "approval.requested": "violation.recorded",
		"outcome.release_pending": "outcome.reported",
	}
	for i, e := range seen {
		if ids[e.ID] || e.Sequence <= sequence {
			t.Errorf("twice, or out of order: %d, %s after %d", e.Sequence, e.ID, sequence)
		}
		ids[e.ID], sequence = true, e.Sequence
		if i < from {
			continue
		}
		var about struct {
			CheckID       string `json:"check_id"`
			UsedByCheckID string `json:"used_by_check_id"`
		}
		if err := json.Unmarshal(e.Data, &about); err != nil {
			t.Error(err)
		}
		times[e.Type+" "+about.CheckID]++
		cause := causes[e.Type]
		switch e.Type {
		case "approval.used":
			times["used by "+about.UsedByCheckID]++
		case "outcome.reported":
			cause = "used by"
		}
		if cause != "" && times[cause+" "+about.CheckID] == 0 {
			t.Errorf("%s of %s comes before %s", e.Type, about.CheckID, cause)
		}
	}
	return times
}

// feedWriter causes events at one node; a person decides at the other.
type feedWriter struct {
	acts, person *client.Client
	reader       feedReader
}

// round escalates an action, has it approved and used, and reports what became of it.
func (w *feedWriter) round(ctx context.Context, t *testing.T, name string) (caused []string) {
	money, err := client.ParseAmount("9")
	if err != nil {
		t.Error(err)
	}
	action := client.Action{AgentID: "feeder", PolicyID: "feed", ActionType: client.Refund, Amount: money, Currency: "USD", Counterparty: name}
	asked, err := w.acts.Check(ctx, action)
	if err != nil {
		t.Error(err)
		return nil
	}
	approval, err := w.person.Approval(ctx, asked.ApprovalID, 0)
	if err == nil {
		_, err = w.person.Approve(ctx, asked.ApprovalID, approval.ActionHash, "")
	}
	action.ApprovalID = asked.ApprovalID
	var used *client.Result
	if err == nil {
		used, err = w.acts.Check(ctx, action)
	}
	if err == nil {
		_, err = w.acts.ReportOutcome(ctx, used.CheckID, client.OutcomeReport{Status: "failed"})
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	return []string{
		"violation.recorded " + asked.CheckID, "approval.requested " + asked.CheckID, "approval.approved " + asked.CheckID,
		"approval.used " + asked.CheckID, "outcome.reported " + used.CheckID,
	}
}

// there demands that all of it is in the feed now, at whichever node.
func (w *feedWriter) there(ctx context.Context, t *testing.T, caused []string) {
	for w.reader.page(ctx, t, len(w.reader.seen)%2) {
	}
	times := timesOf(t, w.reader.seen, 0)
	for _, one := range caused {
		if times[one] != 1 {
			t.Errorf("%s is not there when it was answered", one)
		}
	}
}
