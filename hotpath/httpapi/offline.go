package httpapi

import (
	"spendgate/audit"
	"spendgate/audit/spend"
)

// ReadPolicy reads the body of POST /v1/policies as the endpoint does, without compiling the rules.
// Faults of fields are spend.Faults; the policy has the fields that could be read.
func ReadPolicy(body []byte) (*audit.Policy, error) {
	p := new(audit.Policy)
	return p, readObject(body, func(r *reader) { decodePolicy(r, p, versionBody) })
}

// ReadCheck reads the body of POST /v1/checks as that does. Faults of fields
// are spend.Faults.
func ReadCheck(body []byte) (*spend.Action, error) {
	a := new(spend.Action)
	return a, readObject(body, func(r *reader) { decodeCheck(r, a) })
}
