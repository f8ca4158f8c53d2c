package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

// Compile checks a policy's rules, the JSON array as it was sent (empty when
// absent), and compiles them. Every fault is added to faults, by path from
// "rules" ("rules[2].parameters.limit"); if there was one, Compile returns nil.
// The Program keeps nothing of the text.
func Compile(policyID string, version int, rules string, faults *spend.Faults) *Program {
	return compile(policyID, version, rules, &faultLog{faults: faults, before: len(*faults)})
}

// CompileStored is Compile for rules that were accepted once: a code that ISO does not know is no fault.
func CompileStored(policyID string, version int, rules string, faults *spend.Faults) *Program {
	return compile(policyID, version, rules, &faultLog{faults: faults, before: len(*faults), stored: true})
}

func compile(policyID string, version int, rules string, log *faultLog) *Program {
	p := &Program{policyID: policyID, version: version, guard: defaultGuard()}
	var guards []rule
	seen := make(map[string]int)
	for i, raw := range ruleValues(rules, log) {
		path := index("rules", i)
		r := compileRule(raw, path, log)
		if r.id != "" {
			if first, ok := seen[r.id]; ok {
				log.add(path+".rule_id", "must be unique within the policy: "+index("rules", first)+" has it too")
			} else {
				seen[r.id] = i
			}
		}
		switch {
		case r.window > 0:
			if guards = append(guards, r); r.when != nil {
				r.condition = guardContext{}
				p.rules = append(p.rules, r)
			}
		case r.budget != nil:
			p.addBudget(r)
		default:
			p.rules = append(p.rules, r)
		}
	}
	if log.failed() {
		return nil
	}
	p.setGuards(guards)
	p.rules = slices.Clone(p.rules) // without the spare capacity of append
	p.coverCurrencies()
	p.size = p.measure()
	return p
}

// ruleValues returns the elements of the array.
func ruleValues(rules string, log *faultLog) []jsontext.Value {
	if spend.Blank(rules) {
		log.add("rules", "is required")
		return nil
	}
	text := jsontext.Value(rules)
	if !text.IsValid() {
		// The API checks the text before; the rest of the compiler relies on it.
		log.add("rules", "must be well-formed JSON without duplicate names")
		return nil
	}
	switch text.Kind() {
	case jsontext.KindNull:
		log.add("rules", "is required")
		return nil
	case jsontext.KindBeginArray:
	default:
		log.add("rules", "must be an array of rules")
		return nil
	}
	values := elements(text, spend.MaxRules+1)
	switch {
	case len(values) == 0:
		log.add("rules", "must have at least one rule")
	case len(values) > spend.MaxRules:
		log.add("rules", "must have at most "+strconv.Itoa(spend.MaxRules)+" rules")
		return nil
	}
	return values
}

// compileRule compiles one element of the array. After a fault the rule is
// incomplete; its id is empty when it has none.
func compileRule(raw jsontext.Value, path string, log *faultLog) rule {
	var r rule
	o, ok := openObject(raw, path, ruleMembers, log)
	if !ok {
		return r
	}
	r.id = o.text("rule_id")
	ruleType := o.text("rule_type")
	r.description = o.text("description")
	r.when = o.when()
	parameters := o.value("parameters")
	o.refuseOthers()

	k := Type(ruleType)
	if k == nil {
		if ruleType != "" {
			log.add(path+".rule_type", "must be one of "+typeNames())
		}
		if parameters != nil && parameters.Kind() != jsontext.KindBeginObject {
			log.add(path+".parameters", mustBeObject)
		}
		return r
	}
	r.effect, r.types, r.unlisted = k.effect, k.types, k.unlisted
	if parameters == nil {
		return r
	}
	p, ok := openObject(parameters, path+".parameters", k.Parameters, log)
	if !ok {
		return r
	}
	r.describe(k.compile(&p, &r))
	if indexOf(k.Parameters, paramOnMissing) >= 0 && r.budget == nil {
		r.reads = k.Reads[0]
		r.onMissing = p.onMissing()
		r.approval = p.approval(r.asksIfMissing(), "is accepted only with on_missing escalate")
	}
	if r.approval != nil {
		r.identify(ruleType, string(parameters))
	}
	p.refuseOthers()
	return r
}

// asksIfMissing reports whether the rule escalates an action that lacks a field.
func (r *rule) asksIfMissing() bool {
	return r.onMissing == spend.Escalate || r.when != nil && r.when.onMissing == spend.Escalate
}

// describe completes a rule by its conditions, and by a description if the policy has none.
func (r *rule) describe(generated string) {
	if r.when != nil {
		r.types &= r.when.types
		if r.unlisted == "" {
			r.unlisted = generated // without the lists of the conditions
		}
		generated += " when " + r.when.String()
	}
	if r.description == "" {
		r.description = generated
	}
}

func typeNames() string {
	var names []string
	for _, k := range ruleTypes {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}
