package httpapi

import (
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/wire"
)

// postPolicy answers POST /v1/policies.
func (a *API) postPolicy(x *exchange) error {
	p := new(audit.Policy)
	v := hotpath.NewVersion{Policy: p}
	var err error
	if v.Faults, err = x.decodeMore(func(r *reader) { v.Drop = decodePolicy(r, p, versionBody) }); err != nil {
		return err
	}
	if sent := x.ctx.Request.Header.PeekAll(headerIfMatch); len(sent) > 0 {
		replaces, ok := ifMatch(sent)
		if p.Replaces = &replaces; !ok { // also an empty one, which is a condition too
			v.Faults.Add(headerIfMatch, ifMatchForm)
		}
	}
	if p.PolicyID == "" {
		p.PolicyID = spend.NewID(time.Now()).Text(spend.PrefixPolicy)
	}
	if err := a.Authorizer.CreatePolicy(x.context(), x.access, a.forcer(x), v); err != nil {
		return err
	}
	return respond(x, 201, policyOf(p))
}

// getPolicy answers GET /v1/policies/{policy_id}.
func (a *API) getPolicy(x *exchange) error {
	version, err := queryVersion(x.query())
	if err != nil {
		return err
	}
	id, err := x.policyID()
	if err != nil {
		return err
	}
	if version == math.MaxInt32 {
		return &hotpath.PolicyNotFoundError{PolicyID: id}
	}
	p, err := a.Store.Policy(x.readContext(), id, version)
	if err != nil {
		return orAbsent(err, &hotpath.PolicyNotFoundError{PolicyID: id})
	}
	return respond(x, 200, policyOf(p))
}

// policyID returns the policy of the path, if the caller may see it.
func (x *exchange) policyID() (string, error) {
	id := x.pathValue("policy_id")
	switch {
	case !spend.ValidPolicyID(id):
		return "", hotpath.ErrPolicyNotFound
	case !x.access.SeesPolicy(id):
		return "", &hotpath.PolicyNotFoundError{PolicyID: id}
	}
	return id, nil
}

// getPolicies answers GET /v1/policies.
func (a *API) getPolicies(x *exchange) error {
	query, filters, err := queryPolicies(x.query())
	if err != nil {
		return err
	}
	query.PolicyIDs = x.access.Bounds().PolicyIDs
	page, err := a.Store.ListPolicies(x.readContext(), query)
	if err != nil {
		return err
	}
	return listing[audit.Policy, wire.Policy]{
		page: page.Policies, record: policyOf, position: func(p *audit.Policy) string { return p.PolicyID },
		more: page.More, filters: filters, total: &page.Total,
	}.answer(x)
}

// getPolicyVersions answers GET /v1/policies/{policy_id}/versions.
func (a *API) getPolicyVersions(x *exchange) error {
	query, filters, err := queryVersions(x.query(), x.pathValue("policy_id"))
	if err != nil {
		return err
	}
	id, err := x.policyID()
	if err != nil {
		return err
	}
	page, err := a.Store.PolicyVersions(x.readContext(), query)
	if err != nil {
		return orAbsent(err, &hotpath.PolicyNotFoundError{PolicyID: id})
	}
	return listing[audit.Policy, wire.PolicyVersion]{
		page: page.Policies, record: versionOf, position: func(p *audit.Policy) string { return strconv.Itoa(p.Version) },
		more: page.More, filters: filters, total: &page.Total,
	}.answer(x)
}

// queryPolicies reads the query of GET /v1/policies (S55).
func queryPolicies(query []byte) (q audit.PolicyQuery, filters filterSum, err error) {
	var faults spend.Faults
	filters = sumOf("policies 1", "")
	q.Limit, q.After = queryPage(parameters(query, &faults, "limit", "cursor"), filters, &faults)
	if q.After != "" && !spend.ValidPolicyID(q.After) {
		faults.Add("cursor", cursorForm)
	}
	return q, filters, faults.Err()
}

// queryVersions reads the query of GET /v1/policies/{policy_id}/versions.
func queryVersions(query []byte, policyID string) (q audit.VersionQuery, filters filterSum, err error) {
	var faults spend.Faults
	var position string
	q.PolicyID, filters = policyID, sumOf("policy versions 1", policyID)
	q.Limit, position = queryPage(parameters(query, &faults, "limit", "cursor"), filters, &faults)
	if position != "" {
		var ok bool
		if q.Before, ok = wholeNumber(position); !ok || q.Before < 1 {
			faults.Add("cursor", cursorForm)
		}
	}
	return q, filters, faults.Err()
}

// policyBody is the kind of a body.
type policyBody bool

const (
	versionBody policyBody = false
	draftBody   policyBody = true
)

// decodePolicy reads the body of POST /v1/policies. The rules are kept as
// compact text; creating the policy compiles them. drop are the budgets that may be
// emptied (S63). The body of a draft has neither these nor a policy_id.
func decodePolicy(r *reader, p *audit.Policy, body policyBody) (drop []string) {
	for r.next() {
		switch r.name {
		case "policy_id", "drop_budgets":
			if body == draftBody {
				r.unknown()
				continue
			}
		}
		switch r.name {
		case "policy_id":
			p.PolicyID = r.text()
		case "name":
			p.Name = r.text()
		case "description":
			p.Description = r.text()
		case "rules":
			p.Rules = r.compact()
		case "metadata":
			p.Metadata = spend.CompactObject(r.own(r.value(), 0), r.name, &r.faults)
		case "redeem":
			if text := r.text(); text == "required" {
				p.Redeem.Required = true
			} else if !spend.Blank(text) {
				r.fault("redeem", "must be required, or left out")
			}
		case "redeem_within_minutes":
			p.Redeem.WithinMinutes, _ = r.integer(spend.MaxRedeemMinutes)
		case "changes":
			p.Changes = r.compact()
		case "note":
			p.Note = r.note()
		case "drop_budgets":
			drop = r.dropBudgets()
		default:
			r.unknown()
		}
	}
	if spend.Blank(p.PolicyID) {
		p.PolicyID = ""
	} else if !spend.ValidPolicyID(p.PolicyID) {
		r.fault("policy_id", spend.PolicyIDForm)
	}
	r.requireName(p.Name)
	if spend.Blank(p.Description) {
		p.Description = ""
	}
	r.checkLength("description", p.Description, spend.MaxDescription)
	return drop
}

func (r *reader) requireName(name string) {
	if spend.Blank(name) {
		r.missing("name", 0)
		return
	}
	r.checkLength("name", name, spend.MaxName)
}

// compact returns a value without white space.
func (r *reader) compact() string {
	text, _ := jsontext.AppendFormat(nil, r.value(), jsontext.PreserveRawStrings(true))
	return string(text)
}

// note returns the text that is recorded with a change or a decision.
func (r *reader) note() string {
	text := r.optionalText()
	r.checkLength("note", text, spend.MaxNote)
	return text
}

func (r *reader) checkLength(path, s string, limit int) {
	spend.CheckLength(&r.faults, path, s, limit)
}
