package httpapi

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
	caller, demo := a.callerOrDemo(x)
	mode := modeSimulation
	if demo {
		mode = modeDemo
	}
	if err := a.admit(x, caller, false); err != nil {
		return err
	}
	var s simulation
	if err := x.decode(func(r *reader) error { return decodeSimulation(r, &s, demo) }); err != nil {
		return err
	}
	checks, version, err := a.authorizer.Simulate(x.context(), x.request(caller), s.policyID, s.actions)
	if err != nil {
		return err
	}
	x.out = appendSimulation(x.out, mode, s.policyID, version, checks)
	return x.answer(200)
}
