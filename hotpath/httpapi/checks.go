package httpapi

import (
	"spendgate/hotpath"
)

// postCheck answers POST /v1/checks.
func (a *API) postCheck(x *exchange) error {
	caller := x.caller()
	quota, err := a.authorizer.Authenticate(x.context(), caller)
	if err != nil {
		x.quota = quota
		return err // a stranger's body is not parsed
	}
	if err = x.decode(func(r *reader) error { return decodeCheck(r, &x.action) }); err != nil {
		return a.refuseBody(x, caller, err)
	}
	answer, quota, err := a.authorizer.Check(x.context(), x.request(caller), &x.action)
	x.quota = quota
	if err != nil {
		return err
	}
	return x.answerCheck(answer)
}

func (x *exchange) answerCheck(answer hotpath.Answer) error {
	if x.trace != nil {
		x.trace.Check, x.trace.Replayed = answer.Check, answer.Replayed
	}
	if answer.Replayed {
		x.ctx.Response.Header.SetCanonical(headerReplayed, valueTrue)
	}
	if answer.Released != "" {
		x.ctx.Response.Header.SetCanonical(headerOutcome, []byte(answer.Released))
	}
	x.out = AppendCheckResult(x.out, answer.Check)
	return x.answer(200)
}

// getCheck answers GET /v1/checks/{check_id}.
func (a *API) getCheck(x *exchange) error {
	ctx, cancel := x.readContext()
	defer cancel()
	check, err := a.readCheck(ctx, x)
	if err != nil {
		return err
	}
	x.out = AppendCheckResult(x.out, check)
	return x.answer(200)
}
