package httpapi

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/wire"
)

// postOutcome answers POST /v1/checks/{check_id}/outcome (S39).
func (a *API) postOutcome(x *exchange) error {
	var report hotpath.Report
	if err := x.decode(func(r *reader) { decodeReport(r, &report) }); err != nil {
		return err
	}
	return a.step(x, func(check *spend.Check) (replayed bool, err error) {
		o, replayed, err := a.Authorizer.Report(x.context(), x.request(), check, report)
		if err != nil {
			return false, err
		}
		x.out = wire.Append(x.out, outcomeOf(o), x.textAmounts)
		return replayed, nil
	})
}

// step records a step about the check that the path names, by take, which also writes the body: 201,
// or 200 if it was recorded before.
func (a *API) step(x *exchange, take func(*spend.Check) (replayed bool, err error)) error {
	ctx := x.readContext()
	check, err := a.checkAt(ctx, x)
	if err != nil {
		return err
	}
	replayed, err := take(check)
	if err != nil {
		a.showRefused(ctx, x, check, err)
		return err
	}
	return x.answer(x.created(replayed))
}

// getOutcome answers GET /v1/checks/{check_id}/outcome: the last report.
func (a *API) getOutcome(x *exchange) error {
	ctx := x.readContext()
	check, err := a.checkAt(ctx, x)
	if err != nil {
		return err
	}
	became, err := audit.Courses(ctx, a.Store, []spend.ID{check.ID})
	if err != nil {
		return err
	}
	course := became[check.ID]
	outcome := course.Last()
	if outcome == nil {
		return errOutcomeNotFound
	}
	return respond(x, 200, *outcomeOf(outcome))
}

// checkAt returns the check that the path names, if the caller may see it.
func (a *API) checkAt(ctx context.Context, x *exchange) (*spend.Check, error) {
	id, err := x.pathID("check_id")
	if err != nil {
		return nil, err
	}
	checks, err := a.Store.Checks(ctx, []spend.ID{id})
	if err != nil {
		return nil, err
	}
	if len(checks) == 0 || !x.access.Sees(checks[0]) {
		return nil, errCheckNotFound
	}
	return checks[0], nil
}

// decodeReport reads the body of a report.
func decodeReport(r *reader, report *hotpath.Report) {
	for r.next() {
		switch r.name {
		case "status":
			report.Status = spend.Status(r.text())
		case "amount":
			if amount, present := r.amount(); present {
				report.Amount = &amount
			}
		case "reference":
			report.Reference = r.optionalText()
		case "note":
			report.Note = r.optionalText()
		case "supersedes":
			report.Supersedes = r.reportNumber()
		case "redemption_id":
			report.RedemptionID = r.optionalID(spend.PrefixRedemption)
		case "unless_in_doubt":
			report.UnlessInDoubt, _ = r.boolean()
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
		r.fault("amount", "is accepted only for an executed action")
	}
	r.checkLength("reference", report.Reference, spend.MaxReference)
	r.checkLength("note", report.Note, spend.MaxNote)
}

// reportNumber reads the number of a report, 0 if absent. A whole number that no report can have
// becomes -1, which is never that of the latest report (S61).
func (r *reader) reportNumber() int {
	if r.kind() == jsontext.KindNull {
		return 0
	}
	n, ok := spend.ParseInteger(r.own(r.value(), 0))
	if !ok {
		r.fault(r.name, "must be the number of a report")
	}
	if n < 1 || n > spend.MaxReports {
		return -1
	}
	return int(n)
}

// optionalText returns a string; a blank one counts as absent (S4).
func (r *reader) optionalText() string {
	if s := r.text(); !spend.Blank(s) {
		return s
	}
	return ""
}
