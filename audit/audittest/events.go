package audittest

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// eventTests are the tests of the feed.
func eventTests() []test {
	return []test{
		{"EventsAreThere", eventsAreThere},
		{"EventsAreBound", eventsAreBound},
		{"EventsRace", eventsRace},
		{"KeyExpires", keyExpires},
		{"BudgetsExhaust", budgetsExhaust},
		{"BudgetsExhaustAgain", budgetsExhaustAgain},
		{"BudgetsNotify", budgetsNotify},
	}
}

// feed reads all events after a cursor, in pages, and returns the next cursor.
func feed(t testing.TB, s audit.Store, q audit.EventQuery) (events []audit.Event, next int64) {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	for {
		page := get(s.Events(t.Context(), q))(t)
		for i := range page.Events {
			e := &page.Events[i]
			if e.Sequence <= q.After || e.Sequence > page.Next || i > 0 && e.Sequence <= page.Events[i-1].Sequence {
				t.Fatalf("sequence %d on the page from %d to %d", e.Sequence, q.After, page.Next)
			}
		}
		if len(page.Events) > q.Limit || page.Next < q.After || page.More && page.Next == q.After {
			t.Fatalf("the page after %d has %d events, next %d, more: %t", q.After, len(page.Events), page.Next, page.More)
		}
		events, q.After = append(events, page.Events...), page.Next
		if !page.More {
			return events, q.After
		}
	}
}

// typesOf returns the types of events, each with a distinguishing detail.
func typesOf(events []audit.Event) (types []string) {
	for i := range events {
		types = append(types, string(events[i].Type))
	}
	return types
}

func mustHappen(t testing.TB, when string, events []audit.Event, want ...audit.EventType) {
	t.Helper()
	got := typesOf(events)
	ok := len(got) == len(want)
	for i := range want {
		ok = ok && got[i] == string(want[i])
	}
	if !ok {
		t.Fatalf("%s: %q, want %q", when, got, want)
	}
}

// happenElsewhere are the types of which one happens in budgetsExhaust, budgetsNotify, keyExpires, changesForced
// and changesRejected.
func happenElsewhere() []audit.EventType {
	return []audit.EventType{
		audit.EventBudgetExhausted, audit.EventBudgetThreshold, audit.EventPolicyForced, audit.EventDraftApproved,
		audit.EventDraftSubmitted, audit.EventDraftRejected, audit.EventKeyExpiring,
	}
}

// eventsAreThere: whatever happens has an event, with its details, once the write has returned.
func eventsAreThere(t *testing.T, s Subject) {
	var after int64
	news := func(when string, want ...audit.EventType) []audit.Event {
		t.Helper()
		events, next := feed(t, s, audit.EventQuery{After: after})
		mustHappen(t, when, events, want...)
		if head, err := s.EventsHead(t.Context()); err != nil || len(events) > 0 && head != events[len(events)-1].Sequence {
			t.Errorf("%s: the head is %d, %v, read up to %d", when, head, err, next)
		}
		after = next
		return events
	}
	news("at first")
	ctx, f := t.Context(), fence(t, s)
	policy := newPolicy("refunds")
	must(t, s.CreatePolicy(ctx, actor(), policy, audit.NewBudgets{}, now()))
	e := news("a policy", audit.EventPolicyCreated)[0]
	if e.PolicyID != "refunds" || e.AgentID != "" || e.Change.Subject != "refunds" || e.Change.Version != 1 || e.Change.By != actor() ||
		!e.At.Equal(e.Change.At) {
		t.Errorf("policy: %+v", e)
	}
	key := newKey()
	must(t, s.CreateKey(ctx, actor(), key))
	f.Stops = setActive(t, s, key, false)
	keys := news("a key", audit.EventKeyChanged, audit.EventKeyChanged)
	if keys[0].Change.Kind != audit.KeyCreated || keys[1].Change.Kind != audit.KeyChanged ||
		keys[1].Change.Subject != key.ID.Text(spend.PrefixKey) || keys[0].ID == keys[1].ID {
		t.Errorf("keys: %+v, %+v", keys[0].Change, keys[1].Change)
	}

	allowed, refused := newCheck(f), blocked(newCheck(f))
	mustCommit(t, s, allowed, refused)
	e = news("a violation", audit.EventViolationRecorded)[0]
	listed := mustList(t, s, audit.ViolationQuery{Limit: 1}).Violations[0]
	if *e.Violation != listed || !e.At.Equal(refused.Timestamp()) || e.PolicyID != "refunds" || e.AgentID != "agent-1" {
		t.Errorf("violation: %+v", e)
	}

	if again, _ := feed(t, s, audit.EventQuery{After: e.Sequence - 1}); again[0].ID != e.ID {
		t.Errorf("%s is now %s", e.ID.Text(spend.PrefixEvent), again[0].ID.Text(spend.PrefixEvent))
	}

	approvalEvents(t, s, f, news)
	f.Stops = lastStop(t, s)
	outcomeEvents(t, s, f, news)
	paid := newCheck(f)
	mustCommit(t, s, paid)
	mustReport(t, s, redemption(f, paid))
	mustReport(t, s, step(f, paid, 2, spend.InDoubt))
	redeemed := news("a redemption", audit.EventCheckRedeemed, audit.EventCheckInDoubt)
	if o := redeemed[0].Outcome; o.CheckID != paid.ID || o.KeyID != "key_1" || redeemed[0].PolicyID != "refunds" ||
		redeemed[1].Outcome.Status != spend.InDoubt {
		t.Errorf("redeemed: %+v, %+v", redeemed[0], redeemed[1])
	}
	paymentEvents(t, s, f, news)
	freezeEvents(t, s, news)
	grantEvents(t, s, news)
	news("at last")
	if all, _ := feed(t, s, audit.EventQuery{Limit: 3}); len(all) != 50 {
		t.Errorf("%d events in all: %q", len(all), typesOf(all))
	} else {
		for _, of := range audit.EventTypes() {
			if !slices.Contains(typesOf(all), string(of)) && !slices.Contains(happenElsewhere(), of) {
				t.Errorf("no event of type %s: make one happen here", of)
			}
		}
	}
}

func approvalEvents(t *testing.T, s Subject, f spend.Fence, news func(string, ...audit.EventType) []audit.Event) {
	t.Helper()
	asked := asking(f, 2)
	mustCommit(t, s, asked)
	e := news("an escalation", audit.EventViolationRecorded, audit.EventApprovalRequested)[1]
	approval := mustBe(t, s, asked, audit.ApprovalPending)
	want := audit.ApprovalEvent{
		ID: asked.ID, Check: asked, ActionHash: asked.Approval.ActionHash, Required: 2, CreatedAt: approval.CreatedAt,
		ExpiresAt: approval.ExpiresAt, UseWithin: time.Hour,
	}
	if !reflect.DeepEqual(*e.Approval, want) || !e.At.Equal(approval.CreatedAt) || e.AgentID != "agent-1" || e.PolicyID != "refunds" {
		t.Errorf("requested: %+v, want %+v", *e.Approval, want)
	}
	mustDecide(t, s, decision(asked, "bob", true), audit.DecisionRecorded)
	first := news("an approval of two", audit.EventApprovalDecided)[0]
	if d := first.Approval.Decision; d == nil || !reflect.DeepEqual(*d, mustBe(t, s, asked, audit.ApprovalPending).Decisions[0]) ||
		!first.At.Equal(d.At) || first.AgentID != "agent-1" {
		t.Errorf("decided: %+v", first.Approval)
	}
	mustDecide(t, s, decision(asked, "cleo", true), audit.DecisionRecorded)
	mustDecide(t, s, decision(asked, "cleo", true), audit.DecisionReplayed)
	e = news("the second", audit.EventApprovalDecided, audit.EventApprovalApproved)[1]
	decided := mustBe(t, s, asked, audit.ApprovalApproved)
	if d := e.Approval.Decision; d == nil || !reflect.DeepEqual(*d, decided.Decisions[1]) || !e.Approval.UseBy().Equal(decided.UseBy()) ||
		!e.At.Equal(d.At) || !e.Approval.UsedBy.IsZero() {
		t.Errorf("approved: %+v, want %+v", e.Approval, decided)
	}
	use := using(f, asked)
	mustCommit(t, s, use)
	if e = news("a use", audit.EventApprovalUsed)[0]; e.Approval.UsedBy != use.ID || e.Approval.ID != asked.ID ||
		!e.At.Equal(use.Timestamp()) {
		t.Errorf("used: %+v", e.Approval)
	}
	// An event describes the state at its time.
	again, _ := feed(t, s, audit.EventQuery{Types: []audit.EventType{audit.EventApprovalRequested}})
	if mustHappen(t, "of a type", again, audit.EventApprovalRequested); !reflect.DeepEqual(*again[0].Approval, want) {
		t.Errorf("requested, once used: %+v, want %+v", *again[0].Approval, want)
	}

	denied := asking(f, 1)
	mustCommit(t, s, denied)
	mustDecide(t, s, decision(denied, "bob", true), audit.DecisionRecorded)
	mustDecide(t, s, decision(denied, "cleo", false), audit.DecisionRecorded)
	events := news("a denial", audit.EventViolationRecorded, audit.EventApprovalRequested,
		audit.EventApprovalDecided, audit.EventApprovalApproved, audit.EventApprovalDecided, audit.EventApprovalDenied)
	if d := events[5].Approval.Decision; d == nil || d.Approves || d.Principal != "cleo" || d.Note != "seen – ゼロ" {
		t.Errorf("denied: %+v", d)
	}

	who := approverKey(t, s, "dora")
	reopened := asking(f, 1)
	mustCommit(t, s, reopened)
	mustDecide(t, s, decisionWith(who, reopened, true), audit.DecisionRecorded)
	setActive(t, s, who, false)
	e = news("a reopening", audit.EventKeyChanged, audit.EventViolationRecorded, audit.EventApprovalRequested, audit.EventApprovalDecided,
		audit.EventApprovalApproved, audit.EventKeyChanged, audit.EventApprovalReopened)[6]
	if a := mustBe(t, s, reopened, audit.ApprovalPending); !e.At.Equal(a.ReopenedAt) || !e.Approval.ExpiresAt.Equal(a.ExpiresAt) {
		t.Errorf("reopened: %+v, want %+v", e.Approval, a)
	}

	late := asking(f, 1)
	late.Approval.Expires = time.Millisecond
	mustCommit(t, s, late)
	time.Sleep(20 * time.Millisecond)
	get(s.ExpireApprovals(t.Context()))(t)
	events = news("an expiry", audit.EventViolationRecorded, audit.EventApprovalRequested, audit.EventApprovalExpired)
	if a := events[2].Approval; a.ID != late.ID || a.Decision != nil || events[2].At.Before(a.ExpiresAt) {
		t.Errorf("expired: %+v", a)
	}
}

func outcomeEvents(t *testing.T, s Subject, f spend.Fence, news func(string, ...audit.EventType) []audit.Event) {
	t.Helper()
	checks := []*spend.Check{newCheck(f), newCheck(f)}
	mustCommit(t, s, checks...)
	pending := report(f, checks[0], 1, spend.Failed, false)
	mustReport(t, s, pending)
	events := news("a pending release", audit.EventOutcomeReported, audit.EventOutcomeReleasePending)
	want := *pending
	want.Check = nil
	if !reflect.DeepEqual(*events[1].Outcome, want) || !events[0].At.Equal(pending.ID.Time()) || events[0].AgentID != "agent-1" ||
		events[0].PolicyID != "refunds" || events[0].ID == events[1].ID {
		t.Errorf("pending: %+v, want %+v", events[1].Outcome, want)
	}
	mustReport(t, s, moved(report(f, checks[1], 1, spend.Executed, true), "999", true))
	news("too much", audit.EventOutcomeReported, audit.EventOutcomeExceeded)
}

// eventsAreBound: a key reads only the events of its policies and agents, and pages advance past
// other events.
func eventsAreBound(t *testing.T, s Subject) {
	f := fence(t, s)
	must(t, s.CreatePolicy(t.Context(), actor(), newPolicy("p-0"), audit.NewBudgets{}, now()))
	must(t, s.CreateKey(t.Context(), actor(), newKey()))
	checks := make([]*spend.Check, 0, 300)
	for i := range cap(checks) {
		c := blocked(newCheck(f))
		c.Action.PolicyID, c.Action.AgentID = fmt.Sprint("p-", i%2), fmt.Sprint("a-", i%150)
		checks = append(checks, c)
	}
	for batch := range slices.Chunk(checks, 100) {
		mustCommit(t, s, batch...)
	}
	for _, c := range []struct {
		q    audit.EventQuery
		want int
	}{
		{audit.EventQuery{}, 302},
		{audit.EventQuery{PolicyIDs: []string{"p-0"}}, 151},
		{audit.EventQuery{AgentIDs: []string{"a-7", "a-8"}}, 5},
		{audit.EventQuery{AgentIDs: []string{"a-7"}, PolicyIDs: []string{"p-1", "x"}}, 2},
		{audit.EventQuery{PolicyIDs: []string{}}, 0},
		{audit.EventQuery{Types: []audit.EventType{audit.EventKeyChanged, audit.EventPolicyCreated}}, 2},
		{audit.EventQuery{Types: []audit.EventType{audit.EventKeyChanged}, AgentIDs: []string{"a-7"}}, 0},
	} {
		for _, limit := range []int{1 + c.want/10, 100} {
			c.q.Limit = limit
			events, next := feed(t, s, c.q)
			if len(events) != c.want || next == 0 {
				t.Errorf("%+v: %d events up to %d, want %d", c.q, len(events), next, c.want)
			}
		}
	}
}

// eventsRace lets many write while others read, each from where it stopped.
func eventsRace(t *testing.T, s Subject) {
	const writers, rounds = 8, 4
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	read := make([][]audit.Event, 3)
	for i := range read {
		reading.Go(func() {
			var after int64
			for last := false; ; {
				events, next := feed(t, s, audit.EventQuery{After: after, Limit: 1 + 7*i})
				read[i], after = append(read[i], events...), next
				if last {
					return
				}
				select {
				case <-done:
					last = true
				default:
				}
			}
		})
	}
	for range writers {
		writing.Go(func() {
			f := fence(t, s)
			for range rounds {
				writeCausally(t, s, f)
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	all, _ := feed(t, s, audit.EventQuery{})
	for i := range read {
		if !reflect.DeepEqual(read[i], all) {
			t.Errorf("reader %d read %d events, not the %d that there are", i, len(read[i]), len(all))
		}
	}
	if want := writers * rounds * eventsOfRound; len(all) != want {
		t.Errorf("%d events, want %d", len(all), want)
	}
	MustBeCausal(t, all)
}

const eventsOfRound = 13

// writeCausally writes events some of which cause others.
func writeCausally(t *testing.T, s Subject, f spend.Fence) {
	asked, doubted := asking(f, 1), asking(f, 1)
	mustCommit(t, s, asked, doubted)
	if err := s.CreatePolicy(t.Context(), actor(), newPolicy("shared"), audit.NewBudgets{}, now()); err != nil {
		t.Error(err)
	}
	var racing sync.WaitGroup
	racing.Go(func() { mustDecide(t, s, decision(asked, "bob", true), audit.DecisionRecorded) })
	racing.Go(func() { mustDecide(t, s, decision(doubted, "bob", false), audit.DecisionRecorded) })
	racing.Go(func() {
		if err := s.CreateKey(t.Context(), actor(), newKey()); err != nil {
			t.Error(err)
		}
	})
	use := using(f, asked)
	for Record(t.Context(), s, use) != nil { // it is not approved yet
		if t.Context().Err() != nil {
			return
		}
	}
	racing.Wait()
	mustReport(t, s, report(f, use, 1, spend.Failed, false))
}

// MustBeCausal demands that no event comes before its cause, or twice.
func MustBeCausal(t testing.TB, events []audit.Event) {
	t.Helper()
	ids := make(map[spend.ID]bool)
	var change int64
	at := make(map[string]int) // type and source
	for i := range events {
		e := &events[i]
		if ids[e.ID] {
			t.Errorf("twice: %+v", e)
		}
		ids[e.ID] = true
		if e.Change != nil {
			if e.Change.Seq <= change {
				t.Errorf("change %d comes after %d", e.Change.Seq, change)
			}
			change = e.Change.Seq
		}
		var causes []string
		switch e.Type {
		case audit.EventApprovalDecided:
			causes = []string{"approval.requested" + e.Approval.ID.Text("")}
			at[e.Approval.Decision.KeyID+e.Approval.ID.Text("")] = i
		case audit.EventApprovalApproved, audit.EventApprovalDenied:
			causes = []string{e.Approval.Decision.KeyID + e.Approval.ID.Text("")}
			at[string(e.Type)+e.Approval.ID.Text("")] = i
		case audit.EventApprovalExpired:
			causes = []string{"approval.requested" + e.Approval.ID.Text("")}
			at[string(e.Type)+e.Approval.ID.Text("")] = i
		case audit.EventApprovalRequested:
			at["approval.requested"+e.Approval.ID.Text("")] = i
		case audit.EventApprovalUsed:
			causes = []string{"approval.approved" + e.Approval.ID.Text("")}
			at["used"+e.Approval.UsedBy.Text("")] = i
		case audit.EventOutcomeReported:
			causes = []string{"used" + e.Outcome.CheckID.Text("")}
		default:
		}
		for _, cause := range causes {
			if _, ok := at[cause]; !ok {
				t.Errorf("event %d, %s, comes before its cause %s", e.Sequence, e.Type, cause)
			}
		}
	}
}
