package httpapi

import (
	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// decodePolicy reads the body of POST /v1/policies. The rules are kept as
// compact text; creating the policy compiles them.
func decodePolicy(r *reader, p *audit.Policy) error {
	for r.next() {
		switch r.name {
		case "policy_id":
			p.PolicyID = r.text()
		case "name":
			p.Name = r.text()
		case "description":
			p.Description = r.text()
		case "rules":
			rules, _ := jsontext.AppendFormat(nil, r.value(), jsontext.PreserveRawStrings(true))
			p.Rules = string(rules)
		case "metadata":
			p.Metadata = spend.CompactObject(r.own(r.value(), 0), r.name, &r.faults)
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
	return r.faults.Err()
}

func (r *reader) requireName(name string) {
	if spend.Blank(name) {
		r.missing("name", 0)
		return
	}
	r.checkLength("name", name, spend.MaxName)
}

func (r *reader) checkLength(path, s string, limit int) {
	spend.CheckLength(&r.faults, path, s, limit)
}
