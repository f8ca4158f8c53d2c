package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// TestTamperedPayments: every payment follows from what is recorded of it (S84).
func TestTamperedPayments(t *testing.T) {
	t.Parallel()
	tr := newRedemptionTrail(t)
	all := recordedPayments(tr)
	for _, size := range []int64{1, 7, 0} {
		tr.finds(func(o *verify.Options) { o.SliceSize = size })
	}
	tr.finds(func(o *verify.Options) { o.From = time.Now().Add(-time.Hour) })
	p, withdrawn := all[0], all[len(all)-1].asked
	row := " WHERE payment_key = '" + p.Key + "'"
	var next int
	must.Do(t, tr.conn.QueryRow(t.Context(), "SELECT generation + 1 FROM config").Scan(&next))
	change := fmt.Sprintf("inserted change %d of the configuration", next)
	other := strings.Repeat("00112233445566778899aabbccddeeff", 2)
	shown, moved := spend.PrefixCheck+p.Current.Text(""), p.Current.Text("")[:20]+other[:12]
	kept := "INSERT INTO kept_checks SELECT * FROM checks WHERE check_id = '" + p.Current.Text("") + "'"
	for tamper, want := range map[string]string{
		"SELECT": "",
		kept:     "",
		kept + "; UPDATE kept_checks SET decision = 'b'":                                     "altered kept check " + shown,
		kept + "; UPDATE kept_checks SET check_id = '" + moved + "'":                         "inserted kept check " + spend.PrefixCheck + moved,
		"UPDATE payments SET state = replace(state, '\"attempt\":1', '\"attempt\":2')" + row: paymentOf("altered", p),
		"UPDATE payments SET version = version + 1" + row:                                    paymentOf("altered", p),
		"UPDATE payments SET payment_key = 'x'" + row:                                        paymentOf("altered", p),
		"DELETE FROM payments" + row:                                                         paymentOf("removed", p),
		"UPDATE payments SET first_check = gen_random_uuid()" + row:                          paymentOf("altered", p),
		"INSERT INTO payments SELECT '\\x" + other + "', version, seen, changed_at, first_check, namespace, payment_key, state FROM payments" +
			row: "inserted payment " + other[:32],
		"SELECT record_change(raise_generation(), 'payments.removed', '/payments', NULL, " +
			"ROW('system', NULL, 'spendgate', NULL, NULL, NULL)::actor, jsonb_build_object('before_ms', to_ms(now() - interval '30 days'), " +
			"'removed', jsonb_build_object('" + other + "', 1)), decode(repeat('00', 32), 'hex'))": change,
		"UPDATE approvals SET payment = set_byte(payment, 0, 255 - get_byte(payment, 0)) WHERE id = '" +
			withdrawn.ID.Text("") + "'": "altered " + approvalOf(withdrawn),
	} {
		found := []string{want}
		if want == "" {
			found = nil
		}
		tr.bothFind("payments approvals changes kept_checks", tamper, found...)
	}
}

// TestForgedPayments: what no node records of a payment is named, though it is chained as nodes chain
// what they record (G16).
func TestForgedPayments(t *testing.T) {
	t.Parallel()
	tr := newRedemptionTrail(t)
	replace := func(from, to string) { // the guard of take-overs
		tr.exec(`DO $$ BEGIN EXECUTE replace(pg_get_functiondef('insert_outcomes'::regproc), '%s', '%s'); END $$`, from, to)
	}
	replace("o.number = 0", "0 = 0")
	var want []string
	forged := func(kind string, o *spend.Outcome) { want = append(want, outcome(kind, o)) }
	var p *payer

	p = tr.newPayer("two redemptions")
	p.allowed("redeemed n1")
	c := p.allowed()
	want = append(want, check("inserted", c))
	forged("inserted", p.records(c, "redeemed n2"))
	p = tr.newPayer("not current")
	c = p.allowed()
	voided := p.becomes(c, "voided", 0, spend.FlagReplaced)
	p.commits(p.asks(spend.Allow, 0), voided)
	c2 := p.asks(spend.Block, 0)
	want = append(want, check("inserted", p.commits(c2)))
	p = tr.newPayer("executed")
	p.allowed("redeemed n1", "executed")
	want = append(want, check("inserted", p.allowed()))
	p = tr.newPayer("executed before")
	c = p.allowed("redeemed n1", "failed")
	c2 = p.allowed()
	p.records(c, "executed")
	forged("inserted", p.records(c2, "redeemed n2"))
	p = tr.newPayer("a nonce again")
	p.allowed("redeemed n1", "voided")
	forged("inserted", p.records(p.allowed(), "redeemed n1"))
	p = tr.newPayer("taken back")
	forged("inserted", p.records(p.allowed("redeemed n1", "taken_over n2"), "taken_over n1"))
	p = tr.newPayer("taken over after a report")
	forged("inserted", p.records(p.allowed("redeemed n1", "executed"), "taken_over n2"))
	p = tr.newPayer("not redeemed")
	forged("inserted", p.records(p.allowed(), "executed"))
	p = tr.newPayer("a fingerprint")
	c = p.asks(spend.Block, 0)
	c.Pass = spend.Pass{ClaimedMS: 1, UntilMS: 2}
	want = append(want, check("inserted", p.commits(c)))
	p = tr.newPayer("too early")
	c = p.allowed()
	early := p.becomes(c, "voided", 0, spend.FlagLapsed)
	must.Do(t, tr.writer.AppendOutcome(early).Final())
	forged("inserted", early)
	p = tr.newPayer("lapsed by who asked")
	c = p.commits(p.asks(spend.Allow, 30*time.Minute))
	own := p.becomes(c, "voided", 0, spend.FlagLapsed)
	own.KeyID, own.Principal = "key_of_shop", "shop"
	must.Do(t, tr.writer.AppendOutcome(own).Final())
	forged("inserted", own)
	p = tr.newPayer("without its payment")
	c = p.allowed()
	o := p.becomes(c, "redeemed n1", 0)
	o.Payment = spend.OutcomePayment{}
	must.Do(t, tr.writer.AppendOutcome(o).Final())
	p.records(c, "failed")
	want = append(want, paymentOf("removed", p))
	p = tr.newPayer("the end without its payment")
	c = p.allowed()
	o = p.becomes(c, "redeemed n1", 0)
	o.Payment = spend.OutcomePayment{}
	must.Do(t, tr.writer.AppendOutcome(o).Final())
	forged("inserted", o)
	want = append(want, paymentOf("altered", p))
	p = tr.newPayer("says another attempt")
	c = p.asks(spend.Allow, 0)
	c.Payment.Attempt++
	want = append(want, check("inserted", p.commits(c)))
	p = tr.newPayer("says fewer redemptions")
	p.allowed("redeemed n1", "failed")
	c = p.allowed()
	o = p.becomes(c, "redeemed n2", 0)
	o.Payment.Of[0].Earlier = 0
	must.Do(t, tr.writer.AppendOutcome(o).Final())
	forged("inserted", o)
	p = tr.newPayer("a version twice")
	p.allowed("redeemed n1")
	c = checksOfAllSorts(p.fence)[2]
	c.Namespace, c.Payment = p.Namespace, &spend.CheckPayment{Key: p.Key, Version: 1, Attempt: 1, Hours: 1}
	c.ID = spend.NewID(time.Now().Add(time.Second)) // behind the first
	must.Do(t, tr.writer.Append(c).Final())
	want = append(want, check("inserted", c))
	p = tr.newPayer("not flagged")
	c = p.allowed("redeemed n1", "failed")
	p.allowed("redeemed n2", "executed")
	twice := p.becomes(c, "executed", 0)
	twice.Payment.Flags = nil
	must.Do(t, tr.writer.AppendOutcome(twice).Final())
	forged("inserted", twice)
	p = tr.newPayer("removed while it is open")
	p.commits(p.asks(spend.Allow, agesAgo))
	p.leaves()
	want = append(want, paymentOf("removed", p))
	p = tr.newPayer("removed while it is young")
	p.allowed("redeemed n1", "failed")
	p.leaves()
	want = append(want, paymentOf("removed", p))
	p = tr.newPayer("removed with another version")
	p.ended("failed")
	hash := p.Hash()
	tr.exec("DELETE FROM payments WHERE payment_key = '%s'; SELECT record_change(raise_generation(), 'payments.removed', '/payments', NULL, "+
		"ROW('system', NULL, 'spendgate', NULL, NULL, NULL)::actor, '{\"before_ms\": %d, \"removed\": {\"%x\": 2}}', "+
		"decode(repeat('00', 32), 'hex'))",
		p.Key, time.Now().Add(-agesAgo/2).UnixMilli(), hash[:])
	want = append(want, paymentOf("removed", p))
	terms := &audit.Policy{PolicyID: "plain", Name: "p", Rules: "[]"} // whoever is allowed need not redeem
	must.Do(t, tr.store.CreatePolicy(t.Context(), audit.Actor{}, terms, audit.NewBudgets{}, time.Now()))
	p = tr.newPayer("lapsed, of no payment")
	c = p.asks(spend.Allow, time.Hour)
	o = p.becomes(c, "voided", 0, spend.FlagLapsed)
	c.Action.PolicyID, c.Payment, c.Payments, o.Payments, o.Payment.Of = "plain", nil, nil, nil, nil
	must.Do(t, tr.writer.Append(c).Final())
	must.Do(t, tr.writer.AppendOutcome(o).Final())
	forged("inserted", o)
	p = tr.newPayer("corrected without its payment")
	c = p.allowed("redeemed n1", "failed")
	forged("inserted", p.corrects(c, "executed"))
	p = tr.newPayer("corrected in the payment that began anew")
	c = p.ended("failed")
	p.leaves()
	p.allowed()
	forged("inserted", p.records(c, "executed"))

	replace("0 = 0", "o.number = 0")
	p, q := tr.newPayer("under the payment of another"), tr.newPayer("executor's")
	q.Namespace = "PSP"
	p.under(q, p.allowed(), spend.Redeemed)
	p = tr.newPayer("under a payment that is carried out")
	forged("inserted", p.under(q, p.allowed(), spend.Redeemed))
	p = tr.newPayer("withdrawn")
	asked := p.approves()
	c = p.asks(spend.Allow, 0)
	c.Withdrawn = []spend.ID{asked.ID}
	p.commits(c)
	p.records(c, "voided")
	p = tr.newPayer("approved for a round before")
	asked = p.approves()
	c = p.commits(p.asks(spend.Allow, 0))
	must.Do(t, tr.writer.AppendOutcome(p.becomes(c, "redeemed n1", 0)).Final())
	must.Do(t, tr.writer.AppendOutcome(p.becomes(c, "executed", 2*time.Hour)).Final())
	want = append(want, check("inserted", p.commits(p.using(asked))))
	p = tr.newPayer("approved for another payment")
	asked = tr.newPayer("of another payment").approves()
	c = p.using(asked)
	c.Action = asked.Action
	c.Action.ApprovalID = asked.ID
	p.commits(c)
	want = append(want, "inserted use of "+approvalOf(asked))

	for _, size := range []int64{1, 0} {
		tr.finds(func(o *verify.Options) { o.SliceSize = size }, want...)
	}
	slices.Sort(want)
	if found := tr.stranger(false); !slices.Equal(found, want) {
		t.Errorf("verify.py:\n  %s\nwant\n  %s", strings.Join(found, "\n  "), strings.Join(want, "\n  "))
	}
}
