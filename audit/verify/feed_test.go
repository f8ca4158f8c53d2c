package verify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// newFeed is a trail with events of every source, all of which are numbered.
func newFeed(t *testing.T) (tr *approvalTrail, capped *spend.Check) {
	t.Helper()
	tr = newApprovalTrail(t)
	tr.report()
	tr.addKey()
	expiring := &audit.Key{ID: spend.NewID(time.Now()), Active: true, Grants: spend.Grants{ExpiresAt: time.Now().Add(time.Hour)}}
	must.Do(t, tr.store.CreateKey(t.Context(), audit.Actor{}, expiring))
	must.Do(t, tr.store.RecordExpiring(t.Context(), expiring))
	capped = tr.recordCapped(1, time.Now())
	tr.exec("SELECT sequence_events(1000)")
	if n := tr.count("events"); n < 30 || n != tr.count("event_state AS s JOIN events ON sequence <= s.last") {
		t.Fatalf("%d events", n)
	}
	return tr, capped
}

// recordCapped commits checks that use a budget up, of a version made then.
func (tr *trail) recordCapped(version int, made time.Time) *spend.Check {
	tr.t.Helper()
	tr.capAt("251", made)
	epoch := must.Get(tr.store.Epoch(tr.t.Context()))(tr.t)
	limit, _ := spend.ParseTotal("251")
	var last *spend.Check
	for range 2 {
		last = checksOfAllSorts(spend.Fence{Node: spend.NewID(time.Now()), Epoch: epoch, Stops: tr.lastStop()})[2]
		day := last.ID.Time().Truncate(24 * time.Hour)
		last.Action.PolicyID, last.Principal, last.Decision.PolicyVersion = "capped", "till", version
		last.Charges = []spend.Charge{{
			Counter: spend.Counter{ID: spend.CounterID("capped", "cap", 1, "[]"), StartMS: day.UnixMilli()},
			RuleID:  "cap", Since: 1, Subject: "[]", Amount: last.Action.Amount, EndMS: day.Add(24 * time.Hour).UnixMilli(),
			Limited: true, Limit: limit, Counted: true, MaxCount: 9,
		}}
		if tr.notify != "" {
			last.Charges[0].NotifyAt = "40,80"
		}
		must.Do(tr.t, tr.writer.Append(last).Final())
	}
	return last
}

// capAt makes a version of the policy with a limit, at a time. It spells numbers as some programs
// do, and omits optional members in various ways (S4, S8).
func (tr *trail) capAt(limit string, at time.Time) {
	tr.t.Helper()
	p := &audit.Policy{
		PolicyID: "capped", Name: "c",
		Rules: `[{"rule_id": "other", "rule_type": "budget", "parameters": {"limit": "", "window": "day", "max_count": 5.0, "per": ["agent_id"]}},
			{"rule_id": "cap", "rule_type": "budget", "parameters": {"per": null, "limit": ` + limit + `e0, "window": "day",
				"max_count": 0.9e1` + tr.notify + `}}]`,
	}
	capped := audit.NewBudgets{Identities: map[string][]spend.Hash{"cap": {{7}}}}
	must.Do(tr.t, tr.store.CreatePolicy(tr.t.Context(), audit.Actor{}, p, capped, at))
}

// TestTamperedFeed has every event named that was removed, inserted, moved or hidden
// (S66, G8).
func TestTamperedFeed(t *testing.T) {
	t.Parallel()
	tr, _ := newFeed(t)
	last := tr.count("events")
	number := func(kind, source string) (n int) {
		t.Helper()
		query := "SELECT sequence FROM events WHERE type = $1 AND ($2 = '' OR source::text = $2) ORDER BY sequence LIMIT 1"
		must.Do(t, tr.conn.QueryRow(t.Context(), query, kind, source).Scan(&n))
		return n
	}
	event := func(kind string, n int) string { return fmt.Sprintf("%s event %d", kind, n) }
	id := func(id spend.ID) string {
		text := id.Text("")
		return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
	}
	blocked := tr.records[0][0]
	seen, policy, used := number("violation.recorded", id(blocked.ID)), number("policy.created", ""), number("approval.used", id(tr.used.ID))
	key := number("key.changed", "")
	for tamper, want := range map[string][]string{
		"SELECT": nil,
		fmt.Sprintf("DELETE FROM events WHERE sequence = %d", seen): {"removed event of violation " +
			blocked.ID.Text(spend.PrefixViolation), event("removed", seen)},
		fmt.Sprintf("DELETE FROM events WHERE sequence = %d", last):                          nil,
		fmt.Sprintf("UPDATE events SET source = gen_random_uuid() WHERE sequence = %d", key): nil,
		fmt.Sprintf("UPDATE events SET agent_id = 'x' WHERE sequence = %d", seen):            {event("altered", seen)},
		fmt.Sprintf("UPDATE events SET policy_id = NULL WHERE sequence = %d", used):          {event("altered", used)},
		"UPDATE event_state SET last = last - 1":                                             {"altered table event_state"},
		"UPDATE event_state SET last = last + 5":                                             {event("removed", last+1)},
		"DELETE FROM event_state":                                                            nil,
		fmt.Sprintf("DELETE FROM events WHERE sequence = %d; UPDATE event_state SET last = last - 1, cluster = cluster + 1, below = "+
			"(SELECT max(xid) FROM (SELECT xid FROM changes UNION ALL SELECT xid FROM outcomes UNION ALL SELECT xid FROM violations "+
			"UNION ALL SELECT xid FROM budget_exhaustions UNION ALL SELECT xid FROM approval_uses) AS x (xid))", last): {
			"altered table event_state",
		},
		fmt.Sprintf("UPDATE violations SET xid = '999999999999' WHERE id = '%s'", id(blocked.ID)): {"altered event of violation " +
			blocked.ID.Text(spend.PrefixViolation), event("inserted", seen)},
		fmt.Sprintf("UPDATE events SET sequence = %d WHERE sequence = %d", last+1_000_001, policy): nil,
		fmt.Sprintf("INSERT INTO events VALUES (%d, '%s', 'violation.recorded')", last+1, id(spend.NewID(time.Now()))): {
			"altered table event_state", event("inserted", last+1),
		},
	} {
		if want == nil && tamper != "SELECT" {
			tr.agreeOn(tamper)
			continue
		}
		tr.bothFind("events event_state violations", tamper, want...)
	}
	swap := func(a, b int) string {
		return fmt.Sprintf("UPDATE events SET sequence = -1 WHERE sequence = %[1]d; "+
			"UPDATE events SET sequence = %[1]d WHERE sequence = %[2]d; UPDATE events SET sequence = %[2]d WHERE sequence = -1", a, b)
	}
	asked := number("approval.requested", id(tr.used.ID))
	tr.bothFind("events", swap(asked, used), event("altered", asked))
	tr.agreeOn(swap(policy, key))
	tr.agreeOn("UPDATE event_state SET below = '1'")

	// An event of an hour ago gets a number above those of later events.
	tr.fence.Stops = tr.lastStop()
	late := checksOfAllSorts(tr.fence)[0]
	late.ID, late.Action.IdempotencyKey = spend.NewID(time.Now().Add(-time.Hour)), ""
	tr.append(late)
	tr.finds(nil)
	tr.bothFind("events event_state", "SELECT sequence_events(1000)", event("altered", last+1))
}

// agreeOn has both verifiers name the same of the feed, and something.
func (tr *trail) agreeOn(tamper string) {
	tr.t.Helper()
	found := func() []string {
		got, _, err := tr.verify(nil)
		must.Check(tr.t, err)
		return got
	}
	tr.exec("CREATE TEMPORARY TABLE was AS TABLE events; CREATE TEMPORARY TABLE state AS TABLE event_state")
	tr.exec("%s", tamper)
	want := found()
	tr.exec("DELETE FROM events; INSERT INTO events TABLE was; DELETE FROM event_state; INSERT " +
		"INTO event_state TABLE state; DROP TABLE was, state")
	if len(want) == 0 {
		tr.t.Errorf("nothing was found after %s", tamper)
	}
	tr.bothFind("events event_state", tamper, want...)
}

// TestTamperedExhaustions has it named that a budget was used up without its event's
// source, and whose checks took from it (S66, G8).
func TestTamperedExhaustions(t *testing.T) {
	t.Parallel()
	tr, capped := newFeed(t)
	name := strings.TrimPrefix(counter("", capped, 0), " ")
	var id string
	var sequence int
	if err := tr.conn.QueryRow(t.Context(), "SELECT replace(id::text, '-', ''), sequence FROM budget_exhaustions JOIN events ON source = id").
		Scan(&id, &sequence); err != nil {
		t.Fatal(err)
	}
	tables := "events budget_exhaustions budget_principals"
	tr.bothFind(tables, "DELETE FROM budget_exhaustions", fmt.Sprintf("inserted event %d", sequence), "removed exhaustion of "+name)
	principal := fmt.Sprintf("principal of budget %q of policy %q since version 1 for [] and principal till", "cap", "capped")
	tr.bothFind(tables, "UPDATE budget_exhaustions SET subject = '[1]'", "altered exhaustion "+id)
	tr.bothFind(tables, "UPDATE budget_exhaustions SET at = at - interval '2 days'", "altered exhaustion "+id,
		fmt.Sprintf("altered event %d", sequence))
	tr.bothFind(tables, "DELETE FROM budget_principals WHERE principal = 'till'", "removed "+principal)
	tr.bothFind(tables, "UPDATE budget_principals SET principal = 'x' WHERE principal = 'till'", "removed "+principal,
		"inserted principal x of counter "+capped.Charges[0].Counter.ID.Text(""))
}

// TestTamperedLimits: findings name an event that tells another limit than its budget had, another
// agent or window, or another amount than checks had taken; and a missing event of a version that
// was used up and has a successor with a higher limit (S66).
func TestTamperedLimits(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	tr.capAt("250", time.Now().Add(-time.Hour))
	capped := tr.recordCapped(2, time.Now().Add(-30*time.Minute))
	tr.capAt("1000", time.Now())
	tr.bothFind("", "SELECT")
	tr.bothFind("budget_exhaustions", "DELETE FROM budget_exhaustions",
		"removed exhaustion of "+strings.TrimPrefix(counter("", capped, 0), " "))
	tr.exec("SELECT sequence_events(1000)")
	var id string
	var sequence int
	if err := tr.conn.QueryRow(t.Context(), "SELECT replace(id::text, '-', ''), sequence FROM budget_exhaustions JOIN events ON source = id").
		Scan(&id, &sequence); err != nil {
		t.Fatal(err)
	}
	tr.bothFind("", "SELECT")
	for _, set := range []string{
		"max_used = 252", "max_used = 250", "max_used = NULL", "max_count = 77", "max_count = 8", "bucket_ms = 60000",
		"used = 251.5", "used = -251", "count = 3",
	} {
		tr.bothFind("budget_exhaustions", "UPDATE budget_exhaustions SET "+set, "altered exhaustion "+id)
	}
	tr.bothFind("budget_exhaustions events", "UPDATE budget_exhaustions SET agent_id = 'x'; "+
		"UPDATE events SET agent_id = 'x' WHERE type = 'budget.exhausted'", "altered exhaustion "+id)
}

// TestTamperedNotices: findings name a percentage that was reached and is not on record, and one that was not reached, or that
// no version names (S90).
func TestTamperedNotices(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	tr.notify = `, "notify_at": [8e1, 40.0]`
	capped := tr.recordCapped(1, time.Now().Add(-time.Hour))
	tr.bothFind("", "SELECT")
	name := strings.TrimPrefix(counter("", capped, 0), " ")
	for _, percent := range []string{"40", "80"} {
		tr.bothFind("budget_exhaustions", "DELETE FROM budget_exhaustions WHERE percent = "+percent, "removed notice of "+percent+" % of "+name)
	}
	tr.bothFind("budget_exhaustions", "DELETE FROM budget_exhaustions WHERE percent = 100", "removed exhaustion of "+name)
	tr.exec("SELECT sequence_events(1000)")
	tr.bothFind("", "SELECT")
	var id string
	query := "SELECT replace(id::text, '-', '') FROM budget_exhaustions WHERE percent = 40"
	must.Do(t, tr.conn.QueryRow(t.Context(), query).Scan(&id))
	tr.bothFind("budget_exhaustions", "UPDATE budget_exhaustions SET nth = 1 WHERE percent = 40", "altered exhaustion "+id)
	tr.bothFind("budget_exhaustions", "UPDATE budget_exhaustions SET used = 90, count = 0 WHERE percent = 40", "altered exhaustion "+id)
	tr.bothFind("budget_exhaustions", "UPDATE budget_exhaustions SET percent = 41 WHERE percent = 40", "altered exhaustion "+id,
		"removed notice of 40 % of "+name)
}

// TestTamperedSchema has it named that something is gone on which guarantees rest, or
// is switched off (S66, G8).
func TestTamperedSchema(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	day := today()
	for _, c := range []struct {
		do, undo string
		want     []string
	}{
		{"SELECT", "SELECT", nil},
		{
			"ALTER TABLE events DISABLE TRIGGER immutable", "ALTER TABLE events ENABLE TRIGGER immutable",
			[]string{"altered trigger immutable on events"},
		},
		{
			"ALTER TABLE " + day + " DISABLE TRIGGER immutable_truncate", "ALTER TABLE " + day + " ENABLE TRIGGER immutable_truncate",
			[]string{"altered trigger immutable_truncate on " + day},
		},
		{
			"ALTER TABLE outcomes ENABLE REPLICA TRIGGER immutable", "ALTER TABLE outcomes ENABLE TRIGGER immutable",
			[]string{"altered trigger immutable on outcomes"},
		},
		{
			"DROP TRIGGER immutable ON batches",
			"CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON batches FOR EACH ROW EXECUTE FUNCTION refuse_change_of_batch()",
			[]string{"removed trigger immutable on batches"},
		},
		{
			"CREATE TRIGGER lost BEFORE INSERT ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION refuse_change()",
			"DROP TRIGGER lost ON idempotency_keys",
			[]string{"inserted trigger lost on idempotency_keys"},
		},
		{
			"DROP INDEX idempotency_keys_expiry", "CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at)",
			[]string{"removed index on idempotency_keys: btree (expires_at)"},
		},
		{
			"ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_pkey", "ALTER TABLE idempotency_keys ADD PRIMARY KEY (key_hash)",
			[]string{"removed constraint on idempotency_keys: PRIMARY KEY (key_hash)", "removed unique index on idempotency_keys: btree (key_hash)"},
		},
		{
			"ALTER TABLE events ALTER source SET DEFAULT gen_random_uuid()", "ALTER TABLE events ALTER source DROP DEFAULT",
			[]string{"inserted default of source of events"},
		},
		{
			"ALTER TABLE violations ALTER xid SET DEFAULT '0'", "ALTER TABLE violations ALTER xid SET DEFAULT pg_current_xact_id()",
			[]string{"altered default of xid of violations"},
		},
		{
			"ALTER TABLE event_state ADD COLUMN more text", "ALTER TABLE event_state DROP COLUMN more",
			[]string{"altered table event_state"},
		},
		{"ALTER TABLE idempotency_keys SET UNLOGGED", "ALTER TABLE idempotency_keys SET LOGGED", []string{"altered table idempotency_keys"}},
		{
			"CREATE RULE none AS ON INSERT TO idempotency_keys DO INSTEAD NOTHING", "DROP RULE none ON idempotency_keys",
			[]string{"altered table idempotency_keys"},
		},
		{
			"CREATE FUNCTION raise_horizon(integer) RETURNS void LANGUAGE sql AS ''", "DROP FUNCTION raise_horizon(integer)",
			[]string{"inserted function raise_horizon(integer)"},
		},
		{
			"ALTER FUNCTION refuse_change() SET search_path = public", "ALTER FUNCTION refuse_change() RESET search_path",
			[]string{"altered function refuse_change()"},
		},
		{
			"CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'", "SELECT",
			[]string{"altered function refuse_change()"},
		},
	} {
		tr.exec("%s", c.do)
		tr.bothFind("", "SELECT", c.want...)
		tr.exec("%s", c.undo)
	}
}
