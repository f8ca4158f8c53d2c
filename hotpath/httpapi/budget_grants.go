package httpapi

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/wire"
)

// maxGrantCount is the most that one grant adds to a number of actions.
const maxGrantCount = 1_000_000_000

// postGrant answers POST /v1/grants (S91).
func (a *API) postGrant(x *exchange) error {
	var asked hotpath.GrantAsked
	if err := x.decode(func(r *reader) { x.decodeGrant(r, &asked) }); err != nil {
		return err
	}
	return replyOnce(x, 201, grantOf)(a.Authorizer.Grant(x.context(), x.access, a.actor(x), asked))
}

// decodeGrant reads the body of POST /v1/grants, and the header that may replace its idempotency_key (S58).
func (x *exchange) decodeGrant(r *reader, asked *hotpath.GrantAsked) {
	for r.next() {
		switch r.name {
		case "policy_id":
			asked.PolicyID = r.optionalText()
		case "rule_id":
			asked.RuleID = r.optionalText()
		case "per":
			asked.Per = r.grantPer()
		case "add_amount":
			var given bool
			if asked.AddAmount, given = r.amount(); given && asked.AddAmount.IsZero() && !faulted(r.faults, "add_amount") {
				r.fault("add_amount", "must be more than 0")
			}
		case "add_count":
			n, _ := r.integer(maxGrantCount)
			asked.AddCount = int64(n)
		case "until":
			asked.Until = r.future(time.Time{})
		case "note":
			asked.Note = r.optionalText()
		case "idempotency_key":
			asked.IdempotencyKey = r.optionalText()
		default:
			r.unknown()
		}
	}
	for name, text := range map[string]string{"policy_id": asked.PolicyID, "rule_id": asked.RuleID} {
		if text == "" && !faulted(r.faults, name) {
			r.missing(name, 0)
		}
	}
	if asked.PolicyID != "" && !spend.ValidPolicyID(asked.PolicyID) {
		r.fault("policy_id", spend.PolicyIDForm)
	}
	r.required("note", asked.Note)
	if asked.Until.IsZero() && !faulted(r.faults, "until") {
		r.missing("until", 0)
	}
	if asked.AddAmount.IsZero() == (asked.AddCount == 0) && !faulted(r.faults, "add_amount") && !faulted(r.faults, "add_count") {
		r.fault("add_amount", "or add_count must be given, and not both")
	}
	r.checkLength("idempotency_key", asked.IdempotencyKey, spend.MaxIdempotencyKey)
	x.takeIdempotencyKey(r, &asked.IdempotencyKey)
}

// grantPer reads the values of per: of each member a text, a number or a boolean.
func (r *reader) grantPer() map[string]jsontext.Value {
	if r.kind() == jsontext.KindNull {
		r.skip()
		return nil
	}
	if r.kind() != jsontext.KindBeginObject {
		r.fault("per", "must be an object")
		r.skip()
		return nil
	}
	r.token()
	r.prefix = "per."
	per := make(map[string]jsontext.Value)
	for r.next() {
		if kind := r.kind(); kind == jsontext.KindBeginObject || kind == jsontext.KindBeginArray || kind == jsontext.KindNull {
			r.fault(spend.NameShown(r.name), "must be a text, a number or a boolean")
			r.skip()
			continue
		}
		name := r.name
		per[name] = jsontext.Value(r.own(r.value(), 0))
	}
	r.prefix = ""
	return per
}

// getGrant answers GET /v1/grants/{grant_id}.
func (a *API) getGrant(x *exchange, id spend.ID) error {
	return reply(x, 200, grantOf)(a.Authorizer.GrantOf(x.readContext(), x.access, id))
}

// getGrants answers GET /v1/grants.
func (a *API) getGrants(x *exchange) error {
	var faults spend.Faults
	values := parameters(x.query(), &faults, "policy_id", "rule_id", "agent_id", "status", "limit", "cursor")
	q := hotpath.GrantQuery{
		PolicyID: values["policy_id"], RuleID: values["rule_id"], AgentID: values["agent_id"], Status: hotpath.GrantStatus(values["status"]),
	}
	switch q.Status {
	case "", hotpath.GrantPending, hotpath.GrantOpen, hotpath.GrantRevoked, hotpath.GrantEnded:
	default:
		faults.Add("status", "must be pending, open, revoked or ended")
	}
	sum := sumOf("grants 1", q.PolicyID, q.RuleID, q.AgentID, string(q.Status))
	q.Limit, q.Before = queryPageBelow(values, sum, &faults)
	if err := faults.Err(); err != nil {
		return err
	}
	page, err := a.Authorizer.ListGrants(x.readContext(), x.access, q)
	if err != nil {
		return err
	}
	return listing[hotpath.GrantView, wire.BudgetGrant]{
		page: page.Grants, record: grantOf, more: page.More, filters: sum,
		position: func(*hotpath.GrantView) string { return numberPosition(page.Next) },
	}.answer(x)
}

// postApproveGrant answers POST /v1/grants/{grant_id}/approve.
func (a *API) postApproveGrant(x *exchange) error {
	note, id, err := x.grantDecision()
	if err != nil {
		return err
	}
	return replyOnce(x, 200, grantOf)(a.Authorizer.ApproveGrant(x.context(), x.access, a.actor(x), id, note))
}

// postRevokeGrant answers POST /v1/grants/{grant_id}/revoke.
func (a *API) postRevokeGrant(x *exchange) error {
	note, id, err := x.grantDecision()
	if err != nil {
		return err
	}
	return replyOnce(x, 200, grantOf)(a.Authorizer.RevokeGrant(x.context(), x.access, a.freezer(x), id, note))
}

// grantDecision reads the body of a decision about a grant, which may be absent, and its path.
func (x *exchange) grantDecision() (note string, id spend.ID, err error) {
	err = x.decodeOptional(func(r *reader) {
		note = r.onlyNote()
		r.checkLength("note", note, spend.MaxNote)
	})
	if err != nil {
		return "", id, err
	}
	id, err = x.pathID("grant_id")
	return note, id, err
}

func grantOf(g *hotpath.GrantView) wire.BudgetGrant {
	shown := wire.BudgetGrant{
		Kind: wire.KindGrant, GrantID: g.ID.Text(spend.PrefixGrant), PolicyID: g.PolicyID, RuleID: g.RuleID,
		Per:       appendPer(g.Per, policy.ValuesOf(g.Subject)),
		AddAmount: known(!g.AddAmount.IsZero(), g.AddAmount), AddCount: g.AddCount, Currency: g.Currency,
		Until: wire.Timestamp{Time: g.Until}, Note: g.Note, Status: string(g.Status),
		CreatedAt: wire.Timestamp{Time: g.CreatedAt}, CreatedBy: grantPerson(&g.By), Required: g.Required, Missing: g.Missing,
		Approvals: make([]wire.GrantPerson, len(g.Approvals)),
	}
	for i := range g.Approvals {
		shown.Approvals[i] = grantPerson(&g.Approvals[i])
	}
	if g.Revoked != nil {
		shown.Revoked = new(grantPerson(g.Revoked))
	}
	return shown
}

func grantPerson(by *audit.Release) wire.GrantPerson {
	return wire.GrantPerson{Principal: by.By.Principal, KeyID: by.By.KeyID, Name: by.Name, Note: by.Note, At: wire.Timestamp{Time: by.At}}
}

// grantEventOf returns what an event says of a change of a grant.
func grantEventOf(c *audit.Change, by wire.ChangedBy) *wire.GrantEvent {
	g, said, _ := audit.GrantOf(c) // a record that cannot be read says nothing
	note := said.Note
	if c.Kind == audit.GrantCreated {
		note = g.Note
	}
	return &wire.GrantEvent{
		GrantID: c.Subject, PolicyID: g.PolicyID, RuleID: g.RuleID, Per: appendPer(g.Per, policy.ValuesOf(g.Subject)),
		AddAmount: known(!g.AddAmount.IsZero(), g.AddAmount), AddCount: g.AddCount, Currency: g.Currency,
		Until: wire.Timestamp{Time: g.Until}, Note: note, Required: g.Required, By: by,
	}
}
