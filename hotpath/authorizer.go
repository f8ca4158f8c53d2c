package hotpath

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
	"spendgate/hotpath/guard"
	"spendgate/hotpath/intent"
	"spendgate/hotpath/trace"
	"spendgate/ratelimit"
)

// The errors of the Authorizer; httpapi maps each to its response. Faults in a request are
// spend.Faults.
var (
	ErrUnauthorized   = errors.New("missing or unknown API key")
	ErrKeyInactive    = errors.New("API key is deactivated")
	ErrKeyExpired     = fmt.Errorf("%w: it has expired", ErrKeyInactive)
	ErrRateLimited    = errors.New("rate limit reached")
	ErrPolicyNotFound = errors.New("no such policy")
	ErrOverloaded     = errors.New("too many checks in flight")
	ErrUnavailable    = guard.ErrUnavailable
)

// PolicyNotFoundError is ErrPolicyNotFound of a policy that was named well.
type PolicyNotFoundError struct{ PolicyID string }

func (e *PolicyNotFoundError) Error() string { return ErrPolicyNotFound.Error() + ": " + e.PolicyID }

// Unwrap returns ErrPolicyNotFound.
func (e *PolicyNotFoundError) Unwrap() error { return ErrPolicyNotFound }

// KeyReusedError refuses an idempotency key that a check with another request has.
type KeyReusedError struct{ Check spend.ID }

func (e *KeyReusedError) Error() string {
	return "idempotency_key was used for a different request, that of " + e.Check.Text(spend.PrefixCheck) +
		": repeat that one as it was, or give another action a key of its own"
}

// Store is the part of audit.Store that an Authorizer uses. It commits through a commit.Writer.
type Store interface {
	audit.Policies
	audit.Drafts
	audit.Keys
	audit.Sessions
	audit.Budgets
	audit.Approvals
	audit.Redemptions
	audit.Payments
	audit.Events
	audit.Webhooks
	audit.Backtests
	audit.Freezes
	audit.BudgetGrants
	ConfigChanges(ctx context.Context, since int64) (audit.ConfigChanges, error)
	Checks(ctx context.Context, ids []spend.ID) ([]*spend.Check, error)
	Outcomes(ctx context.Context, checkIDs []spend.ID) ([]*spend.Outcome, error)
	ListChecks(ctx context.Context, q audit.CheckQuery) (audit.CheckPage, error)
	ArchivedDays(ctx context.Context, from, to time.Time) ([]audit.ArchivedDay, error)
	ViolationsFrom(ctx context.Context) (spend.ID, error)
}

// Authorizer answers checks and simulations. It is safe for concurrent use.
type Authorizer struct {
	guard        *guard.Guard
	writer       *commit.Writer
	store        Store
	classifier   *intent.Classifier
	catalog      *catalog
	uses         *uses
	local        *localWindows
	exhausted    *exhausted
	fullest      *fullest
	waiters      waiters
	feedWaiters  feedWaiters
	approvals    *guard.Lookup[spend.ID, *audit.Approval]
	became       *guard.Lookup[spend.ID, spend.Course]
	toRedeem     *guard.Lookup[spend.ID, *spend.Check]
	payments     *guard.Lookup[spend.Hash, *spend.Payment]
	toShow       *guard.Lookup[spend.ID, *spend.Check]
	terms        redeemTerms
	unread       unread
	metrics      *metrics
	log          *slog.Logger
	sessionReads permits
	unresolved   sync.WaitGroup // commits whose clients were refused already
	now          func() time.Time
	checkings    sync.Pool // that ended

	privateWebhooks  bool
	releasesRequired int // people, of a freeze

	stopsMu   sync.Mutex
	stopsDone int64 // the last stop of a key whose checks were given back
}

// Components are the parts of an Authorizer.
type Components struct {
	Guard      *guard.Guard
	Writer     *commit.Writer
	Store      Store
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time // the node's clock: time_restriction, latency

	// PrivateWebhooks lets events be delivered to private and loopback addresses.
	PrivateWebhooks bool
	// ReleasesRequired is how many people must release a freeze; 0 is one (S87).
	ReleasesRequired int
	// NoteUsesEvery is the interval at which the uses of keys are written to the store; 0 is once a
	// minute.
	NoteUsesEvery time.Duration
}

// New makes an Authorizer and starts following the configuration. Close the
// writer before the Authorizer, and the guard after it.
func New(c Components) *Authorizer {
	m := newMetrics(c.Registerer)
	a := &Authorizer{
		guard: c.Guard, writer: c.Writer, store: c.Store, classifier: intent.New(),
		local: newLocalWindows(), exhausted: newExhausted(c.Store), fullest: newFullest(),
		approvals: newApprovals(c.Store), became: newBecame(c.Store), toRedeem: guard.NewChecks(c.Store.Untouched),
		payments: guard.NewLookup(c.Store.Payments), toShow: guard.NewChecks(c.Store.Checks),
		metrics: m, log: c.Logger, now: c.Now, sessionReads: make(permits, sessionReads), privateWebhooks: c.PrivateWebhooks,
		releasesRequired: max(c.ReleasesRequired, 1),
	}
	a.waiters.store, a.feedWaiters.store = c.Store, c.Store
	a.checkings.New = func() any { return new(checking) }
	a.catalog = newCatalog(c.Store, c.Logger, m)
	a.measureFreezes(c.Registerer)
	a.uses = newUses(c.Store, func() map[spend.Hash]*key { return a.catalog.view().keys }, cmp.Or(c.NoteUsesEvery, defaultNoteUsesEvery),
		c.Logger)
	return a
}

// Close stops following the configuration. The writer must be closed before, because it reports the
// outcome of commits in doubt to the guard.
func (a *Authorizer) Close() {
	a.uses.close()
	a.catalog.close()
	a.unresolved.Wait()
}

// Caller identifies the sender of a request by its headers, without proof.
type Caller struct {
	hash    spend.Hash // of the raw API key
	keyed   bool
	demo    string // the client address of a caller without a key
	session *key   // of a caller who has signed in
}

// KeyCaller is the caller with that raw API key; an empty one is unauthorized.
func KeyCaller(raw []byte) Caller {
	return Caller{hash: sha256.Sum256(raw), keyed: len(raw) > 0}
}

// DemoCaller is a caller without a key, known by its address (S24).
func DemoCaller(address string) Caller { return Caller{demo: address} }

// identity is a caller as a view of the configuration knows it.
type identity struct {
	access Access
	hit    ratelimit.Hit
	err    error // ErrUnauthorized, ErrKeyInactive or ErrKeyExpired
}

// identify looks a caller up, by the node's clock. The result is valid once the view is proved
// current.
func (v *view) identify(c Caller, now func() time.Time) identity {
	if c.demo != "" {
		return identity{hit: ratelimit.Hit{Key: ratelimit.KeyPrefix + "demo:" + c.demo, Limit: ratelimit.DemoLimit}}
	}
	if k := c.session; k != nil { // read from the store for this request
		return identity{access: Access{k}, hit: ratelimit.Hit{Key: k.counter, Limit: k.RateLimitRPM}}
	}
	k, ok := v.keys[c.hash]
	if !c.keyed || !ok {
		return identity{err: ErrUnauthorized}
	}
	if err := k.inForce(now); err != nil {
		return identity{err: err}
	}
	return identity{access: Access{k}, hit: ratelimit.Hit{Key: k.counter, Limit: k.RateLimitRPM}}
}

// Knows reports whether this node knows the caller's API key, as it last read it. It proves nothing;
// Admit and Check do.
func (a *Authorizer) Knows(c Caller) bool {
	id := a.catalog.view().identify(c, a.now)
	return id.err == nil && c.keyed
}

// KeyID returns the ID of the caller's API key, active or not, or of its session, or "" when this node
// knows neither. Like Knows it proves nothing.
func (a *Authorizer) KeyID(c Caller) string {
	if c.session != nil {
		return c.session.name
	}
	if k := a.catalog.view().keys[c.hash]; k != nil && c.keyed {
		return k.name
	}
	return ""
}

// Request is what a check or a simulation needs in addition to its body.
type Request struct {
	Caller  Caller
	Access  Access          // of a simulation, whose caller was admitted
	ID      string          // req_...
	Started time.Time       // when its first byte was read (S20)
	Trace   *trace.Record   // nil when it is not traced
	Payment *PaymentRequest // of a check; nil for none
	// PaymentKeys are those of a simulation's actions, in their order; nil for none.
	PaymentKeys []string
}

// Answer is the outcome of a check.
type Answer struct {
	Check    *spend.Check
	Replayed bool         // the recorded answer of an earlier request
	Became   spend.Course // what became of a replayed check
	Payment  *PaymentView // that the check is of; nil for none
	Waited   bool         // as long as the request for a payment said, or as was of use
}
