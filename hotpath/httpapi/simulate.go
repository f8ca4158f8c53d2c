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
	access, err := a.admit(x, caller, false)
	if err != nil {
		return err
	}
	var s simulation
	if err := x.decode(func(r *reader) error { return decodeSimulation(r, &s, demo) }); err != nil {
		return err
	}
	request := x.request(caller)
	request.Access = access
	checks, version, err := a.authorizer.Simulate(x.context(), request, s.policyID, s.actions)
	if err != nil {
		return err
	}
	x.out = appendSimulation(x.out, mode, s.policyID, version, checks)
	return x.answer(200)
}
