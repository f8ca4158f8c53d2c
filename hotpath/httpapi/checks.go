package httpapi

import (
	"time"

	"spendgate/audit"
	"spendgate/hotpath"
	"spendgate/hotpath/spend"
)

// postCheck answers POST /v1/checks. A body that is at fault is told to whoever is
// authenticated and counted; what comes of that wins (S1).
func (a *API) postCheck(x *exchange) error {
	x.caller = x.sender()
	quota, err := a.authorizer.Authenticate(x.context(), x.caller)
	if err != nil {
		x.quota = quota
		return err // a stranger's body is not parsed
	}
	if fault := x.decode(x.decodeCheckRequest); fault != nil {
		if err := a.admit(x, x.caller); err != nil {
			return err
		}
		return fault
	}
	answer, quota, err := a.authorizer.Check(x.context(), x.request(), &x.action)
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
	x.setReplayed(answer.Replayed)
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

// maxExamined is how many checks a page looks at: one that asks for what is rare
// costs no more than that, and is short.
const maxExamined = 5000

// getChecks answers GET /v1/checks.
func (a *API) getChecks(x *exchange) error {
	query, filters, err := queryChecks(x.query())
	if err != nil {
		return err
	}
	query.Bounds = x.access.Bounds()
	ctx, cancel := x.readContext()
	defer cancel()
	page, err := a.store.ListChecks(ctx, query)
	if err != nil {
		return err
	}
	ids := make([]spend.ID, len(page.Checks))
	for i, c := range page.Checks {
		ids[i] = c.ID
	}
	outcomes, err := a.store.Outcomes(ctx, ids)
	if err != nil {
		return err
	}
	last := make(map[spend.ID]*spend.Outcome, len(outcomes))
	for _, o := range outcomes { // in the order of their numbers
		last[o.CheckID] = o
	}
	record := func(dst []byte, c **spend.Check) []byte { return appendCheckRecord(dst, *c, last[(*c).ID]) }
	position := func(**spend.Check) string { return string(page.Next[:]) }
	return answerPage(x, page.Checks, record, position, page.More, filters, noTotal)
}

// queryChecks reads the query of GET /v1/checks (S55).
func queryChecks(query []byte) (audit.CheckQuery, filterSum, error) {
	var faults spend.Faults
	q := audit.CheckQuery{Examine: maxExamined}
	values := parameters(query, &faults, "agent_id", "policy_id", "decision", "outcome", "from", "to", "before", "limit", "cursor")
	q.AgentID, q.PolicyID = values["agent_id"], values["policy_id"]
	spend.CheckLength(&faults, "agent_id", q.AgentID, spend.MaxIdentifier)
	if q.PolicyID != "" && !spend.ValidPolicyID(q.PolicyID) {
		faults.Add("policy_id", spend.PolicyIDForm)
	}
	if s, given := values["decision"]; given {
		effect, ok := spend.ParseEffect(s)
		if q.Effect = &effect; !ok {
			faults.Add("decision", "must be allow, block or escalate")
		}
	}
	if s, given := values["outcome"]; given {
		if q.Outcome = spend.Status(s); q.Outcome != audit.NoOutcome && !q.Outcome.Known() {
			faults.Add("outcome", "must be none, executed, failed or voided")
		}
	}
	var last time.Time
	if q.From, last = queryRange(values, &faults); !last.IsZero() {
		q.Until = last.Add(time.Millisecond)
	}
	if before, given := queryInstant("before", values, false, &faults); given {
		before = firstRecordable(before)
		if q.From.After(before) {
			faults.Add("from", "must not be after before")
		}
		if q.Until.IsZero() || before.Before(q.Until) {
			q.Until = before
		}
	}
	filters := checkFilters(&q)
	q.Limit, q.Before = queryPageBefore(values, filters, &faults)
	return q, filters, faults.Err()
}
