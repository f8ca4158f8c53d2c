package httpapi

import (
	"cmp"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/policy"
)

// postCheck answers POST /v1/checks. Only an authenticated and counted caller is told of a faulty
// body; errors of both come first (S1).
func (a *API) postCheck(x *exchange) error {
	c, err := a.callerOf(x)
	if err != nil {
		return err
	}
	x.caller = c
	quota, err := a.Authorizer.Authenticate(x.context(), x.caller)
	if err != nil {
		x.quota = quota
		return err // a stranger's body is not parsed
	}
	if fault := x.decode(x.decodeCheckRequest); fault != nil {
		if err := a.admit(x, x.caller); err != nil {
			return err
		}
		if x.payment.redeems {
			return cmp.Or(x.access.MayRedeem(), fault)
		}
		return fault
	}
	request := x.request()
	if request.Payment = a.paymentOf(x); request.Payment != nil && request.Payment.Wait > 0 {
		stop, end := watch(x.ctx, a.drain)
		defer end()
		request.Payment.Stop = stop
	}
	answer, quota, err := a.Authorizer.Check(x.context(), request, &x.action)
	x.quota = quota
	if err != nil {
		return err
	}
	if x.payment.waits && answer.Waited {
		x.waited(x.payment.Wait)
	}
	return x.answerCheck(answer)
}

func (x *exchange) answerCheck(answer hotpath.Answer) error {
	if x.trace != nil {
		x.trace.Check, x.trace.Replayed = answer.Check, answer.Replayed
	}
	x.setReplayed(answer.Replayed)
	x.setRedeem(answer.Check)
	x.setBecame(&answer.Became)
	x.out = appendPayment(AppendCheckResult(x.out, answer.Check), answer.Payment)
	return x.answer(200)
}

// setRedeem says in a header, as next_step does for people, that an allowed check is redeemed before
// its action is carried out (S74).
func (x *exchange) setRedeem(check *spend.Check) {
	if policy.RequiresRedemption(&check.Decision) {
		x.ctx.Response.Header.SetCanonical(headerRedeem, []byte("required"))
	}
}

// setBecame says in headers whether the check in the response was redeemed (S74) or reported (S57);
// the body stays as in the first response.
func (x *exchange) setBecame(course *spend.Course) {
	if redeemed := course.Holder(); redeemed != nil {
		value := redeemed.ID.Append(nil, spend.PrefixRedemption)
		if course.Doubt != nil && course.Reports == nil {
			value = append(value, ";in_doubt"...)
		}
		x.ctx.Response.Header.SetCanonical(headerRedeemed, value)
	}
	o := course.Last()
	if o == nil {
		return
	}
	value := []byte(o.Status)
	if o.Release == spend.ReleasePending {
		value = append(value, ";release=pending"...)
	}
	x.ctx.Response.Header.SetCanonical(headerOutcome, value)
}

// getCheck answers GET /v1/checks/{check_id}.
func (a *API) getCheck(x *exchange) error {
	ctx := x.readContext()
	check, err := a.checkAt(ctx, x)
	if err != nil {
		return err
	}
	var courses map[spend.ID]spend.Course
	if check.TakesOutcome() {
		if courses, err = audit.Courses(ctx, a.Store, []spend.ID{check.ID}); err != nil {
			return err
		}
		became := courses[check.ID]
		x.setRedeem(check)
		x.setBecame(&became)
	}
	payments, err := a.Authorizer.PaymentsOf(ctx, x.access, []*spend.Check{check}, courses)
	if err != nil {
		return err
	}
	x.out = appendPayment(AppendCheckResult(x.out, check), payments[check.ID])
	return x.answer(200)
}
