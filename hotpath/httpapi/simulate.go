package httpapi

import (
	"errors"
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
	err := x.decode(func(r *reader) error { return decodeSimulation(r, &s, x.demo) })
	faults, only := errors.AsType[spend.Faults](err)
	if err != nil && (!only || s.rules == "" || x.demo) {
		return err
	}
	request := x.request()
	request.PaymentKeys = s.paymentKeys
	var checks []*spend.Check
	var version int
	switch {
	case s.rules == "":
		checks, version, err = a.authorizer.Simulate(x.context(), request, s.policyID, s.actions)
	case x.demo: // strangers have no rules compiled
		err = hotpath.ErrUnauthorized
	default:
		checks, version, err = a.authorizer.TryRules(x.context(), request, hotpath.Trial{
			PolicyID: s.policyID, Rules: s.rules, Actions: s.actions, Faults: faults,
		})
	}
	if err != nil {
		return err
	}
	return respond(x, 200, simulationForm, shownSimulation(mode, s.policyID, version, checks))
}

// simulation is the body of POST /v1/simulate.
type simulation struct {
	policyID string
	rules    string // JSON, in place of the rules of the latest version; empty: the latest version judges
	actions  []*spend.Action
	// paymentKeys are those of the actions; "" for none.
	paymentKeys []string
}

// decodeSimulation reads it. More than limit actions are a fault, or
// errDemoLimit in demo mode, which wins over other faults.
func decodeSimulation(r *reader, s *simulation, demo bool) error {
	limit := maxActions
	if demo {
		limit = maxDemoActions
	}
	present, count := false, 0
	for r.next() {
		switch r.name {
		case "policy_id":
			s.policyID = r.text()
		case "rules":
			if r.kind() == jsontext.KindNull {
				r.skip()
				continue
			}
			rules, _ := jsontext.AppendFormat(nil, r.value(), jsontext.PreserveRawStrings(true))
			s.rules = string(rules)
		case "actions":
			if present = r.kind() != jsontext.KindNull; present {
				count = r.actions(s, limit)
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
	case count == 0 && !faulted(r.faults, "actions"):
		r.fault("actions", "must have at least 1 action")
	case count > limit && !demo:
		r.fault("actions", "must have at most "+strconv.Itoa(limit)+" actions")
	}
	if demo && count > limit {
		return errDemoLimit
	}
	return r.faults.Err()
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
