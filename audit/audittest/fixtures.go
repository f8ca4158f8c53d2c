package audittest

import (
	"crypto/rand"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// epochStart is an arbitrary instant for configuration writes.
var epochStart = time.Date(2026, 3, 1, 12, 0, 0, int(123*time.Millisecond), time.UTC)

// clockTolerance is how far a store's clock may deviate in a test.
const clockTolerance = 5 * time.Second

// hostile looks like SQL, a composite value, JSON and a format (S21).
const hostile = `'); DROP TABLE checks; -- \'; $1 {"a":("b,NULL)} %s \\x00 😀`

func now() time.Time { return time.Now() }

// fence returns a fence under which a new node may commit.
func fence(t testing.TB, s audit.Store) spend.Fence {
	t.Helper()
	epoch := get(s.Epoch(t.Context()))(t)
	return spend.Fence{Node: spend.NewID(now()), Epoch: epoch, Stops: lastStop(t, s)}
}

// lastStop returns the last change that stops something.
func lastStop(t testing.TB, s audit.Store) int64 {
	t.Helper()
	changes := get(s.ConfigChanges(t.Context(), math.MaxInt64))(t)
	return changes.Stops
}

// newCheck returns an allowed check that passed the guard, different from all others.
func newCheck(f spend.Fence) *spend.Check {
	id := spend.NewID(now())
	ms := id.Time().UnixMilli()
	c := &spend.Check{
		ID:         id,
		ActionType: spend.Refund,
		Action: spend.Action{
			AgentID: "agent-1", PolicyID: "refunds", Type: spend.Refund, Amount: amount("125.5"), Currency: "USD",
			Counterparty: "customer-" + id.Text(""), PaymentMethod: "card", ReasonText: "item arrived damaged",
			Metadata: metadata(`{"days_since_purchase":12,"country":"de","order":"A-1009"}`),
		},
		Decision: spend.Decision{
			Confidence: spend.High, PolicyVersion: 3,
			Message: "125.50 USD is within policy.", NextStep: "Proceed with the action.",
		},
		LatencyMS: 3,
		KeyID:     id.Text(spend.PrefixKey),
		RequestID: "req_0123456789ab",
		Pass:      spend.Pass{ClaimedMS: ms, UntilMS: ms + 5*60*1000},
		Fence:     f,
	}
	c.Fingerprint = spend.FingerprintOf(&c.Action, c.ActionType)
	c.RequestSHA = spend.RequestSHA(&c.Action)
	return c
}

// earlier records a check of the day before: a record with checks of only one day is not taken as
// evidence that time has passed.
func earlier(t *testing.T, s Subject, f spend.Fence) {
	t.Helper()
	c := newCheck(f)
	c.ID = spend.NewID(now().Add(-24*time.Hour - time.Millisecond))
	mustCommit(t, s, c)
}

// blocked changes a check into one that passed the guard and that a rule blocked.
func blocked(c *spend.Check) *spend.Check {
	c.Decision.Effect = spend.Block
	c.Decision.Reason = spend.ReasonMaxAmount
	c.Decision.RuleID, c.Decision.RuleDescription = "cap", "Refunds are capped at 100.00 USD"
	c.Decision.Message = "125.50 USD exceeds the limit of 100.00 USD"
	c.Decision.NextStep = "Ask for a smaller amount."
	return c
}

// escalated changes a check into one that passed the guard and that a rule escalated.
func escalated(c *spend.Check) *spend.Check {
	c = blocked(c)
	c.Decision.Effect = spend.Escalate
	return c
}

func keyed(c *spend.Check, key string) *spend.Check {
	c.Action.IdempotencyKey = key
	return c
}

// newKeyText returns an idempotency key that nothing else uses.
func newKeyText() string { return "idem-" + rand.Text() }

// actor returns an actor with all fields set.
func actor() audit.Actor {
	return audit.Actor{
		KeyID: "key_0", Principal: "Kasse – ゼロ", Credential: "0123abcd", RequestID: "req_0123456789ab", Address: "2001:db8::1",
	}
}

func newPolicy(id string) *audit.Policy {
	return &audit.Policy{
		PolicyID: id, Name: "Refunds – ゼロ", Description: "who may refund what",
		Rules:    `[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":100.50,"currency":"USD"}}]`,
		Metadata: `{"team":"payments"}`,
	}
}

// newKey returns an active key, listed before those made earlier.
func newKey() *audit.Key {
	time.Sleep(time.Microsecond) // IDs of the same quarter microsecond are unordered
	k := &audit.Key{ID: spend.NewID(now()), Name: "checkout", RateLimitRPM: 100, Active: true, CreatedAt: epochStart}
	_, _ = rand.Read(k.Hash[:]) // never fails
	return k
}

func amount(s string) spend.Amount {
	a, err := spend.ParseAmount(s)
	if err != nil {
		panic(fmt.Sprintf("BUG: amount %q %v", s, err))
	}
	return a
}

func metadata(s string) spend.Metadata {
	var faults spend.Faults
	m := spend.ParseMetadata(jsontext.Value(s), "metadata", &faults)
	if faults != nil {
		panic("BUG: " + faults.Error())
	}
	return m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustCommit(t testing.TB, s audit.Store, checks ...*spend.Check) {
	t.Helper()
	stops := lastStop(t, s) // by which they are judged
	for _, c := range checks {
		c.Fence.Stops = stops
	}
	must(t, Record(t.Context(), s, checks...))
}

// lookUp reads checks back.
func lookUp(t testing.TB, s audit.Store, checks ...*spend.Check) map[spend.ID]*spend.Check {
	t.Helper()
	ids := make([]spend.ID, len(checks))
	for i, c := range checks {
		ids[i] = c.ID
	}
	found := get(s.Checks(t.Context(), ids))(t)
	byID := make(map[spend.ID]*spend.Check, len(found))
	for _, c := range found {
		byID[c.ID] = c
	}
	if len(byID) != len(found) {
		t.Errorf("%d checks in the answer, only %d different", len(found), len(byID))
	}
	return byID
}

// mustHave demands that each check reads back as it was committed.
func mustHave(t testing.TB, s audit.Store, checks ...*spend.Check) {
	t.Helper()
	found := lookUp(t, s, checks...)
	for _, want := range checks {
		if got := found[want.ID]; !reflect.DeepEqual(got, want) {
			t.Errorf("check came back\n%+v\nwant\n%+v", got, want)
		}
	}
}

// mustLack demands that none of the checks is recorded.
func mustLack(t testing.TB, s audit.Store, checks ...*spend.Check) {
	t.Helper()
	for id := range lookUp(t, s, checks...) {
		t.Errorf("check %s is recorded", id.Text(spend.PrefixCheck))
	}
}

func mustList(t testing.TB, s audit.Store, q audit.ViolationQuery) audit.ViolationPage {
	t.Helper()
	page := get(s.Violations(t.Context(), q))(t)
	return page
}

// get returns the value of a call that must succeed.
func get[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return value
	}
}
