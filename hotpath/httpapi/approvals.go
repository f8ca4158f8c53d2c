package httpapi

import (
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/wire"
)

// maxWait is how long an answer is held for, at most (S48).
const maxWait = 30 * time.Second

// getApprovals answers GET /v1/approvals.
func (a *API) getApprovals(x *exchange) error {
	query, filters, err := queryApprovals(x.query())
	if err != nil {
		return err
	}
	query.Bounds = x.access.Bounds()
	ctx := x.readContext()
	now := time.Now()
	if query.waiting {
		page, err := a.Authorizer.WaitingFor(ctx, x.access, hotpath.WaitingQuery{ApprovalQuery: query.ApprovalQuery, From: query.from})
		if err != nil {
			return err
		}
		return listing[hotpath.Waiting, json.RawMessage]{
			page: page.Items, more: page.More, filters: filters,
			record: func(w *hotpath.Waiting) json.RawMessage {
				switch {
				case w.Draft != nil:
					shown := waitingDraftOf(w.Draft)
					return wire.Append(nil, &shown, x.textAmounts)
				case w.Grant != nil:
					shown := grantOf(w.Grant)
					return wire.Append(nil, &shown, x.textAmounts)
				}
				shown := approvalOf(w.Approval, nil, now)
				return wire.Append(nil, &shown, x.textAmounts)
			},
			position: func(*hotpath.Waiting) string { return waitingPosition(page.Next) },
		}.answer(x)
	}
	page, more, err := a.Store.ListApprovals(ctx, query.ApprovalQuery)
	if err != nil {
		return err
	}
	return listing[*audit.Approval, wire.Approval]{
		page: page, record: func(a **audit.Approval) wire.Approval { return approvalOf(*a, nil, now) },
		position: func(a **audit.Approval) string { return string((*a).Check.ID[:]) }, more: more, filters: filters,
	}.answer(x)
}

// waitingPosition writes a place for a cursor: of an approval or a grant its end and its ID, of a draft its policy.
func waitingPosition(at hotpath.WaitingPlace) string {
	if at.PolicyID != "" {
		return "d" + at.PolicyID
	}
	ms := binary.BigEndian.AppendUint64([]byte{'a'}, uint64(at.Approval.ExpiresAt.UnixMilli()))
	return string(append(ms, at.Approval.ID[:]...))
}

// readWaitingPosition is the inverse.
func readWaitingPosition(text string) (at hotpath.WaitingPlace, ok bool) {
	const approval = 1 + 8 + len(spend.ID{})
	switch {
	case text == "":
		return at, true
	case text[0] == 'd' && spend.ValidPolicyID(text[1:]):
		at.PolicyID = text[1:]
		return at, true
	case text[0] == 'a' && len(text) == approval:
		at.Approval.ExpiresAt = time.UnixMilli(int64(binary.BigEndian.Uint64([]byte(text[1:]))))
		at.Approval.ID = spend.ID([]byte(text[9:]))
		return at, true
	}
	return at, false
}

// getApproval answers GET /v1/approvals/{approval_id}, and holds the answer as Prefer: wait asks.
func (a *API) getApproval(x *exchange, id spend.ID) error {
	wait, asked := preferredWait(x.ctx.Request.Header.PeekAll(headerPrefer))
	approval, waited, err := a.Authorizer.AwaitApproval(x.context(), x.access, id, wait, a.drain)
	if err != nil {
		return err
	}
	if asked && waited {
		x.waited(wait)
	}
	return a.answerApproval(x, approval)
}

// answerApproval answers with an approval as it is now.
func (a *API) answerApproval(x *exchange, approval *audit.Approval) error {
	left, err := a.Authorizer.BudgetsLeft(x.readContext(), approval)
	if err != nil {
		return err
	}
	now := time.Now()
	if approval.Status == audit.ApprovalPending {
		x.ctx.Response.Header.Set("Retry-After", strconv.Itoa(askAgainIn(approval, now)))
	}
	return respond(x, 200, approvalOf(approval, left, now))
}

// askAgainIn is in how many seconds to ask again for one that is pending.
func askAgainIn(approval *audit.Approval, now time.Time) int {
	if now.Sub(approval.CreatedAt) < time.Minute {
		return 5
	}
	return 30
}

// decide answers POST /v1/approvals/{approval_id}/approve and deny.
func (a *API) decide(x *exchange, approves bool) error {
	d := audit.ApprovalDecisionRequest{Approves: approves}
	if err := x.decode(func(r *reader) { decodeDecision(r, &d) }); err != nil {
		return err
	}
	var err error
	if d.ApprovalID, err = x.pathID("approval_id"); err != nil {
		return err
	}
	approval, replayed, err := a.Authorizer.DecideApproval(x.context(), x.access, a.actor(x), d)
	if err != nil {
		return err
	}
	x.setReplayed(replayed)
	return a.answerApproval(x, approval)
}

// decodeDecision reads the body of a decision.
func decodeDecision(r *reader, d *audit.ApprovalDecisionRequest) {
	given := false
	for r.next() {
		switch r.name {
		case "action_hash":
			text := r.text()
			given = !spend.Blank(text)
			d.ActionHash = hashOf(text)
		case "note":
			d.Note = r.note()
		default:
			r.unknown()
		}
	}
	if !given {
		r.missing("action_hash", 0)
	}
}

// approvalQuery is a query for approvals.
type approvalQuery struct {
	audit.ApprovalQuery
	waiting bool // for the caller's decision
	from    hotpath.WaitingPlace
}

// queryApprovals reads the query of GET /v1/approvals.
func queryApprovals(query []byte) (approvalQuery, filterSum, error) {
	var faults spend.Faults
	names := [...]string{
		"status", "policy_id", "agent_id", "counterparty", "amount_from", "amount_to", "from", "to", "decided_by", "waiting_for",
	}
	values := parameters(query, &faults, append(names[:], "limit", "cursor")...)
	q := approvalQuery{ApprovalQuery: audit.ApprovalQuery{
		Status: audit.ApprovalStatus(values["status"]), PolicyID: values["policy_id"], AgentID: values["agent_id"],
	}}
	switch q.Status {
	case "", audit.ApprovalPending, audit.ApprovalApproved, audit.ApprovalDenied, audit.ApprovalExpired, audit.ApprovalUsed:
	default:
		faults.Add("status", "must be pending, approved, denied, expired or used")
	}
	who, waiting := values["waiting_for"]
	if q.waiting = waiting; waiting && who != "me" {
		faults.Add("waiting_for", "must be me")
	}
	if waiting && q.Status != "" && q.Status != audit.ApprovalPending {
		faults.Add("status", "must be pending with waiting_for")
	}
	spend.CheckLength(&faults, "policy_id", q.PolicyID, spend.MaxPolicyID)
	spend.CheckLength(&faults, "agent_id", q.AgentID, spend.MaxIdentifier)
	q.ApprovalFilter = queryAsked(values, &faults)
	parts := []string{"approvals 1"}
	for _, name := range names {
		parts = append(parts, values[name])
	}
	filters := sumOf(parts...)
	if waiting {
		var position string
		q.Limit, position = queryPage(values, filters, &faults)
		var ok bool
		if q.from, ok = readWaitingPosition(position); !ok {
			faults.Add("cursor", cursorForm)
		}
	} else {
		q.Limit, q.Before = queryPageBefore(values, filters, &faults)
	}
	return q, filters, faults.Err()
}

// queryAsked reads the filters of approvals that compare the check that asked, and who decided.
func queryAsked(values map[string]string, faults *spend.Faults) (f audit.ApprovalFilter) {
	f.Counterparty, f.DecidedBy = values["counterparty"], values["decided_by"]
	spend.CheckLength(faults, "counterparty", f.Counterparty, spend.MaxIdentifier)
	spend.CheckLength(faults, "decided_by", f.DecidedBy, spend.MaxPrincipal)
	f.Amounts = queryAmounts(values, faults)
	var last time.Time
	if f.From, last = queryRange(values, faults); !last.IsZero() {
		f.Until = last.Add(time.Millisecond)
	}
	return f
}

// queryAmounts reads the bounds of amounts.
func queryAmounts(values map[string]string, faults *spend.Faults) audit.Amounts {
	a := audit.Amounts{AmountFrom: queryAmount("amount_from", values, faults), AmountTo: queryAmount("amount_to", values, faults)}
	if a.AmountFrom != nil && a.AmountTo != nil && a.AmountFrom.Cmp(*a.AmountTo) > 0 {
		faults.Add("amount_from", "must not be above amount_to")
	}
	return a
}

func queryAmount(name string, values map[string]string, faults *spend.Faults) *spend.Amount {
	s, given := values[name]
	if !given {
		return nil
	}
	amount, err := spend.ParseAmount(s)
	if err != nil {
		faults.Add(name, err.Error())
	}
	return &amount
}
