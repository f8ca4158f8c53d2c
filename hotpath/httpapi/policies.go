package httpapi

import (
	"errors"
	"math"
	"time"

	"spendgate/audit"
	"spendgate/hotpath"
	"spendgate/hotpath/spend"
)

// postPolicy answers POST /v1/policies.
func (a *API) postPolicy(x *exchange) error {
	access, err := a.admit(x, x.caller(), false)
	if err != nil {
		return err
	}
	p := new(audit.Policy)
	err = x.decode(func(r *reader) error { return decodePolicy(r, p) })
	faults, only := errors.AsType[spend.Faults](err)
	if err != nil && !only {
		return err
	}
	if p.PolicyID == "" {
		p.PolicyID = spend.NewID(time.Now()).Text(spend.PrefixPolicy)
	}
	if err := a.authorizer.CreatePolicy(x.context(), access, a.actor(x), p, faults); err != nil {
		return err
	}
	x.out = appendPolicy(x.out, p)
	return x.answer(201)
}

// getPolicy answers GET /v1/policies/{policy_id}.
func (a *API) getPolicy(x *exchange) error {
	access, err := a.admit(x, x.caller(), true)
	if err != nil {
		return err
	}
	version, err := queryVersion(x.ctx.URI().QueryString())
	if err != nil {
		return err
	}
	id := x.pathValue("policy_id")
	if !spend.ValidPolicyID(id) || version == math.MaxInt32 || !access.SeesPolicy(id) {
		return hotpath.ErrPolicyNotFound
	}
	ctx, cancel := x.readContext()
	defer cancel()
	p, err := a.store.Policy(ctx, id, version)
	if errors.Is(err, audit.ErrNotFound) {
		return hotpath.ErrPolicyNotFound
	}
	if err != nil {
		return err
	}
	x.out = appendPolicy(x.out, p)
	return x.answer(200)
}
