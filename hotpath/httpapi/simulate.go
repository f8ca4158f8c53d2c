package httpapi

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// The actions that one simulation may have.
const (
	maxActions     = 100
	maxDemoActions = 10
)

// The modes of a simulation.
const (
	modeDemo       = "demo"
	modeSimulation = "simulation"
)

// postSimulate answers POST /v1/simulate.
func (a *API) postSimulate(x *exchange) error {
	mode := modeSimulation
	if x.demo {
		mode = modeDemo
	}
	var s simulation
	faults, err := x.decodeMore(func(r *reader) { decodeSimulation(r, &s, x.demo) })
	switch {
	case err != nil:
		return err
	case x.demo && s.count > maxDemoActions:
		return errDemoLimit
	case s.rules == "" || x.demo:
		if err := faults.Err(); err != nil {
			return err
		}
	}
	request := x.request()
	request.PaymentKeys = s.paymentKeys
	var checks []*spend.Check
	var version int
	switch {
	case s.rules == "":
		checks, version, err = a.Authorizer.Simulate(x.context(), request, s.policyID, s.actions)
	case x.demo: // strangers have no rules compiled
		err = hotpath.ErrUnauthorized
	default:
		checks, version, err = a.Authorizer.TryRules(x.context(), request, hotpath.Trial{
			PolicyID: s.policyID, Rules: s.rules, Actions: s.actions, Faults: faults,
		})
	}
	if err != nil {
		return err
	}
	return respond(x, 200, shownSimulation(mode, s.policyID, version, checks))
}

// simulation is the body of POST /v1/simulate.
type simulation struct {
	policyID string
	rules    string // JSON, in place of the rules of the latest version; empty: the latest version judges
	actions  []*spend.Action
	count    int // of the actions, also of those that were too many
	// paymentKeys are those of the actions; "" for none.
	paymentKeys []string
}

// decodeSimulation reads it. More than limit actions are a fault, except in demo mode.
func decodeSimulation(r *reader, s *simulation, demo bool) {
	limit := maxActions
	if demo {
		limit = maxDemoActions
	}
	present := false
	for r.next() {
		switch r.name {
		case "policy_id":
			s.policyID = r.text()
		case "rules":
			s.rules = r.optionalRules()
		case "actions":
			if present = r.kind() != jsontext.KindNull; present {
				s.count = r.actions(s, limit)
			}
		default:
			r.unknown()
		}
	}
	switch {
	case spend.Blank(s.policyID):
		r.missing("policy_id", 0)
	case !spend.ValidPolicyID(s.policyID):
		r.fault("policy_id", spend.PolicyIDForm)
	default:
		r.samePolicy(s)
	}
	switch {
	case !present:
		r.missing("actions", 0)
	case s.count == 0 && !faulted(r.faults, "actions"):
		r.fault("actions", "must have at least 1 action")
	case s.count > limit && !demo:
		r.fault("actions", "must have at most "+strconv.Itoa(limit)+" actions")
	}
}

// optionalRules returns rules as they were sent, compact; empty for null.
func (r *reader) optionalRules() string {
	if r.kind() == jsontext.KindNull {
		r.skip()
		return ""
	}
	return r.compact()
}

// actions reads the array and counts its elements; those beyond the limit are
// passed over.
func (r *reader) actions(s *simulation, limit int) (count int) {
	if r.kind() != jsontext.KindBeginArray {
		r.fault(r.name, "must be an array of actions")
		return 0
	}
	r.token()
	for r.failed == nil && r.kind() != jsontext.KindEndArray {
		if count++; count > limit {
			r.skip()
			continue
		}
		path := "actions[" + strconv.Itoa(count-1) + "]"
		a, p := new(spend.Action), new(payment)
		if r.kind() == jsontext.KindBeginObject {
			r.prefix = path + "."
			r.token()
			r.action(a, true, p)
			r.prefix = ""
		} else {
			r.fault(path, "must be an object")
			r.skip()
		}
		s.actions, s.paymentKeys = append(s.actions, a), append(s.paymentKeys, p.Key)
	}
	r.token()
	return count
}

// samePolicy refuses actions for another policy than the simulation's (S23).
func (r *reader) samePolicy(s *simulation) {
	for i, a := range s.actions {
		if a.PolicyID != s.policyID && spend.ValidPolicyID(a.PolicyID) {
			r.fault("actions["+strconv.Itoa(i)+"].policy_id", "must be the policy_id of the simulation")
		}
	}
}
