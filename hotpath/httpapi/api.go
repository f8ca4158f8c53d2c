package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/fasthttp/router"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/console"
	"spendgate/hotpath/signin"
	"spendgate/hotpath/trace"
	"spendgate/ratelimit"
)

// authorizer has the methods of hotpath.Authorizer that the handlers use.
type authorizer interface {
	Knows(c hotpath.Caller) bool
	KeyID(c hotpath.Caller) string
	Admit(ctx context.Context, c hotpath.Caller, scope spend.Scopes, read bool) (hotpath.Access, ratelimit.Quota, error)
	Authenticate(ctx context.Context, c hotpath.Caller) (ratelimit.Quota, error)
	Check(ctx context.Context, r hotpath.Request, action *spend.Action) (hotpath.Answer, ratelimit.Quota, error)
	Report(ctx context.Context, r hotpath.Request, check *spend.Check, report hotpath.Report) (o *spend.Outcome, replayed bool, err error)
	RedeemUnread(ctx context.Context, r hotpath.Request, id spend.ID, asked hotpath.Redemption) (*spend.Outcome, error)
	Untouched(ctx context.Context, id spend.ID) (*spend.Check, error)
	Redeem(ctx context.Context, r hotpath.Request, check *spend.Check, untouched bool, asked hotpath.Redemption) (
		o *spend.Outcome, replayed bool, err error)
	Doubt(ctx context.Context, r hotpath.Request, check *spend.Check, note string, redemption spend.ID) (
		course spend.Course, replayed bool, err error)
	PaymentIn(principal, key string) spend.Hash
	PaymentsOf(ctx context.Context, access hotpath.Access, checks []*spend.Check, courses map[spend.ID]spend.Course) (
		map[spend.ID]*hotpath.PaymentView, error)
	Simulate(ctx context.Context, r hotpath.Request, policyID string, actions []*spend.Action) (checks []*spend.Check, policyVersion int,
		err error)
	TryRules(ctx context.Context, r hotpath.Request, t hotpath.Trial) (checks []*spend.Check, policyVersion int, err error)
	AwaitApproval(ctx context.Context, access hotpath.Access, id spend.ID, wait time.Duration, stop <-chan struct{}) (found *audit.Approval,
		waited bool, err error)
	DecideApproval(ctx context.Context, access hotpath.Access, by audit.Actor, d audit.ApprovalDecisionRequest) (
		decided *audit.Approval, replayed bool, err error)
	WaitingFor(ctx context.Context, access hotpath.Access, q hotpath.WaitingQuery) (hotpath.WaitingPage, error)
	BudgetsLeft(ctx context.Context, approval *audit.Approval) ([]hotpath.BudgetLeft, error)
	AwaitEvents(ctx context.Context, access hotpath.Access, q audit.EventQuery, wait time.Duration, stop <-chan struct{}) (
		page audit.EventPage, waited bool, err error)
	EventsFrom(ctx context.Context, from time.Time, cursor int64) (after int64, err error)
	Budgets(ctx context.Context, access hotpath.Access, q hotpath.BudgetQuery) (hotpath.BudgetPage, error)
	CreatePolicy(ctx context.Context, access hotpath.Access, by audit.Actor, v hotpath.NewVersion) error
	PutDraft(ctx context.Context, access hotpath.Access, by audit.Actor, d *audit.Draft, match *spend.Hash, faults spend.Faults) error
	Review(ctx context.Context, policyID string) (*audit.Review, error)
	DecideDraft(ctx context.Context, access hotpath.Access, d audit.DraftDecisionRequest) (r *audit.Review, replayed bool, err error)
	DeleteDraft(ctx context.Context, access hotpath.Access, by audit.Actor, policyID string, match *spend.Hash) error
	PromoteDraft(ctx context.Context, access hotpath.Access, by audit.Actor, p hotpath.Promotion) (*audit.Policy, error)
	DraftReport(ctx context.Context, access hotpath.Access, policyID string) (*hotpath.DraftReport, error)
	CreateBacktest(ctx context.Context, access hotpath.Access, b *audit.Backtest, faults spend.Faults) error
	CancelBacktest(ctx context.Context, access hotpath.Access, b *audit.Backtest, forced bool) (*audit.Backtest, error)
	Freeze(ctx context.Context, access hotpath.Access, by audit.Actor, asked hotpath.FreezeAsked) (
		shown *hotpath.FreezeView, replayed bool, err error)
	FreezeOf(ctx context.Context, access hotpath.Access, id spend.ID) (*hotpath.FreezeView, error)
	ListFreezes(ctx context.Context, access hotpath.Access, q audit.FreezeQuery) (page []hotpath.FreezeView, more bool, err error)
	Grant(context.Context, hotpath.Access, audit.Actor, hotpath.GrantAsked) (*hotpath.GrantView, bool, error)
	ApproveGrant(context.Context, hotpath.Access, audit.Actor, spend.ID, string) (*hotpath.GrantView, bool, error)
	RevokeGrant(context.Context, hotpath.Access, audit.Actor, spend.ID, string) (*hotpath.GrantView, bool, error)
	GrantOf(context.Context, hotpath.Access, spend.ID) (*hotpath.GrantView, error)
	ListGrants(context.Context, hotpath.Access, hotpath.GrantQuery) (hotpath.GrantPage, error)
	ReleaseFreeze(ctx context.Context, access hotpath.Access, by audit.Actor, id spend.ID, note string) (
		shown *hotpath.FreezeView, replayed bool, err error)
	CreateKey(ctx context.Context, by audit.Actor, n hotpath.NewKey) (raw string, k *audit.Key, err error)
	UpdateKey(ctx context.Context, by audit.Actor, id spend.ID, change audit.KeyChange) (*audit.Key, hotpath.Stopped, error)
	CreateWebhook(ctx context.Context, by audit.Actor, change audit.WebhookChange) (*audit.Webhook, audit.Secret, error)
	UpdateWebhook(ctx context.Context, by audit.Actor, id spend.ID, change audit.WebhookChange) (*audit.Webhook, error)
	RotateWebhook(ctx context.Context, by audit.Actor, id spend.ID) (*audit.Webhook, audit.Secret, error)
	DeleteWebhook(ctx context.Context, by audit.Actor, id spend.ID) error
	RetryWebhook(ctx context.Context, id spend.ID) (waiting int, err error)
	ReplayDelivery(ctx context.Context, webhookID, deliveryID spend.ID) (*audit.Delivery, error)
	SessionCaller(ctx context.Context, token []byte) (hotpath.Caller, error)
	SignInBegins(ctx context.Context) (time.Time, error)
	SignIn(ctx context.Context, by audit.Actor, s *audit.Session) (token string, err error)
	SignOut(ctx context.Context, by audit.Actor, c hotpath.Caller) error
	EndSession(ctx context.Context, by audit.Actor, id spend.ID) error
	EndSessions(ctx context.Context, by audit.Actor, of *audit.Session) error
	TakeOver(ctx context.Context, token string) (next string, err error)
	EndLoggedOut(ctx context.Context, by audit.Actor, l audit.Logout) error
}

// records has the methods of audit.Store with which handlers read. They write through the Authorizer.
type records interface {
	Checks(ctx context.Context, ids []spend.ID) ([]*spend.Check, error)
	CheckIDsByKey(ctx context.Context, keyHashes []spend.Hash) (map[spend.Hash]spend.ID, error)
	ListChecks(ctx context.Context, q audit.CheckQuery) (audit.CheckPage, error)
	CheckCounts(ctx context.Context, q audit.CountQuery) ([]audit.CheckCount, error)
	CheckSums(ctx context.Context, q audit.CheckQuery) (*audit.CheckSums, error)
	Outcomes(ctx context.Context, checkIDs []spend.ID) ([]*spend.Outcome, error)
	Violations(ctx context.Context, q audit.ViolationQuery) (audit.ViolationPage, error)
	ListApprovals(ctx context.Context, q audit.ApprovalQuery) (page []*audit.Approval, more bool, err error)
	Policy(ctx context.Context, policyID string, version int) (*audit.Policy, error)
	ListPolicies(ctx context.Context, q audit.PolicyQuery) (audit.PolicyPage, error)
	PolicyVersions(ctx context.Context, q audit.VersionQuery) (audit.PolicyPage, error)
	Backtest(ctx context.Context, id spend.ID) (*audit.Backtest, error)
	ListBacktests(ctx context.Context, q audit.BacktestQuery) (page []audit.Backtest, more bool, err error)
	BacktestFlips(ctx context.Context, id spend.ID, behind, limit int) (page []string, more bool, err error)
	KeyByHash(ctx context.Context, hash spend.Hash) (*audit.Key, error)
	ListKeys(ctx context.Context, before spend.ID, limit int) (audit.KeyPage, error)
	ListSessions(ctx context.Context, before spend.ID, limit int) (page []audit.Session, more bool, err error)
	Webhook(ctx context.Context, id spend.ID) (*audit.Webhook, error)
	ListWebhooks(ctx context.Context) ([]audit.Webhook, error)
	Deliveries(ctx context.Context, q audit.DeliveryQuery) (page []audit.Delivery, more bool, err error)
}

// The defaults of Options.
const (
	// The requests in progress; each holds a few KB.
	defaultMaxInFlight = 4096
	// The open connections; each holds 20 to 30 KB.
	defaultMaxConnections = 8192
	// The most connections from one address that is no trusted proxy, so that it cannot take all of
	// them.
	defaultMaxPerAddress = defaultMaxConnections / 4
	// Bytes of bodies at once, of callers with a key. Decoding takes as much again.
	defaultMaxBodies = 64 << 20
	// A request that takes longer to arrive, or an answer to be taken, ties up
	// a connection for nobody's good.
	defaultReadTimeout  = 10 * time.Second
	defaultWriteTimeout = 10 * time.Second
	// Longer than balancers keep idle connections (60 s is common), so that
	// they close first and never send into a closing one.
	defaultIdleTimeout = 90 * time.Second
)

// Options configure an API. Authorizer and Store are required.
type Options struct {
	Authorizer authorizer // a *hotpath.Authorizer
	Store      records    // an audit.Store

	AdminKeys      []string         // at most two, during rotation; without one, admin routes are refused
	TrustedProxies []netip.Prefix   // proxies whose X-Forwarded-For is believed (S24)
	NoDemo         bool             // refuses simulations without a key
	MaxRateLimit   int              // that a key may have; 0 is the interface's 10,000
	Version        string           // as in GET /health
	Console        *console.Console // served at /console/; nil serves none
	ConsoleURL     string           // where people reach a console, in events (S93); empty for none
	SignIn         *signin.SignIn   // with which people sign in; nil disables it

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil keeps the metrics to itself
	// Trace is called with each request, after its response, and returns the ID of its trace. It must
	// not wait, nor keep the record. Nil traces nothing.
	Trace func(*trace.Record) trace.ID

	// Full reports that a check would be refused for overload, so that its body
	// need not be decoded; nil never does.
	Full           func() bool
	MaxInFlight    int           // requests at work at once; beyond, 500 with Retry-After (G9)
	MaxConnections int           // at once; beyond, requests are refused in the same way, except those without work, such as /health
	MaxPerAddress  int           // connections of one address that is no trusted proxy; beyond, they are refused in the same way
	MaxBodies      int           // bytes of larger bodies that are received or worked on; beyond, requests are refused in the same way
	ReadTimeout    time.Duration // from a request's first byte to its last
	WriteTimeout   time.Duration
	IdleTimeout    time.Duration // between requests on a connection
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Full == nil {
		o.Full = func() bool { return false }
	}
	o.MaxRateLimit = cmp.Or(o.MaxRateLimit, defaultMaxRateLimit)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, defaultMaxInFlight)
	o.MaxConnections = cmp.Or(o.MaxConnections, defaultMaxConnections)
	o.MaxPerAddress = cmp.Or(o.MaxPerAddress, defaultMaxPerAddress)
	o.MaxBodies = cmp.Or(o.MaxBodies, defaultMaxBodies)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, defaultReadTimeout)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, defaultWriteTimeout)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, defaultIdleTimeout)
}

// API is the HTTP interface of one node. It is safe for concurrent use.
type API struct {
	Options
	admins atomic.Pointer[adminKeys]
	signIn *provider // nil when nobody signs in

	server   *fasthttp.Server
	router   *router.Router
	metrics  *metrics
	unrouted *endpoint // stands for requests that reached no endpoint

	inFlight  atomic.Int64
	open      openConns
	bodies    byteLimit // of callers that are known
	strangers byteLimit // of all others

	overloads     tally
	signIns       tally   // that failed
	logouts       tally   // that were refused
	limited       limited // requests over the rate limit
	unavailable   [len(outages) + 1]tally
	unauthorized  [len(unauthorizedReasons)]unauthorized
	adminFailures adminFailures
	draining      atomic.Bool
	drain         chan struct{} // closed when draining begins
}

// New makes an API; Serve starts it.
func New(o Options) *API {
	o.setDefaults()
	a := &API{
		Options:   o,
		drain:     make(chan struct{}),
		signIn:    newProvider(o.SignIn),
		bodies:    byteLimit{most: int64(o.MaxBodies)},
		strangers: byteLimit{most: strangersBodies},
	}
	a.SetAdminKeys(o.AdminKeys)
	a.AdminKeys = nil // only their hashes are kept
	a.open.most, a.open.perAddress, a.open.trusted = o.MaxConnections, o.MaxPerAddress, a.trusted
	a.metrics = newMetrics(o.Registerer, a.inFlight.Load)
	a.adminFailures.lockouts = a.metrics.lockouts
	for i, reason := range unauthorizedReasons {
		a.unauthorized[i].reason, a.unauthorized[i].counter = reason, a.metrics.unauthorized.WithLabelValues(reason)
	}
	a.router = a.newRouter()
	var links *console.Links
	if o.Console != nil {
		a.routeConsole(a.router, o.Console)
		links = o.Console.Links
	}
	if o.Console != nil || o.SignIn != nil {
		a.routeSignIn(a.router, links)
	}
	a.server = a.newServer(&o)
	return a
}
