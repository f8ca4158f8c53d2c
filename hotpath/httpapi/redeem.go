package httpapi

import (
	"context"
	"encoding/hex"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/wire"
)

// postRedeem answers POST /v1/checks/{check_id}/redeem (S74).
func (a *API) postRedeem(x *exchange) error {
	var asked hotpath.Redemption
	if err := x.decode(func(r *reader) { x.decodeRedemption(r, &asked) }); err != nil {
		return err
	}
	if x.payment.Key != "" && x.access.Nobody() {
		return hotpath.ErrPrincipalRequired
	}
	id, err := x.pathID("check_id")
	if err != nil {
		return err
	}
	replayed := false
	redeemed, err := a.Authorizer.RedeemUnread(x.context(), x.redemption(), id, asked)
	if err == nil && redeemed == nil {
		redeemed, replayed, err = a.redeemRead(x, id, asked)
	}
	if err != nil {
		return err
	}
	check := redeemed.Check
	hash := spend.ActionHash(check)
	x.setReplayed(replayed)
	course := spend.CourseOf([]*spend.Outcome{redeemed})
	payments, err := a.Authorizer.PaymentsOf(x.context(), x.access, []*spend.Check{check}, map[spend.ID]spend.Course{check.ID: course})
	if err != nil {
		return err
	}
	shown := wire.Redemption{
		CheckID: check.ID.Text(spend.PrefixCheck), Action: actionOf(check), ActionHash: hex.EncodeToString(hash[:]),
		RedeemedAt: wire.Timestamp{Time: redeemed.ID.Time()}, RedemptionID: redeemed.ID.Text(spend.PrefixRedemption),
	}
	if payment := payments[check.ID]; payment != nil {
		if payment.Proceed = payment.Status == audit.PaymentRedeemed; payment.Proceed {
			payment.Nonce = asked.IdempotencyKey
		}
		shown.Payment = new(shownPayment(payment))
	}
	return respond(x, 200, shown)
}

// redemption is the request of a redemption, with the payment that it names.
func (x *exchange) redemption() hotpath.Request {
	r := x.request()
	if x.payment.Key != "" {
		r.Payment = &x.payment.PaymentRequest
	}
	return r
}

// redeemRead reads the check, and redeems it. The redemption that it returns has the check.
func (a *API) redeemRead(x *exchange, id spend.ID, asked hotpath.Redemption) (o *spend.Outcome, replayed bool, err error) {
	ctx := x.readContext()
	check, untouched, err := a.checkToRedeem(ctx, x, id)
	if err != nil {
		return nil, false, err
	}
	if o, replayed, err = a.Authorizer.Redeem(x.context(), x.redemption(), check, untouched, asked); err != nil {
		a.showRefused(ctx, x, check, err)
		return nil, false, err
	}
	o.Check = check
	return o, replayed, nil
}

// checkToRedeem is checkAt. Nearly always nothing was recorded of the check, and it is
// looked up together with the checks of other callers.
func (a *API) checkToRedeem(ctx context.Context, x *exchange, id spend.ID) (check *spend.Check, untouched bool, err error) {
	switch check, err = a.Authorizer.Untouched(ctx, id); {
	case err != nil:
		return nil, false, err
	case check == nil:
		check, err = a.checkAt(ctx, x)
		return check, false, err
	case !x.access.Sees(check):
		return nil, false, errCheckNotFound
	}
	return check, true, nil
}

// decodeRedemption reads the body of a redemption, and the header that may replace its idempotency_key
// (S58).
func (x *exchange) decodeRedemption(r *reader, asked *hotpath.Redemption) {
	var action spend.Action
	var members []string // of the action
	hasAmount := false
	for r.next() {
		switch r.name {
		case "action_hash":
			asked.ActionHash = r.hash("action_hash")
		case "payment_key":
			x.payment.Key = r.paymentKey()
		case "idempotency_key":
			asked.IdempotencyKey = r.optionalText()
		case "amount":
			members = append(members, r.name)
			action.Amount, hasAmount = r.amount()
		default:
			name := r.name
			if !r.actionMember(&action, false) {
				r.unknown()
				break
			}
			members = append(members, name)
		}
	}
	r.checkLength("idempotency_key", asked.IdempotencyKey, spend.MaxIdempotencyKey)
	switch {
	case asked.ActionHash == nil && !faulted(r.faults, "action_hash"):
		r.actionToRedeem(&action, hasAmount)
		asked.Action = &action
	case members != nil:
		r.fault("action_hash", "must not be given beside the action's members, such as "+members[0])
	}
	x.takeIdempotencyKey(r, &asked.IdempotencyKey)
}

// actionToRedeem reads the members of an action that is about to be carried out. Agent, policy and
// type may be left out.
func (r *reader) actionToRedeem(a *spend.Action, hasAmount bool) {
	if !hasAmount {
		r.missing("amount", 0)
	}
	if a.Currency == "" {
		r.missing("currency", 0)
	}
	given := *a
	a.Validate(r.prefix, new(spend.Faults)) // clears blank members
	if spend.Blank(a.AgentID) {
		a.AgentID = ""
	}
	if spend.Blank(a.PolicyID) {
		a.PolicyID = ""
	}
	complete := given
	if a.AgentID == "" {
		complete.AgentID = "a"
	}
	if a.PolicyID == "" {
		complete.PolicyID = "p"
	}
	if a.Type == spend.Unspecified && a.ReasonText == "" {
		complete.Type = spend.Spend
	}
	r.validate(&complete, 0)
}

// hash reads one in hexadecimal; nil when it is absent, or a fault.
func (r *reader) hash(name string) *spend.Hash {
	text := r.text()
	if spend.Blank(text) {
		return nil
	}
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(spend.Hash{}) {
		r.fault(name, "must be 64 hexadecimal digits")
		return nil
	}
	h := spend.Hash(raw)
	return &h
}

// postInDoubt answers POST /v1/checks/{check_id}/in-doubt.
func (a *API) postInDoubt(x *exchange) error {
	var note string
	var redemption spend.ID
	read := func(r *reader) {
		for r.next() {
			switch r.name {
			case "note":
				note = r.note()
			case "redemption_id":
				redemption = r.optionalID(spend.PrefixRedemption)
			default:
				r.unknown()
			}
		}
	}
	if err := x.decodeOptional(read); err != nil {
		return err
	}
	return a.step(x, func(check *spend.Check) (replayed bool, err error) {
		course, replayed, err := a.Authorizer.Doubt(x.context(), x.request(), check, note, redemption)
		if err != nil {
			return false, err
		}
		x.out = wire.Append(x.out, new(courseOf(course)), x.textAmounts)
		return replayed, nil
	})
}
