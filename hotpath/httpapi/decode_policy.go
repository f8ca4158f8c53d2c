package httpapi

import (
	"spendgate/audit"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/spend"
)

// decodePolicy reads the body of POST /v1/policies. The rules are kept as
// compact text; they are compiled here only when the rest is at fault, so that
// every fault is reported at once. Otherwise creating the policy compiles them.
func decodePolicy(r *reader, p *audit.Policy) error {
	r.object()
	for r.next() {
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
			if v := r.value(); r.err == nil {
				p.Metadata = spend.CompactObject(v, r.name, &r.faults)
			}
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
	if r.err == nil && len(r.faults) > 0 {
		policy.Compile(p.PolicyID, 0, p.Rules, &r.faults)
	}
	return r.end()
}

// compact gives the next value without the white space between its tokens,
// every token as it was sent.
func (r *reader) compact() string {
	v := r.value().Clone()
	if r.err != nil || v.Compact() != nil {
		return ""
	}
	return string(v)
}

func (r *reader) requireName(name string) {
	if spend.Blank(name) {
		r.missing("name", 0)
		return
	}
	r.checkLength("name", name, spend.MaxName)
}

func (r *reader) checkLength(path, s string, limit int) {
	if r.err == nil {
		spend.CheckLength(&r.faults, path, s, limit)
	}
}
