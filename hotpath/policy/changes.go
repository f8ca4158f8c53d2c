package policy

import (
	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

var changesMembers = []Parameter{
	{Name: "required", Min: 1, Max: maxRequired},
	{Name: "from", Max: maxGroups},
}

// CompileChanges checks the approvals that a policy requires for its next version, JSON as it was sent
// (S80), and returns them in the form that policies store. Both are empty if it requires none. Faults
// are added by path from "changes".
func CompileChanges(changes string, faults *spend.Faults) string {
	raw := jsontext.Value(changes)
	if changes == "" || absent(raw) {
		return ""
	}
	log := &faultLog{faults: faults, before: len(*faults)}
	if !raw.IsValid() {
		log.add("changes", "must be well-formed JSON without duplicate names")
		return ""
	}
	o, ok := openObject(raw, "changes", changesMembers, log)
	if !ok {
		return ""
	}
	var t spend.ChangesText
	if n, given := o.integer("required"); given {
		t.Required = int(n)
	}
	if o.value("from") != nil {
		t.From = o.groups(false)
	}
	o.refuseOthers()
	if log.failed() {
		return ""
	}
	return t.Text()
}
