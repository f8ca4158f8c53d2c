package audittest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// everyFieldComesBack commits the extreme values of each field in one batch.
func everyFieldComesBack(t *testing.T, s Subject) {
	f := fence(t, s)
	wide := strings.Repeat("é\U0001f4b8", 128) // 256 code points, 4 bytes the widest
	full := blocked(newCheck(f))
	full.Action = spend.Action{
		AgentID: wide, PolicyID: strings.Repeat("p", spend.MaxPolicyID), Type: spend.Discount,
		Amount: amount("999999999999999999"), Currency: "EUR", Counterparty: wide, PaymentMethod: wide,
		MerchantOrVendor: wide, ReasonText: strings.Repeat("\U0001f4b8", spend.MaxReasonText),
		IdempotencyKey: newKeyText() + strings.Repeat("ü", 200),
		Metadata: metadata(`{"days_since_purchase":0,"discount_percent":12.50,"country":"fr","category":"a\"b\\",` +
			`"filler":"` + strings.Repeat("x", spend.MaxMetadataBytes-200) + `"}`),
	}
	full.ActionType = spend.Spend
	full.Decision.Effect, full.Decision.Confidence = spend.Escalate, spend.Medium
	full.Decision.Message = "tab\t newline\n quote' \\backslash \\N \\. \u2028 é"
	full.Decision.RuleDescription = strings.Repeat("d", spend.MaxDescription)
	full.Namespace = wide
	full.Payment = &spend.CheckPayment{Key: hostile, Version: 1 << 60, Attempt: 1<<31 - 1, Round: 7, Hours: 8760, Nonce: spend.Hash{31: 1}}
	full.LatencyMS, full.Decision.PolicyVersion = 1999, 1<<31-1
	for i := range full.Fingerprint {
		full.Fingerprint[i], full.RequestSHA[i] = byte(i), 0xff
	}
	full.Pass = spend.Pass{ClaimedMS: 1, UntilMS: 1<<53 - 1}
	full.Principal, full.Owner = wide, wide
	mustBeFull(t, full)

	empty := newCheck(f) // no optional field, and blocked by the guard
	empty.Action = spend.Action{AgentID: "a", PolicyID: "p", Currency: "USD", Counterparty: "c"}
	empty.Decision = spend.Decision{Confidence: spend.Low}
	empty.Pass, empty.LatencyMS = spend.Pass{}, 0

	odd := keyed(blocked(newCheck(f)), newKeyText()+hostile)
	odd.Action.AgentID, odd.Action.Counterparty, odd.Action.PaymentMethod = hostile, hostile, hostile
	odd.Action.MerchantOrVendor, odd.Action.ReasonText = hostile, hostile
	odd.Action.Metadata = metadata(`{` + strconv.Quote(hostile) + `:` + strconv.Quote(hostile) + `}`)
	odd.Decision.RuleID, odd.Decision.Message = hostile, hostile

	batch := []*spend.Check{full, empty, odd}
	for _, a := range []string{
		"0", "1", "0.000000001", "999999999.999999999", "100000000000000000.1", "9999", "10000",
		"0.0001", "0.00001", "123456789012345678", "9999999999.999999999", "1000000000.000000001", "100000000", "0.1",
	} {
		c := newCheck(f)
		c.Action.Amount = amount(a)
		batch = append(batch, c)
	}
	for _, kind := range spend.ActionTypes {
		c := newCheck(f)
		c.Action.Type, c.ActionType = kind, kind
		batch = append(batch, c)
	}
	mustCommit(t, s, batch...)
	mustHave(t, s, batch...)
	again := *full // by another call: the first commit also raised the horizon
	again.ID, again.Action.IdempotencyKey = spend.NewID(now()), newKeyText()
	mustCommit(t, s, &again)
	mustHave(t, s, &again)
	if found := lookUp(t, s, full, newCheck(f)); len(found) != 1 {
		t.Errorf("found %d checks, want the one recorded", len(found))
	}
	if found := lookUp(t, s); len(found) != 0 {
		t.Errorf("no identifiers found %d checks", len(found))
	}
}

// mustBeFull demands that each field has a value, other than those that concern approvals, budgets and changes
// of payments, which have tests of their own.
func mustBeFull(t *testing.T, c *spend.Check) {
	t.Helper()
	elsewhere := []string{"Approval", "ApprovalID", "Charges", "Refused", "Payments", "Withdrawn", "RedeemBy"}
	for _, part := range []any{*c, c.Action, c.Decision} {
		for field, value := range reflect.ValueOf(part).Fields() {
			if value.IsZero() && !slices.Contains(elsewhere, field.Name) {
				t.Errorf("no value of %T.%s is recorded", part, field.Name)
			}
		}
	}
}

// batchIsAllOrNothing: a batch refused because of one row leaves none of its rows.
func batchIsAllOrNothing(t *testing.T, s Subject) {
	f := fence(t, s)
	first := newCheck(f)
	mustCommit(t, s, first)
	again := blocked(newCheck(f))
	again.ID = first.ID // recorded already
	others := []*spend.Check{keyed(blocked(newCheck(f)), newKeyText()), keyed(newCheck(f), newKeyText())}
	err := Record(t.Context(), s, append(others, again)...)
	if _, ok := errors.AsType[*audit.RowError](err); !ok {
		t.Errorf("got %v, want a RowError", err)
	}
	mustLack(t, s, others...)
	mustHave(t, s, first)
	if n := s.Count(t, "SELECT count(*) FROM violations"); n != 0 {
		t.Errorf("%d violations were left behind", n)
	}
	mustCommit(t, s, others...) // so its keys were not left behind either
	if err := Record(t.Context(), s); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
}

// poisonRowIsNamed commits text that no store accepts.
func poisonRowIsNamed(t *testing.T, s Subject) {
	f := fence(t, s)
	for _, poison := range []string{"nul\x00", "\xff not UTF-8"} {
		bad, good := newCheck(f), newCheck(f)
		bad.Action.ReasonText = poison
		var row *audit.RowError
		if err := Record(t.Context(), s, good, bad); !errors.As(err, &row) {
			t.Errorf("%q: got %v, want a RowError", poison, err)
		}
		mustLack(t, s, good, bad)
		mustCommit(t, s, good)
	}
}

func endedContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// contextEnds demands that an ended context stops everything, with a certain outcome.
func contextEnds(t *testing.T, s Subject) {
	f := fence(t, s)
	ended := endedContext(t)
	c := newCheck(f)
	if err := Record(ended, s, c); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("commit: got %v, want ErrUnavailable", err)
	}
	mustLack(t, s, c)
	for what, call := range map[string]func(context.Context) error{
		"fence": func(ctx context.Context) error { return s.Fence(ctx, f.Node) },
		"policy": func(ctx context.Context) error {
			return s.CreatePolicy(ctx, actor(), newPolicy("p"), audit.NewBudgets{}, epochStart)
		},
		"key":    func(ctx context.Context) error { return s.CreateKey(ctx, actor(), newKey()) },
		"checks": func(ctx context.Context) error { _, err := s.Checks(ctx, []spend.ID{c.ID}); return err },
		"epoch":  func(ctx context.Context) error { _, err := s.Epoch(ctx); return err },
	} {
		if err := call(ended); !errors.Is(err, audit.ErrUnavailable) {
			t.Errorf("%s: got %v, want ErrUnavailable", what, err)
		}
	}

	// A deadline that passes while commits run: each is recorded or not, as its error says, unless
	// the outcome is unknown.
	short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for short.Err() == nil {
				c := newCheck(f)
				switch err := Record(short, s, c); {
				case err == nil:
					mustHave(t, s, c)
				case errors.Is(err, audit.ErrUnavailable):
					mustLack(t, s, c)
				case !errors.Is(err, audit.ErrUnknown):
					t.Errorf("got %v", err)
				}
			}
		})
	}
	wg.Wait()
	mustCommit(t, s, c) // the store still works
}
