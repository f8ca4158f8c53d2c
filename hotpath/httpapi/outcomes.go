package httpapi

import (
	"context"

	"spendgate/hotpath"
	"spendgate/hotpath/spend"
)

// postOutcome answers POST /v1/checks/{check_id}/outcome (S39).
func (a *API) postOutcome(x *exchange) error {
	caller := x.caller()
	access, err := a.admit(x, caller, false)
	if err != nil {
		return err
	}
	var report hotpath.Report
	if err := x.decode(func(r *reader) error { return decodeReport(r, &report) }); err != nil {
		return err
	}
	ctx, cancel := x.readContext()
	defer cancel()
	check, err := a.checkAt(ctx, x, access)
	if err != nil {
		return err
	}
	request := x.request(caller)
	request.Access = access
	o, replayed, err := a.authorizer.Report(x.context(), request, check, report)
	if err != nil {
		return err
	}
	x.out = AppendOutcome(x.out, o)
	if replayed {
		x.ctx.Response.Header.SetCanonical(headerReplayed, valueTrue)
		return x.answer(200)
	}
	return x.answer(201)
}

// getOutcome answers GET /v1/checks/{check_id}/outcome: the last report.
func (a *API) getOutcome(x *exchange) error {
	ctx, cancel := x.readContext()
	defer cancel()
	check, err := a.readCheck(ctx, x)
	if err != nil {
		return err
	}
	outcomes, err := a.store.Outcomes(ctx, []spend.ID{check.ID})
	if err != nil {
		return err
	}
	if len(outcomes) == 0 {
		return errOutcomeNotFound
	}
	x.out = AppendOutcome(x.out, outcomes[len(outcomes)-1])
	return x.answer(200)
}

// readCheck returns the check that a GET's path names.
func (a *API) readCheck(ctx context.Context, x *exchange) (*spend.Check, error) {
	access, err := a.admit(x, x.caller(), true)
	if err != nil {
		return nil, err
	}
	if err := x.noQuery(); err != nil {
		return nil, err
	}
	return a.checkAt(ctx, x, access)
}

// checkAt returns the check that the path names, if the caller may see it.
func (a *API) checkAt(ctx context.Context, x *exchange, access hotpath.Access) (*spend.Check, error) {
	id, err := spend.ParseID(x.pathValue("check_id"), spend.PrefixCheck)
	if err != nil {
		return nil, errCheckNotFound
	}
	checks, err := a.store.Checks(ctx, []spend.ID{id})
	if err != nil {
		return nil, err
	}
	if len(checks) == 0 || !access.Sees(checks[0]) {
		return nil, errCheckNotFound
	}
	return checks[0], nil
}

// decodeReport reads the body of a report.
func decodeReport(r *reader, report *hotpath.Report) error {
	for r.next() {
		switch r.name {
		case "status":
			report.Status = spend.Status(r.text())
		case "amount":
			if amount, present := r.amount(); present {
				report.Amount = &amount
			}
		case "reference":
			report.Reference = r.blankable()
		case "note":
			report.Note = r.blankable()
		default:
			r.unknown()
		}
	}
	switch {
	case faulted(r.faults, "status"):
	case report.Status == "":
		r.missing("status", 0)
	case !report.Status.Known():
		r.fault("status", spend.StatusForm)
	case report.Status != spend.Executed && report.Amount != nil && !faulted(r.faults, "amount"):
		r.fault("amount", "is of an executed action only")
	}
	spend.CheckLength(&r.faults, "reference", report.Reference, spend.MaxReference)
	spend.CheckLength(&r.faults, "note", report.Note, spend.MaxNote)
	return r.faults.Err()
}

// blankable is a text that counts as absent when it is blank (S4).
func (r *reader) blankable() string {
	if s := r.text(); !spend.Blank(s) {
		return s
	}
	return ""
}

// AppendOutcome writes an outcome.
func AppendOutcome(dst []byte, o *spend.Outcome) []byte {
	dst = append(dst, `{"check_id":"`...)
	dst = o.CheckID.Append(dst, spend.PrefixCheck)
	dst = append(dst, `","status":"`...)
	dst = append(dst, o.Status...)
	dst = append(dst, `","amount":`...)
	if o.Status == spend.Executed {
		dst = o.Amount.Append(dst)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"reference":`...)
	dst = appendOptional(dst, o.Reference)
	dst = append(dst, `,"note":`...)
	dst = appendOptional(dst, o.Note)
	dst = append(dst, `,"release":"`...)
	dst = append(dst, o.Release...)
	dst = append(dst, `","flags":[`...)
	if o.Excess != "" {
		dst = append(append(append(dst, '"'), o.Excess...), '"')
	}
	dst = append(dst, `],"principal":`...)
	dst = appendString(dst, o.Reporter())
	dst = append(dst, `,"key_id":`...)
	dst = appendString(dst, o.KeyID)
	dst = append(dst, `,"at":`...)
	dst = appendTime(dst, o.ID.Time())
	return append(dst, '}')
}
