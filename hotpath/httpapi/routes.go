package httpapi

import (
	"runtime/debug"
	"strings"

	"github.com/fasthttp/router"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// endpoint is one method of one path.
type endpoint struct {
	method string
	path   string // with the names of its parameters
	serve  func(*exchange) error
	// free endpoints touch no dependency and are served at any load.
	free bool
	// timed endpoints are the checks, which the Authorizer bounds and admits itself.
	timed bool

	// The callers of an endpoint that is not free: the admin, any key, or keys with that scope.
	admin  bool
	anyKey bool
	scope  spend.Scopes
	demo   bool // or, where that is offered, anybody without a key
	// or the admin, to override approvals (S80) or who began something (S53), to freeze and release (S87), or to revoke a grant (S91)
	forced bool

	bare    bool // it takes no query
	empty   bool // nor a body
	amounts bool // of actions or outcomes are in its requests or responses, as Prefer says

	counters counters
	duration prometheus.Observer // nil for a request without endpoint
}

// newRouter has the whole interface. The router distinguishes paths; methods are distinguished here,
// since the router's own 405 would allow OPTIONS everywhere.
func (a *API) newRouter() *router.Router {
	r := router.New()
	// A path is right or it is not: nothing is corrected (S3).
	r.RedirectTrailingSlash = false
	r.RedirectFixedPath = false
	r.HandleMethodNotAllowed = false
	r.HandleOPTIONS = false
	r.PanicHandler = a.recovered

	a.at(r, "/v1/checks",
		endpoint{method: "GET", serve: a.getChecks, scope: spend.ChecksRead, amounts: true},
		endpoint{method: "POST", serve: a.postCheck, timed: true, scope: spend.ChecksWrite, amounts: true})
	a.at(r, "/v1/checks/{check_id}", endpoint{method: "GET", serve: a.getCheck, bare: true, scope: spend.ChecksRead, amounts: true})
	a.at(r, "/v1/checks/{check_id}/outcome",
		endpoint{method: "GET", serve: a.getOutcome, bare: true, scope: spend.ChecksRead, amounts: true},
		endpoint{method: "POST", serve: a.postOutcome, scope: spend.OutcomesWrite, amounts: true})
	a.at(r, "/v1/checks/{check_id}/redeem", endpoint{method: "POST", serve: a.postRedeem, scope: spend.ChecksRedeem, amounts: true})
	a.at(r, "/v1/checks/{check_id}/in-doubt", endpoint{method: "POST", serve: a.postInDoubt, scope: spend.ChecksRedeem})
	a.at(r, "/v1/simulate", endpoint{method: "POST", serve: a.postSimulate, scope: spend.PoliciesRead, demo: true, amounts: true})
	a.at(r, "/v1/policies",
		endpoint{method: "GET", serve: a.getPolicies, scope: spend.PoliciesRead},
		endpoint{method: "POST", serve: a.postPolicy, scope: spend.PoliciesWrite, forced: true})
	a.at(r, "/v1/policies/{policy_id}", endpoint{method: "GET", serve: a.getPolicy, scope: spend.PoliciesRead})
	a.at(r, "/v1/policies/{policy_id}/draft",
		endpoint{method: "DELETE", serve: a.deleteDraft, empty: true, scope: spend.PoliciesWrite},
		endpoint{method: "GET", serve: a.getDraft, bare: true, scope: spend.PoliciesRead},
		endpoint{method: "PUT", serve: a.putDraft, scope: spend.PoliciesWrite})
	a.at(r, "/v1/policies/{policy_id}/draft/report",
		endpoint{method: "GET", serve: a.getDraftReport, bare: true, scope: spend.ChecksRead, amounts: true})
	a.at(r, "/v1/policies/{policy_id}/draft/promote",
		endpoint{method: "POST", serve: a.postPromote, scope: spend.PoliciesWrite, forced: true})
	a.at(r, "/v1/policies/{policy_id}/draft/approve",
		endpoint{method: "POST", serve: func(x *exchange) error { return a.decideDraft(x, false) }, scope: spend.ApprovalsDecide})
	a.at(r, "/v1/policies/{policy_id}/draft/reject",
		endpoint{method: "POST", serve: func(x *exchange) error { return a.decideDraft(x, true) }, scope: spend.ApprovalsDecide})
	a.at(r, "/v1/policies/{policy_id}/versions", endpoint{method: "GET", serve: a.getPolicyVersions, scope: spend.PoliciesRead})
	a.at(r, "/v1/approvals", endpoint{method: "GET", serve: a.getApprovals, scope: spend.ApprovalsRead, amounts: true})
	a.at(r, "/v1/approvals/{approval_id}",
		endpoint{method: "GET", serve: ofID("approval_id", a.getApproval), bare: true, scope: spend.ApprovalsRead, amounts: true})
	a.at(r, "/v1/approvals/{approval_id}/approve",
		endpoint{method: "POST", serve: func(x *exchange) error { return a.decide(x, true) }, scope: spend.ApprovalsDecide, amounts: true})
	a.at(r, "/v1/approvals/{approval_id}/deny",
		endpoint{method: "POST", serve: func(x *exchange) error { return a.decide(x, false) }, scope: spend.ApprovalsDecide, amounts: true})
	a.addBudgets(r)
	a.at(r, "/v1/backtests",
		endpoint{method: "GET", serve: a.getBacktests, scope: spend.BacktestsWrite},
		endpoint{method: "POST", serve: a.postBacktest, scope: spend.BacktestsWrite})
	a.at(r, "/v1/backtests/{backtest_id}", endpoint{method: "GET", serve: a.getBacktest, bare: true, scope: spend.BacktestsWrite})
	a.at(r, "/v1/backtests/{backtest_id}/flips", endpoint{method: "GET", serve: a.getFlips, scope: spend.BacktestsWrite, amounts: true})
	a.at(r, "/v1/backtests/{backtest_id}/cancel",
		endpoint{method: "POST", serve: a.postCancel, empty: true, scope: spend.BacktestsWrite, forced: true})
	a.at(r, "/v1/events", endpoint{method: "GET", serve: a.getEvents, scope: spend.EventsRead, amounts: true})
	a.at(r, "/v1/violations", endpoint{method: "GET", serve: a.getViolations, scope: spend.ChecksRead, amounts: true})
	a.at(r, "/v1/stats", endpoint{method: "GET", serve: a.getStats, scope: spend.ChecksRead})
	a.at(r, "/v1/sums", endpoint{method: "GET", serve: a.getSums, scope: spend.ChecksRead})
	a.addAdmin(r)
	a.at(r, "/health", endpoint{method: "GET", serve: a.getHealth, free: true})
	a.at(r, "/openapi.yaml", endpoint{method: "GET", serve: a.getOpenAPI, free: true})
	a.at(r, "/openapi.json", endpoint{method: "GET", serve: a.getOpenAPIJSON, free: true})

	a.unrouted = &endpoint{free: true, counters: a.metrics.of("none", "other")}
	r.NotFound = func(ctx *fasthttp.RequestCtx) { a.fail(exchangeOf(ctx), errPathNotFound) }
	return r
}

// addBudgets adds the endpoints of budgets, grants and freezes.
func (a *API) addBudgets(r *router.Router) {
	a.at(r, "/v1/budgets", endpoint{method: "GET", serve: a.getBudgets, scope: spend.BudgetsRead})
	a.at(r, "/v1/grants",
		endpoint{method: "GET", serve: a.getGrants, scope: spend.BudgetsRead},
		endpoint{method: "POST", serve: a.postGrant, scope: spend.BudgetsGrant})
	a.at(r, "/v1/grants/{grant_id}", endpoint{method: "GET", serve: ofID("grant_id", a.getGrant), bare: true, scope: spend.BudgetsRead})
	a.at(r, "/v1/grants/{grant_id}/approve", endpoint{method: "POST", serve: a.postApproveGrant, scope: spend.BudgetsGrant})
	a.at(r, "/v1/grants/{grant_id}/revoke",
		endpoint{method: "POST", serve: a.postRevokeGrant, scope: spend.BudgetsGrant, forced: true})
	a.at(r, "/v1/freezes",
		endpoint{method: "GET", serve: a.getFreezes, scope: spend.FreezesRead, forced: true},
		endpoint{method: "POST", serve: a.postFreeze, scope: spend.FreezesWrite, forced: true})
	a.at(r, "/v1/freezes/{freeze_id}",
		endpoint{method: "GET", serve: ofID("freeze_id", a.getFreeze), bare: true, scope: spend.FreezesRead, forced: true})
	a.at(r, "/v1/freezes/{freeze_id}/release",
		endpoint{method: "POST", serve: a.postReleaseFreeze, scope: spend.FreezesRelease, forced: true})
}

// addAdmin adds the endpoints of keys, sessions and webhooks.
func (a *API) addAdmin(r *router.Router) {
	a.at(r, "/v1/keys", endpoint{method: "GET", serve: a.getKeys, admin: true}, endpoint{method: "POST", serve: a.postKey, admin: true})
	a.at(r, "/v1/keys/self", endpoint{method: "GET", serve: a.getOwnKey, bare: true, anyKey: true})
	a.at(r, "/v1/keys/{key_id}", endpoint{method: "PATCH", serve: a.patchKey, admin: true})
	a.at(r, "/v1/sessions", endpoint{method: "GET", serve: a.getSessions, admin: true})
	a.at(r, "/v1/sessions/{session_id}", endpoint{method: "DELETE", serve: ofID("session_id", a.deleteSession), bare: true, admin: true})
	a.at(r, "/v1/webhooks", endpoint{method: "GET", serve: a.getWebhooks, bare: true, admin: true},
		endpoint{method: "POST", serve: a.postWebhook, admin: true})
	a.at(r, "/v1/webhooks/{webhook_id}",
		endpoint{method: "DELETE", serve: ofID("webhook_id", a.deleteWebhook), empty: true, admin: true},
		endpoint{method: "GET", serve: ofID("webhook_id", a.getWebhook), empty: true, admin: true},
		endpoint{method: "PATCH", serve: a.patchWebhook, admin: true})
	a.at(r, "/v1/webhooks/{webhook_id}/rotate", endpoint{method: "POST", serve: ofID("webhook_id", a.postRotate), empty: true, admin: true})
	a.at(r, "/v1/webhooks/{webhook_id}/retry", endpoint{method: "POST", serve: ofID("webhook_id", a.postRetry), empty: true, admin: true})
	a.at(r, "/v1/webhooks/{webhook_id}/deliveries", endpoint{method: "GET", serve: ofID("webhook_id", a.getDeliveries), admin: true})
	a.at(r, "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/replay",
		endpoint{method: "POST", serve: ofID("webhook_id", a.postReplay), empty: true, admin: true})
}

// at puts endpoints at a path.
func (a *API) at(r *router.Router, path string, endpoints ...endpoint) {
	methods := make([]string, 0, len(endpoints)+1)
	for i := range endpoints {
		methods = append(methods, endpoints[i].method)
		if endpoints[i].answers(fasthttp.MethodHead) {
			methods = append(methods, fasthttp.MethodHead)
		}
		endpoints[i].path = path
		endpoints[i].mustSayWho()
		endpoints[i].serve = endpoints[i].within()
		endpoints[i].counters = a.metrics.of(path, endpoints[i].method)
		endpoints[i].duration = a.metrics.duration(&endpoints[i])
	}
	allow := strings.Join(methods, ", ")
	refused := &endpoint{free: true, counters: a.metrics.of(path, "other")}
	r.ANY(path, func(ctx *fasthttp.RequestCtx) {
		x := exchangeOf(ctx)
		for i := range endpoints {
			if endpoints[i].answers(string(ctx.Method())) {
				x.endpoint = &endpoints[i]
				a.run(x)
				return
			}
		}
		x.endpoint = refused
		ctx.Response.Header.Set(fasthttp.HeaderAllow, allow)
		a.fail(x, errMethod)
	})
}

// within returns serve behind the refusal of what the endpoint does not take, and with the answer of its path if there is
// no such thing.
func (e *endpoint) within() func(*exchange) error {
	serve, named := e.serve, identifiers[e.lastParameter()]
	if !e.bare && !e.empty && named.absent == nil {
		return serve
	}
	return func(x *exchange) (err error) {
		switch {
		case e.bare:
			err = x.noQuery()
		case e.empty:
			err = x.nothingElse()
		}
		if err == nil {
			err = serve(x)
		}
		if named.absent != nil {
			return orAbsent(err, named.absent)
		}
		return err
	}
}

func (e *endpoint) lastParameter() string {
	name, _, _ := strings.Cut(e.path[strings.LastIndexByte(e.path, '{')+1:], "}")
	return name
}

// answers reports whether the endpoint answers a method: its own, and HEAD where GET needs no key (S3).
func (e *endpoint) answers(method string) bool {
	return method == e.method || method == fasthttp.MethodHead && e.method == fasthttp.MethodGet && e.free
}

// mustSayWho panics if an endpoint does not say who may call it.
func (e *endpoint) mustSayWho() {
	said := 0
	for _, one := range []bool{e.free, e.admin, e.anyKey, e.scope != 0} {
		if one {
			said++
		}
	}
	if said != 1 {
		panic("BUG: " + e.method + " " + e.path + " must be free, the admin's, any key's or need a scope")
	}
}

// run serves an exchange at its endpoint, within the bound on requests at work.
func (a *API) run(x *exchange) {
	if !x.endpoint.free {
		defer a.inFlight.Add(-1)
		if a.inFlight.Add(1) > int64(a.MaxInFlight) || x.excess || x.endpoint.timed && a.Full() {
			a.fail(x, overloaded)
			return
		}
	}
	err := a.authorize(x)
	if err == nil {
		x.textAmounts = x.endpoint.amounts && x.prefersText()
		err = x.endpoint.serve(x)
	}
	if err != nil {
		a.fail(x, err)
	}
}

// authorize refuses a caller who may not use the exchange's endpoint. A caller who may is then told
// why the body was not read, if it was not (S1). Checks are authorized by their handler.
func (a *API) authorize(x *exchange) error {
	switch e := x.endpoint; {
	case e.timed:
		return nil
	case e.admin:
		if !a.isAdmin(x) {
			return errAdminKey
		}
	case a.forces(x):
	case !e.free:
		c, err := a.callerOrDemo(x)
		if err != nil {
			return err
		}
		if err := a.admit(x, c); err != nil {
			return err
		}
	}
	return x.unread
}

// recovered answers a request whose handler panicked.
func (a *API) recovered(ctx *fasthttp.RequestCtx, value any) {
	a.fail(exchangeOf(ctx), &panicError{value, debug.Stack()})
}

// admit authenticates and counts a request. Reads go on without Redis (G7).
func (a *API) admit(x *exchange, c hotpath.Caller) (err error) {
	x.caller = c
	x.access, x.quota, err = a.Authorizer.Admit(x.context(), c, x.endpoint.scope, x.endpoint.method == fasthttp.MethodGet)
	return err
}
