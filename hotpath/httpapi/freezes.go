package httpapi

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/wire"
)

// postFreeze answers POST /v1/freezes (S87).
func (a *API) postFreeze(x *exchange) error {
	var asked hotpath.FreezeAsked
	if err := x.decode(func(r *reader) { x.decodeFreeze(r, &asked) }); err != nil {
		return err
	}
	return replyOnce(x, 201, freezeOf)(a.Authorizer.Freeze(x.context(), x.access, a.freezer(x), asked))
}

// freezer returns the author of a freeze or a release: the caller's key, or an admin without one.
func (a *API) freezer(x *exchange) audit.Actor {
	if a.forces(x) {
		return a.adminActor(x)
	}
	return a.actor(x)
}

// decodeFreeze reads the body of POST /v1/freezes, and the header that may replace its idempotency_key (S58).
func (x *exchange) decodeFreeze(r *reader, asked *hotpath.FreezeAsked) {
	for r.next() {
		switch r.name {
		case "scope":
			asked.Scope = r.freezeScope()
		case "reason":
			asked.Reason = r.optionalText()
		case "until":
			if r.kind() == jsontext.KindNull {
				r.skip()
			} else {
				asked.Until = r.future(time.Time{})
			}
		case "idempotency_key":
			asked.IdempotencyKey = r.optionalText()
		default:
			r.unknown()
		}
	}
	r.required("reason", asked.Reason)
	if asked.Scope.Kind == "" && !faulted(r.faults, "scope") {
		r.missing("scope", 0)
	}
	r.checkLength("idempotency_key", asked.IdempotencyKey, spend.MaxIdempotencyKey)
	x.takeIdempotencyKey(r, &asked.IdempotencyKey)
}

// onlyNote reads an object that has no other member.
func (r *reader) onlyNote() (note string) {
	for r.next() {
		if r.name == "note" {
			note = r.optionalText()
		} else {
			r.unknown()
		}
	}
	return note
}

// required refuses a blank text, and one that is too long.
func (r *reader) required(name, text string) {
	if text == "" && !faulted(r.faults, name) {
		r.missing(name, 0)
	}
	r.checkLength(name, text, spend.MaxNote)
}

// freezeScope reads an object of exactly one member.
func (r *reader) freezeScope() (scope audit.FreezeScope) {
	const form = "must be an object with exactly one of all (true), policy_id, agent_id, principal and counterparty"
	if r.kind() != jsontext.KindBeginObject {
		r.fault("scope", form)
		r.skip()
		return scope
	}
	r.token()
	r.prefix = "scope."
	given := 0
	for r.next() {
		given++
		switch kind := audit.FreezeKind(r.name); kind {
		case audit.FreezeAll:
			if all, present := r.boolean(); present && all {
				scope.Kind = kind
			}
		case audit.FreezePrincipal:
			scope = audit.FreezeScope{Kind: kind, Value: r.principal()}
		case audit.FreezePolicy, audit.FreezeAgent, audit.FreezeCounterparty:
			if scope.Value = r.optionalText(); scope.Value != "" {
				scope.Kind = kind
			}
			if kind == audit.FreezePolicy && scope.Value != "" && !spend.ValidPolicyID(scope.Value) {
				r.fault("policy_id", spend.PolicyIDForm)
			} else if hidden := spend.VisibleFault(scope.Value); scope.Value != "" && hidden != "" { // no action has it (S4)
				r.fault(string(kind), hidden)
			}
			r.checkLength(string(kind), scope.Value, spend.MaxIdentifier)
		default:
			r.unknown()
		}
	}
	r.prefix = ""
	if (given != 1 || scope.Kind == "") && len(r.faults) == 0 {
		r.fault("scope", form)
	}
	return scope
}

// getFreeze answers GET /v1/freezes/{freeze_id}.
func (a *API) getFreeze(x *exchange, id spend.ID) error {
	return reply(x, 200, freezeOf)(a.Authorizer.FreezeOf(x.readContext(), x.access, id))
}

// getFreezes answers GET /v1/freezes.
func (a *API) getFreezes(x *exchange) error {
	var faults spend.Faults
	scopes := []string{"all", "policy_id", "agent_id", "principal", "counterparty"}
	values := parameters(x.query(), &faults, append(scopes, "active", "limit", "cursor")...)
	var q audit.FreezeQuery
	filters := []string{"freezes 1", values["active"]}
	if text, given := values["active"]; given {
		active, err := strconv.ParseBool(text)
		if err != nil || text != strconv.FormatBool(active) {
			faults.Add("active", "must be true or false")
		}
		q.Active = &active
	}
	for _, name := range scopes {
		filters = append(filters, values[name])
		value, given := values[name]
		switch {
		case !given:
			continue
		case q.Scope != nil:
			faults.Add(name, "must not be given beside "+string(q.Scope.Kind))
		case name == "all" && value != "true":
			faults.Add(name, "must be true")
		case name == "all":
			value = ""
		}
		q.Scope = &audit.FreezeScope{Kind: audit.FreezeKind(name), Value: value}
	}
	sum := sumOf(filters...)
	q.Limit, q.Before = queryPageBelow(values, sum, &faults)
	if err := faults.Err(); err != nil {
		return err
	}
	page, more, err := a.Authorizer.ListFreezes(x.readContext(), x.access, q)
	if err != nil {
		return err
	}
	return listing[hotpath.FreezeView, wire.Freeze]{
		page: page, record: freezeOf, more: more, filters: sum,
		position: func(f *hotpath.FreezeView) string { return numberPosition(f.Seq) },
	}.answer(x)
}

// postReleaseFreeze answers POST /v1/freezes/{freeze_id}/release.
func (a *API) postReleaseFreeze(x *exchange) error {
	var note string
	err := x.decode(func(r *reader) {
		note = r.onlyNote()
		r.required("note", note)
	})
	if err != nil {
		return err
	}
	id, err := x.pathID("freeze_id")
	if err != nil {
		return err
	}
	return replyOnce(x, 200, freezeOf)(a.Authorizer.ReleaseFreeze(x.context(), x.access, a.freezer(x), id, note))
}

func freezeOf(f *hotpath.FreezeView) wire.Freeze {
	shown := wire.Freeze{
		FreezeID: f.ID.Text(spend.PrefixFreeze), Scope: scopeOf(f.Scope), Reason: f.Reason, CreatedAt: wire.Timestamp{Time: f.CreatedAt},
		Status: string(f.Status), Releases: make([]wire.FreezeRelease, len(f.Releases)), Required: f.Required, Missing: f.Missing,
	}
	if !f.Until.IsZero() {
		shown.Until = &wire.Timestamp{Time: f.Until}
	}
	if f.By.KeyID != "" {
		shown.CreatedBy = &wire.PolicyAuthor{Principal: f.By.Principal, KeyID: f.By.KeyID}
	}
	if f.Status == audit.FreezeReleased {
		shown.ReleasedAt = &wire.Timestamp{Time: f.EndedAt}
	}
	for i := range f.Releases {
		r := &f.Releases[i]
		shown.Releases[i] = wire.FreezeRelease{Principal: r.By.Principal, KeyID: r.By.KeyID, Note: r.Note, At: wire.Timestamp{Time: r.At}}
	}
	if f.Reaches != nil {
		shown.Reaches = &wire.FreezeReaches{Checks: f.Reaches.Checks, Principals: f.Reaches.Principals}
	}
	return shown
}

func scopeOf(s audit.FreezeScope) (shown wire.FreezeScope) {
	switch s.Kind {
	case audit.FreezeAll:
		shown.All = true
	case audit.FreezePolicy:
		shown.PolicyID = s.Value
	case audit.FreezeAgent:
		shown.AgentID = s.Value
	case audit.FreezePrincipal:
		shown.Principal = s.Value
	case audit.FreezeCounterparty:
		shown.Counterparty = s.Value
	}
	return shown
}
