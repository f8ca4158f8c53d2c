package httpapi

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/wire"
)

// payment is what the body of a check says of its payment (S84).
type payment struct {
	hotpath.PaymentRequest
	members       []string // that need payment_key
	redeems       bool     // redeem is there, if only as something that no nonce can be
	waits         bool     // as the header Prefer asks
	takeOver      bool
	takeOverHours int
}

// paymentMember reads a member of a payment and reports whether the name is one of them.
func (r *reader) paymentMember(p *payment) bool {
	name := r.name
	var said bool
	switch name {
	case "payment_key":
		p.Key = r.paymentKey()
		return true
	case "redeem":
		kind, faults := r.kind(), len(r.faults)
		p.Nonce = r.nonce()
		said = p.Nonce != ""
		p.redeems = said || kind != jsontext.KindNull && len(r.faults) > faults
	case "replace":
		p.Replace, said = r.boolean()
	case "take_over":
		p.takeOver, said = r.boolean()
	case "take_over_within_hours":
		p.takeOverHours, said = r.integer(spend.MaxTakeOverHours)
	case "again_after_hours":
		p.Hours, said = r.integer(spend.MaxAgainHours)
	default:
		return false
	}
	if said {
		p.members = append(p.members, name)
	}
	return true
}

// paymentKey reads one; blank is absent.
func (r *reader) paymentKey() string {
	text := r.text()
	if spend.Blank(text) {
		return ""
	}
	key, fault := spend.PaymentKey(text)
	if fault != "" {
		r.fault(r.name, fault)
	}
	return key
}

// nonce reads the nonce of a redemption; blank is absent.
func (r *reader) nonce() string {
	text := r.text()
	if spend.Blank(text) {
		return ""
	}
	if !spend.TooLong(text, spend.MinNonce-1) || spend.TooLong(text, spend.MaxNonce) {
		r.fault(r.name, "must be 16-64 characters, new for each call")
	}
	return text
}

// validatePayment adds the faults of what the request says of its payment, beside its action.
func (r *reader) validatePayment(p *payment, a *spend.Action) {
	switch {
	case p.Key == "" && !faulted(r.faults, "payment_key"):
		for _, name := range p.members {
			r.fault(name, "needs payment_key")
		}
		return
	case a.IdempotencyKey != "":
		r.fault("idempotency_key", "must not be given beside payment_key, which takes its place")
	case !a.ApprovalID.IsZero():
		r.fault("approval_id", "must not be given beside payment_key: the service finds the approval itself")
	}
	if p.takeOver && p.Nonce == "" && !faulted(r.faults, "redeem") {
		r.fault("take_over", "needs redeem")
	}
	if p.takeOverHours > 0 && !p.takeOver {
		r.fault("take_over_within_hours", "needs take_over")
	}
}

// paymentOf returns the payment of the request; nil without one.
func (a *API) paymentOf(x *exchange) *hotpath.PaymentRequest {
	p := &x.payment
	if p.Key == "" {
		return nil
	}
	if p.takeOver {
		p.TakeOver = spend.TakeOverHours * time.Hour
		if p.takeOverHours > 0 {
			p.TakeOver = time.Duration(p.takeOverHours) * time.Hour
		}
	}
	p.Wait, p.waits = preferredWait(x.ctx.Request.Header.PeekAll(headerPrefer))
	if c, ok := x.ctx.Conn().(*conn); ok && p.Wait > 0 {
		p.Gone = c.closedBy
	}
	return &p.PaymentRequest
}

// showRefused has a 409 about a check show the check's payment.
func (a *API) showRefused(ctx context.Context, x *exchange, check *spend.Check, refused error) {
	if refusalOf(refused).status != 409 {
		return
	}
	courses, err := audit.Courses(ctx, a.Store, []spend.ID{check.ID})
	if err != nil {
		return // the refusal stands without it
	}
	if payments, err := a.Authorizer.PaymentsOf(ctx, x.access, []*spend.Check{check}, courses); err == nil {
		x.shown = payments[check.ID]
	}
}

var paymentForm = wire.NewForm[wire.Payment]()

// appendPayment adds the member payment to an object, before its last brace.
func appendPayment(dst []byte, v *hotpath.PaymentView) []byte {
	if v == nil {
		return dst
	}
	dst = append(dst[:len(dst)-1], `,"payment":`...)
	return append(paymentForm.Append(dst, new(shownPayment(v)), false), '}')
}

func shownPayment(v *hotpath.PaymentView) wire.Payment {
	shown := wire.Payment{PaymentKey: v.Key, State: string(v.Status), Attempt: v.Attempt}
	if v.Hidden {
		return shown
	}
	shown.Proceed, shown.Nonce = v.Proceed, v.Nonce
	if v.Redemption != nil {
		shown.RedemptionID, shown.RedeemedAt = v.Redemption.ID.Text(spend.PrefixRedemption), wire.At(v.Redemption.ID.Time())
	}
	if v.Redeemed != nil {
		shown.ExecutionID = v.Redeemed.Payment.ExecutionID
	}
	if v.Last != nil {
		shown.Outcome, shown.Reference = string(v.Last.Status), v.Last.Reference
	}
	if a := v.Approval; a != nil {
		shown.Approval = &wire.PaymentApproval{
			ApprovalID: a.Check.ID.Text(spend.PrefixApproval), Status: wire.ApprovalStatus(a.Status),
			ExpiresAt: wire.Timestamp{Time: a.ExpiresAt},
		}
		lacks := a.Missing()
		shown.Approval.Missing = lacks.People()
	}
	return shown
}
