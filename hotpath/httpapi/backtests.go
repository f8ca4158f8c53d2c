package httpapi

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/report"
	"spendgate/hotpath/wire"
)

// postBacktest answers POST /v1/backtests.
func (a *API) postBacktest(x *exchange) error {
	b := new(audit.Backtest)
	faults, err := x.decodeMore(func(r *reader) { decodeBacktest(r, b) })
	if err != nil {
		return err
	}
	if err := a.Authorizer.CreateBacktest(x.context(), x.access, b, faults); err != nil {
		return err
	}
	return respond(x, fasthttp.StatusAccepted, backtestResultOf(b))
}

// decodeBacktest reads the body of POST /v1/backtests.
func decodeBacktest(r *reader, b *audit.Backtest) {
	var from, to string
	versioned := false
	for r.next() {
		switch r.name {
		case "policy_id":
			b.PolicyID = r.text()
		case "rules":
			b.Rules = r.optionalRules()
		case "version":
			b.Version, versioned = r.integer(math.MaxInt32)
		case "from":
			from = r.text()
		case "to":
			to = r.text()
		case "state":
			switch state := r.optionalText(); state {
			case "", stateCounterfactual:
			case stateRecorded:
				b.Recorded = true
			default:
				r.fault("state", "must be counterfactual or recorded")
			}
		default:
			r.unknown()
		}
	}
	switch {
	case spend.Blank(b.PolicyID):
		r.missing("policy_id", 0)
	case !spend.ValidPolicyID(b.PolicyID):
		r.fault("policy_id", spend.PolicyIDForm)
	}
	switch {
	case versioned && b.Rules != "":
		r.fault("version", "is not accepted beside rules")
	case !versioned && b.Rules == "" && !faulted(r.faults, "version"):
		r.fault("rules or version", "is required")
	}
	decodePeriod(r, b, from, to)
}

// The states by which a candidate judges.
const (
	stateCounterfactual = "counterfactual"
	stateRecorded       = "recorded"
)

// decodePeriod reads from and to, both of which are required (S22).
func decodePeriod(r *reader, b *audit.Backtest, from, to string) {
	given := make(map[string]string)
	for _, member := range [...]struct{ name, text string }{{"from", from}, {"to", to}} {
		if spend.Blank(member.text) {
			r.missing(member.name, 0)
		} else {
			given[member.name] = member.text
		}
	}
	b.From, b.To = periodRange(given, &r.faults)
}

// errBacktestNotFound also answers for backtests that the caller may not see.
var errBacktestNotFound = &refusal{
	404, "backtest_not_found", "there is no such backtest; they are kept for 30 days, and the 200 newest that have ended",
}

// backtestOf returns the backtest that the path names, if the caller may see it.
func (a *API) backtestOf(x *exchange) (*audit.Backtest, error) {
	if err := x.access.PermitBacktests(); err != nil {
		return nil, err
	}
	id, err := x.pathID("backtest_id")
	if err != nil {
		return nil, err
	}
	b, err := a.Store.Backtest(x.readContext(), id)
	if err != nil {
		return nil, err
	}
	if !x.access.SeesPolicy(b.PolicyID) {
		return nil, errBacktestNotFound
	}
	return b, nil
}

// getBacktest answers GET /v1/backtests/{backtest_id}.
func (a *API) getBacktest(x *exchange) error {
	return reply(x, 200, backtestResultOf)(a.backtestOf(x))
}

// postCancel answers POST /v1/backtests/{backtest_id}/cancel. With the admin key the backtest may be anybody's.
func (a *API) postCancel(x *exchange) error {
	b, err := a.backtestOf(x)
	if err != nil {
		return err
	}
	return reply(x, 200, backtestResultOf)(a.Authorizer.CancelBacktest(x.readContext(), x.access, b, a.isAdmin(x)))
}

// getBacktests answers GET /v1/backtests.
func (a *API) getBacktests(x *exchange) error {
	var faults spend.Faults
	values := parameters(x.query(), &faults, "policy_id", "status", "limit", "cursor")
	q := audit.BacktestQuery{PolicyID: values["policy_id"], Status: audit.BacktestStatus(values["status"])}
	if q.PolicyID != "" && !spend.ValidPolicyID(q.PolicyID) {
		faults.Add("policy_id", spend.PolicyIDForm)
	}
	switch q.Status {
	case "", audit.BacktestQueued, audit.BacktestRunning, audit.BacktestSucceeded, audit.BacktestFailed, audit.BacktestCanceled:
	default:
		faults.Add("status", "must be queued, running, succeeded, failed or canceled")
	}
	filters := sumOf("backtests 1", q.PolicyID, string(q.Status))
	q.Limit, q.Before = queryPageBefore(values, filters, &faults)
	if err := faults.Err(); err != nil {
		return err
	}
	if err := x.access.PermitBacktests(); err != nil {
		return err
	}
	q.PolicyIDs = x.access.Bounds().PolicyIDs
	page, more, err := a.Store.ListBacktests(x.readContext(), q)
	if err != nil {
		return err
	}
	return listing[audit.Backtest, wire.Backtest]{
		page: page, record: backtestOf, position: func(b *audit.Backtest) string { return string(b.ID[:]) },
		more: more, filters: filters,
	}.answer(x)
}

// listedFlip is a flip and its number.
type listedFlip struct {
	n    int
	text string
}

// getFlips answers GET /v1/backtests/{backtest_id}/flips.
func (a *API) getFlips(x *exchange) error {
	var faults spend.Faults
	values := parameters(x.query(), &faults, "limit", "cursor")
	filters := sumOf("flips 1", x.pathValue("backtest_id"))
	limit, position := queryPage(values, filters, &faults)
	var behind int
	if position != "" {
		var ok bool
		if behind, ok = wholeNumber(position); !ok {
			faults.Add("cursor", cursorForm)
		}
	}
	if err := faults.Err(); err != nil {
		return err
	}
	b, err := a.backtestOf(x)
	if err != nil {
		return err
	}
	texts, more, err := a.Store.BacktestFlips(x.readContext(), b.ID, behind, limit)
	if err != nil {
		return err
	}
	flips := make([]listedFlip, len(texts))
	as := report.Shown{NoAction: !x.access.ReadsChecks(), TextAmounts: x.textAmounts}
	for i, text := range texts {
		if flips[i].text, err = report.ShowFlip(text, as); err != nil {
			return err
		}
		flips[i].n = behind + i + 1
	}
	return listing[listedFlip, json.RawMessage]{
		page: flips, record: func(f *listedFlip) json.RawMessage { return wire.Text(f.text) },
		position: func(f *listedFlip) string { return strconv.Itoa(f.n) }, more: more, filters: filters,
	}.answer(x)
}

// backtestResultOf returns a backtest with its rules and its report.
func backtestResultOf(b *audit.Backtest) wire.BacktestResult {
	return wire.BacktestResult{Backtest: backtestOf(b), Rules: wire.Text(b.Rules), Report: wire.Text(b.Report)}
}

// backtestOf returns a backtest as lists have it.
func backtestOf(b *audit.Backtest) wire.Backtest {
	shown := wire.Backtest{
		BacktestID: b.ID.Text(spend.PrefixBacktest), PolicyID: b.PolicyID, Version: b.Version, From: wire.Timestamp{Time: b.From},
		To: wire.Timestamp{Time: b.To}, State: stateCounterfactual, Status: string(b.Status),
		Progress: progressOf(b),
		Error:    b.Error, KeyID: b.KeyID, Principal: b.Principal, CreatedAt: wire.Timestamp{Time: b.CreatedAt},
		StartedAt: wire.At(b.StartedAt), EndedAt: wire.At(b.EndedAt),
	}
	if b.Recorded {
		shown.State = stateRecorded
	}
	return shown
}

func progressOf(b *audit.Backtest) wire.BacktestProgress {
	return wire.BacktestProgress{Checks: b.Checks, Fraction: fraction(b), Reached: wire.At(b.Reached)}
}

// fraction is how much of the period has been replayed, in hundredths; the time before
// it, which fills windows, is not counted.
func fraction(b *audit.Backtest) float64 {
	if b.Status == audit.BacktestSucceeded {
		return 1
	}
	done, whole := b.Reached.Sub(b.From), b.To.Sub(b.From)+time.Millisecond
	if b.Reached.IsZero() || done < 0 {
		return 0
	}
	return math.Floor(100*min(float64(done)/float64(whole), 0.99)) / 100
}
