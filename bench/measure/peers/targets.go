package peers

import (
	"bytes"
	"strconv"

	"spendgate/bench/load"
	"spendgate/bench/peers/equivalent"
)

// opa asks OPA's data API for the decision of the action's policy.
type opa struct{ body []byte }

// AppendRequest implements load.Target.
func (o *opa) AppendRequest(dst []byte, a *load.Action) []byte {
	o.body = append(o.body[:0], `{"input":{`...)
	o.body = load.AppendMembers(o.body, a)
	o.body = append(o.body, `}}`...)
	return load.AppendPost(dst, "/v1/data/bench/"+load.PolicyID(a.Policy)+"/decision", "", o.body)
}

// Judge implements load.Target.
func (o *opa) Judge(want load.Verdict, _, body []byte) string {
	switch {
	case !bytes.Contains(body, []byte(`"decision":"`+string(want.Effect)+`"`)):
		return "wrong decision"
	case want.Effect != load.Allow && !bytes.Contains(body, []byte(`"rule":"`+want.RuleID+`"`)):
		return "wrong rule"
	default:
		return ""
	}
}

// cerbos asks Cerbos to check the one action on a resource of the policy's
// kind.
type cerbos struct{ body []byte }

// AppendRequest implements load.Target.
func (c *cerbos) AppendRequest(dst []byte, a *load.Action) []byte {
	c.body = append(c.body[:0], `{"principal":{"id":"`...)
	c.body = load.AppendAgent(c.body, a)
	c.body = append(c.body, `","roles":["agent"]},"resources":[{"actions":["`+equivalent.CerbosAction+`"],"resource":{"kind":"`...)
	c.body = load.AppendPolicyID(c.body, a)
	c.body = append(c.body, `","id":"`...)
	c.body = strconv.AppendUint(c.body, a.Serial, 10)
	c.body = append(c.body, `","attr":{`...)
	c.body = load.AppendMembers(c.body, a)
	c.body = append(c.body, `}}}]}`...)
	return load.AppendPost(dst, "/api/check/resources", "", c.body)
}

// Judge implements load.Target. Cerbos does not tell which of its conditions
// blocked.
func (c *cerbos) Judge(want load.Verdict, _, body []byte) string {
	allowed := bytes.Contains(body, []byte(`"`+equivalent.CerbosAction+`":"EFFECT_ALLOW"`))
	denied := bytes.Contains(body, []byte(`"`+equivalent.CerbosAction+`":"EFFECT_DENY"`))
	escalated := bytes.Contains(body, []byte(`"val":"escalate"`))
	right := false
	switch want.Effect {
	case load.Allow:
		right = allowed && !escalated
	case load.Escalate:
		right = allowed && escalated
	case load.Block:
		right = denied
	}
	if !right {
		return "wrong decision"
	}
	return ""
}
