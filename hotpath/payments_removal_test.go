package hotpath_test

import (
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	servers "spendgate/bench/fleet"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// TestRemovedPayments: a payment that ended long ago is removed, and one that waits for somebody is not. What was removed begins anew, and
// what becomes of its old checks is recorded beside that (S84).
func TestRemovedPayments(t *testing.T) {
	if testing.Short() {
		t.Skip("needs PostgreSQL")
	}
	b := realBackend(os.Getenv("TEST_REDIS_URL"))
	var url string
	b.store = func(t *testing.T) audit.Store {
		url = servers.TestMigrated(t, postgres.Migrate)
		s := must.Get(postgres.Open(t.Context(), postgres.Options{URL: url, Logger: slog.New(slog.DiscardHandler), Migrate: true}))(t)
		t.Cleanup(s.Close)
		return s
	}
	f := newFleet(t, b, 1)
	p := newPayer(f)
	a := refundOf(t, "10", "c")
	waiting := p.must("another", refundOf(t, "10", "another"), hotpath.PaymentRequest{Key: "another"}, audit.PaymentOpen, false)

	// A payment of forty days ago, which was given back.
	c := *waiting.Check
	c.ID, c.Pass, c.Fence.Node = spend.NewID(time.Now().AddDate(0, 0, -40)), spend.Pass{}, spend.NewID(time.Now())
	c.Action.Counterparty = a.Counterparty
	payment := spend.Payment{Namespace: c.Namespace, Key: "order"}
	payment, c.Payment = payment.WithCheck(&c, 0, spend.Hash{})
	var steps []*spend.Outcome
	for i, status := range []spend.Status{spend.Redeemed, spend.Failed} {
		o := &spend.Outcome{
			ID: spend.NewOutcomeID(c.Timestamp().Add(time.Second)), CheckID: c.ID, Check: &c, Step: i + 1, Number: i, Status: status,
			KeyID: p.own.ID.Text(spend.PrefixKey), Principal: "bot", RequestID: "req_1", RedeemBy: time.Now().Add(time.Hour), Fence: c.Fence,
			Release: spend.ReleaseNone,
		}
		if status == spend.Failed {
			o.SetRelease(true)
		}
		var said spend.PaymentStep
		seen := payment.Version
		if payment, said = payment.WithStep(o, 0, false); i == 0 {
			c.Payments = []spend.PaymentChange{{To: payment}}
		} else {
			o.Payments = []spend.PaymentChange{{Seen: seen, To: payment}}
		}
		o.Payment.Of = []spend.PaymentStep{said}
		steps = append(steps, o)
	}
	for _, err := range []error{
		audittest.RecordAll(t.Context(), f.store, []*spend.Check{&c}, steps[0]), audittest.RecordAll(t.Context(), f.store, nil, steps[1]),
	} {
		must.Do(t, err)
	}
	db, err := pgx.Connect(t.Context(), url)
	must.Do(t, err)
	defer db.Close(t.Context()) //nolint:errcheck // nothing is lost with it
	must.Get(db.Exec(t.Context(), "UPDATE payments SET changed_at = now() - interval '39 days'"))(t)
	// Beside it is one that cannot be judged: its check is not there.
	lost := payment
	lost.Key, lost.Current = "lost", spend.NewID(time.Now())
	hash := lost.Hash()
	must.Get(db.Exec(t.Context(), `INSERT INTO payments SELECT $1, version, seen, changed_at, first_check, namespace, $2, $3
		FROM payments LIMIT 1`, hash[:], lost.Key, string(lost.Append(nil))))(t)
	err = f.nodes[0].RemovePayments(t.Context(), time.Now().Add(-spend.PaymentsKept-time.Hour))
	if !errors.Is(err, hotpath.ErrUnavailable) {
		t.Fatalf("with one that cannot be judged: %v", err)
	}
	left, err := f.store.Payments(t.Context(), []spend.Hash{payment.Hash(), waiting.Check.PaymentHash()})
	if err != nil || len(left) != 1 || left[payment.Hash()] != nil {
		t.Fatalf("left are %v, %v", left, err)
	}

	old := hotpath.Answer{Check: &c, Payment: &hotpath.PaymentView{Redemption: steps[0]}}
	shown := func() *hotpath.PaymentView {
		t.Helper()
		views := must.Get(f.nodes[0].PaymentsOf(t.Context(), hotpath.Access{}, []*spend.Check{&c}, nil))(t)
		return views[c.ID]
	}
	correct := func(status spend.Status, supersedes int) {
		t.Helper()
		must.Do(t, p.ended(old, spend.Executor, status, supersedes))
		course, err := audit.Courses(t.Context(), f.store, []spend.ID{c.ID})
		last := course[c.ID]
		if o := last.Last(); err != nil || o.Status != status || len(o.Payment.Of) > 0 || len(o.Payment.Flags) > 0 {
			t.Fatalf("a correction: %+v, %v", o, err)
		}
	}
	correct(spend.Executed, 1)
	if v := shown(); v != nil {
		t.Errorf("a removed payment is %+v", v)
	}
	again := p.must("anew", a, nonce(1), audit.PaymentRedeemed, true)
	deployment, err := f.store.Deployment(t.Context())
	execution := again.Payment.Redeemed.Payment.ExecutionID
	if err != nil || again.Payment.Attempt != 1 || execution != payment.ExecutionID(deployment, 0) {
		t.Errorf("anew: %+v, %v", again.Payment, err)
	}
	correct(spend.Failed, 2)
	correct(spend.Executed, 3)
	p.must("redeemed", a, nonce(1), audit.PaymentRedeemed, true)
	if v := shown(); v != nil {
		t.Errorf("the old check is of the new payment: %+v", v)
	}
	must.Do(t, p.ended(again, spend.Gateway, spend.Executed, 0))
	p.must("executed", a, nonce(2), audit.PaymentExecuted, false)
}
