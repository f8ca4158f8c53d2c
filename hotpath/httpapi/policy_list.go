package httpapi

import (
	"errors"
	"strconv"

	"spendgate/audit"
	"spendgate/hotpath"
	"spendgate/hotpath/spend"
)

// getPolicies answers GET /v1/policies.
func (a *API) getPolicies(x *exchange) error {
	access, err := a.admit(x, x.caller(), true)
	if err != nil {
		return err
	}
	query, filters, err := queryPolicies(x.ctx.URI().QueryString())
	if err != nil {
		return err
	}
	query.PolicyIDs = access.Bounds().PolicyIDs
	ctx, cancel := x.readContext()
	defer cancel()
	page, err := a.store.ListPolicies(ctx, query)
	if err != nil {
		return err
	}
	var last string
	if n := len(page.Policies); n > 0 {
		last = page.Policies[n-1].PolicyID
	}
	return x.answerPolicies(page, last, filters)
}

// getPolicyVersions answers GET /v1/policies/{policy_id}/versions.
func (a *API) getPolicyVersions(x *exchange) error {
	access, err := a.admit(x, x.caller(), true)
	if err != nil {
		return err
	}
	id := x.pathValue("policy_id")
	query, filters, err := queryVersions(x.ctx.URI().QueryString(), id)
	if err != nil {
		return err
	}
	if !spend.ValidPolicyID(id) || !access.SeesPolicy(id) {
		return hotpath.ErrPolicyNotFound
	}
	ctx, cancel := x.readContext()
	defer cancel()
	page, err := a.store.PolicyVersions(ctx, query)
	if errors.Is(err, audit.ErrNotFound) {
		return hotpath.ErrPolicyNotFound
	}
	if err != nil {
		return err
	}
	var last string
	if n := len(page.Policies); n > 0 {
		last = strconv.Itoa(page.Policies[n-1].Version)
	}
	return x.answerPolicies(page, last, filters)
}

func (x *exchange) answerPolicies(page audit.PolicyPage, last string, filters filterSum) error {
	x.out = append(x.out, `{"data":[`...)
	for i := range page.Policies {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = appendPolicy(x.out, &page.Policies[i])
	}
	x.out = appendPage(x.out, page.More, last, filters, page.Total)
	return x.answer(200)
}

// queryPolicies reads the query of GET /v1/policies (S55).
func queryPolicies(query []byte) (q audit.PolicyQuery, filters filterSum, err error) {
	var faults spend.Faults
	filters = policyFilters()
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
	q.PolicyID, filters = policyID, versionFilters(policyID)
	q.Limit, position = queryPage(parameters(query, &faults, "limit", "cursor"), filters, &faults)
	if position != "" {
		var ok bool
		if q.Before, ok = wholeNumber(position); !ok || q.Before < 1 {
			faults.Add("cursor", cursorForm)
		}
	}
	return q, filters, faults.Err()
}
