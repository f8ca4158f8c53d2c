package hotpath

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// Errors of grants (S91).
var (
	ErrGrantNotFound   = errors.New("no such grant")
	ErrGrantNotActive  = errors.New("the grant is revoked or over")
	ErrGrantNotPending = errors.New("the grant is open: it needs no approval")
	ErrGrantOwn        = errors.New("the granter does not approve the grant")
	ErrGrantOwnCheck   = errors.New("the counter met checks of the caller")
	ErrTooManyGrants   = errors.New("too many grants of the counter are open")
)

// GrantAsked is a request for a grant.
type GrantAsked struct {
	PolicyID, RuleID string
	Per              map[string]jsontext.Value // of the budget's per
	AddAmount        spend.Amount              // or
	AddCount         int64
	Until            time.Time
	Note             string
	IdempotencyKey   string
}

// hash identifies the request, without its idempotency key.
func (asked GrantAsked) hash() string {
	asked.IdempotencyKey = ""
	text, err := json.Marshal(asked)
	if err != nil {
		panic("BUG: a grant that was read has no JSON: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// GrantView is a grant as it is shown.
type GrantView struct {
	*audit.BudgetGrant
	Status  GrantStatus
	Missing int // people
}

// mayGrant refuses a key that may not grant, or not any more.
func (a Access) mayGrant() error {
	if err := a.permit(spend.BudgetsGrant); err != nil {
		return err
	}
	if a.key == nil || a.key.Grants.PolicyIDs != nil || a.key.Grants.AgentIDs != nil {
		return &ForbiddenError{"a key with policy_ids or agent_ids does not grant"}
	}
	return nil
}

// Grant records a grant. It is open at once, unless the policy asks people about its changes. The caller was admitted with that
// access. Errors: a *ForbiddenError, ErrPolicyNotFound, spend.Faults, ErrGrantOwnCheck, ErrTooManyGrants.
func (a *Authorizer) Grant(
	ctx context.Context, access Access, by audit.Actor, asked GrantAsked,
) (shown *GrantView, replayed bool, err error) {
	if err := access.mayGrant(); err != nil {
		return nil, false, err
	}
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	id := spend.NewID(a.now())
	if asked.IdempotencyKey != "" {
		sum := sha256.Sum256([]byte("spendgate grant\n" + access.slot() + "\n" + asked.IdempotencyKey))
		id = spend.ID(sum[:len(id)])
		known, err := a.store.BudgetGrant(stored, id)
		if err == nil {
			return a.sameGrant(ctx, asked, known)
		}
		if !errors.Is(err, audit.ErrNotFound) {
			return nil, false, err
		}
	}
	replayed, err = a.changeGrant(ctx, access, by, func(stored context.Context, v *view, access Access) (c audit.GrantChange, err error) {
		c = audit.GrantChange{Kind: audit.GrantCreated, ID: id}
		c.Terms, err = a.newGrant(stored, v, access, &asked)
		return c, err
	})
	if err != nil {
		return nil, false, err
	}
	g, err := a.store.BudgetGrant(stored, id)
	if err != nil {
		return nil, false, err
	}
	if replayed {
		return a.sameGrant(ctx, asked, g)
	}
	return a.viewGrant(g), false, nil
}

// newGrant returns the terms of a grant that the caller may make.
func (a *Authorizer) newGrant(ctx context.Context, v *view, access Access, asked *GrantAsked) (*audit.GrantTerms, error) {
	if err := access.mayGrant(); err != nil { // since it was admitted
		return nil, err
	}
	program, err := a.catalog.program(asked.PolicyID)
	if err != nil {
		return nil, err
	}
	now, err := a.store.SignInBegins(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	terms, err := asked.terms(program, now)
	if err != nil {
		return nil, err
	}
	live, err := a.store.Policy(ctx, asked.PolicyID, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot read policy %s: %w", ErrUnavailable, asked.PolicyID, err)
	}
	required, err := spend.ParseChanges(live.Changes)
	if err != nil {
		return nil, err
	}
	if required != nil {
		terms.Required = required.Required
	}
	if err := a.refuseOwnCheck(ctx, v, access, program, terms, now); err != nil {
		return nil, err
	}
	open := 0
	for _, g := range v.grants[terms.Counter.ID] {
		if status, _ := v.statusOf(g, now); status == GrantOpen || status == GrantPending {
			open++
		}
	}
	if open >= audit.MaxGrants {
		return nil, ErrTooManyGrants
	}
	return terms, nil
}

// terms returns the terms of the grant that is asked for, by the policy's newest version.
func (asked *GrantAsked) terms(program *policy.Program, now time.Time) (*audit.GrantTerms, error) {
	var faults spend.Faults
	charge, info := program.ChargeOf(asked.RuleID, asked.Per, now, &faults)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	end := now.Add(audit.MaxGrantTime)
	if charge.Counter.BucketMS == 0 && charge.EndMS != 0 {
		end = time.UnixMilli(charge.EndMS)
	}
	switch {
	case !asked.AddAmount.IsZero() && !charge.Limited:
		faults.Add("add_amount", "is for a budget with a limit; this one has only max_count")
	case asked.AddCount > 0 && !charge.Counted:
		faults.Add("add_count", "is for a budget with max_count; this one has only a limit")
	}
	switch {
	case !asked.Until.After(now):
		faults.Add("until", "must be in the future")
	case asked.Until.After(end):
		faults.Add("until", "must be at most "+end.UTC().Format(time.RFC3339)+", when the window ends; of a rolling window or a lifetime 31 days")
	}
	terms := &audit.GrantTerms{
		Counter: charge.Counter, PolicyID: asked.PolicyID, RuleID: asked.RuleID, Since: charge.Since, Per: info.Per, Subject: charge.Subject,
		AgentID: charge.AgentID, AddAmount: asked.AddAmount.Total(), AddCount: asked.AddCount, Until: asked.Until, Note: asked.Note,
		Request: asked.hash(),
	}
	if charge.Counter.BucketMS > 0 { // it is of no bucket
		terms.Counter.StartMS = 0
	}
	if asked.AddCount == 0 {
		terms.Currency = info.Currency
	}
	return terms, faults.Err()
}

// changeGrant records a change of a grant that judge returns, by the newest configuration and by what the caller's key may do in it,
// and makes it known to all nodes. A change without terms is not recorded. It is replayed if it creates a grant that is there.
func (a *Authorizer) changeGrant(
	ctx context.Context, access Access, by audit.Actor, judge func(context.Context, *view, Access) (audit.GrantChange, error),
) (replayed bool, err error) {
	stored, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	if err := a.prove(stored); err != nil { // without Redis nothing is recorded
		return false, err
	}
	for range maxReclaims {
		v := a.catalog.view()
		access, err := v.current(access, spend.BudgetsGrant, a.now)
		if err != nil {
			return false, err
		}
		by := access.decider(a, by)
		c, err := judge(stored, v, access)
		if err != nil || c.Terms == nil {
			return false, err
		}
		c.Seen = v.stops
		c.Name, _ = access.person()
		replayed, err = a.store.RecordGrant(stored, by, c)
		if errors.Is(err, audit.ErrStaleStops) {
			if err := a.catalog.reload(stored); err != nil {
				return false, err
			}
			continue
		}
		if err != nil {
			return false, fmt.Errorf("%w: cannot record a grant: %w", ErrUnavailable, err)
		}
		if replayed {
			return true, nil
		}
		a.log.Info(string(c.Kind), "grant_id", c.ID.Text(spend.PrefixGrant), "policy_id", c.Terms.PolicyID, "rule_id", c.Terms.RuleID, "", &by)
		return false, a.tellOfGrants(ctx)
	}
	return false, fmt.Errorf("%w: a grant was overtaken too often", ErrUnavailable)
}

// tellOfGrants has all nodes judge by the grants that are recorded.
func (a *Authorizer) tellOfGrants(ctx context.Context) error {
	if err := a.guard.RaiseGeneration(ctx); err != nil {
		return err
	}
	return a.catalog.reload(ctx)
}

// sameGrant answers a repeated request with the grant as it is now. The first request may not have told the nodes yet.
func (a *Authorizer) sameGrant(ctx context.Context, asked GrantAsked, known *audit.BudgetGrant) (*GrantView, bool, error) {
	if asked.hash() != known.Request {
		var faults spend.Faults
		faults.Add("idempotency_key", "was used for a different request, that of "+known.ID.Text(spend.PrefixGrant))
		return nil, false, faults
	}
	return a.viewGrant(known), true, a.tellOfGrants(ctx)
}

// viewGrant shows a grant by the keys as they are now.
func (a *Authorizer) viewGrant(g *audit.BudgetGrant) *GrantView {
	shown := &GrantView{BudgetGrant: g}
	shown.Status, shown.Missing = a.statusOf(a.catalog.view(), g, a.now())
	return shown
}

// statusOf is view.statusOf, of grants of whatever counter: a grant has ended if the newest version of its policy has that no more.
func (a *Authorizer) statusOf(v *view, g *audit.BudgetGrant, at time.Time) (status GrantStatus, missing int) {
	if status, missing = v.statusOf(g, at); status == GrantRevoked || status == GrantEnded {
		return status, missing
	}
	program, err := a.catalog.program(g.PolicyID)
	if err == nil && !slices.ContainsFunc(program.Budgets(), func(b policy.BudgetInfo) bool {
		return b.RuleID == g.RuleID && b.Since.Version == g.Since
	}) {
		return GrantEnded, 0
	}
	return status, missing
}

// refuseOwnCheck refuses a grant to a counter that counted, or refused, a check of the caller in its window (S62). Where archives alone
// could tell, it refuses callers whose name the counter knows, who had a check refused under the policy, or who could ask when
// violations were recorded that are archived too.
func (a *Authorizer) refuseOwnCheck(
	ctx context.Context, v *view, access Access, program *policy.Program, terms *audit.GrantTerms, now time.Time,
) error {
	own := func(p audit.Party) bool {
		by, k := access.key.party(), v.named[p.KeyID]
		return p.Shares(by) || k != nil && k.party().Shares(by)
	}
	names, since, err := a.askedAs(ctx, own)
	if err != nil || names == nil {
		return err
	}
	q := audit.AskedQuery{PolicyID: terms.PolicyID, Before: audit.MaxID(), Limit: openAtOnce}
	began := program.Began(terms.RuleID, now)
	if !began.IsZero() {
		q.From = audit.FirstID(began.UnixMilli())
	}
	kept, err := a.store.ViolationsFrom(ctx)
	if err != nil {
		return fmt.Errorf("%w: cannot read which violations are archived: %w", ErrUnavailable, err)
	}
	if q.From.Compare(kept) < 0 && since.Before(kept.Time()) {
		return ErrGrantOwnCheck
	}
	met, err := a.store.CounterPrincipals(ctx, terms.Counter.ID)
	if err != nil {
		return fmt.Errorf("%w: cannot read whose checks a budget counted: %w", ErrUnavailable, err)
	}
	counted := func(name string) bool { return slices.Contains(met, name) }
	if slices.ContainsFunc(names, counted) {
		archived, err := a.store.ArchivedDays(ctx, began, now)
		if err != nil {
			return fmt.Errorf("%w: cannot read which days are archived: %w", ErrUnavailable, err)
		}
		if began.IsZero() || len(archived) > 0 { // what the counter met may be archived
			return ErrGrantOwnCheck
		}
	}
	for _, q.Principal = range names {
		q.Refused = true
		err := a.refuseMet(ctx, q, terms, func(c *spend.Check) []spend.Charge {
			asks := c.Approval != nil && slices.ContainsFunc(c.Approval.Rules, func(r spend.EscalatedRule) bool { return r.RuleID == terms.RuleID })
			if c.Decision.PolicyVersion < terms.Since || !asks && !c.Decision.LacksRoom() || !own(audit.Asker(c)) {
				return nil
			}
			return chargesOf(program, c, c.ID.Time())
		})
		if err != nil {
			return err
		}
		if !counted(q.Principal) {
			continue
		}
		q.Refused = false
		err = a.refuseMet(ctx, q, terms, func(c *spend.Check) []spend.Charge {
			if !own(audit.Asker(c)) {
				return nil
			}
			return c.Charges
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// askedAs returns the principals that the caller's checks may have, and since when there may be any; none if the caller never could ask.
// own reports whether a party is the caller, as it was or by its key as of now.
func (a *Authorizer) askedAs(ctx context.Context, own func(audit.Party) bool) (names []string, since time.Time, err error) {
	all, err := a.store.Askers(ctx)
	if err != nil {
		return nil, since, fmt.Errorf("%w: cannot read who could ask for checks: %w", ErrUnavailable, err)
	}
	for _, p := range all {
		if !own(p.Party) {
			continue
		}
		if names == nil || p.Since.Before(since) {
			since = p.Since
		}
		if name := cmp.Or(p.Principal, p.KeyID); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, since, nil
}

// refuseMet refuses a grant to a counter that a selected check met by its charges.
func (a *Authorizer) refuseMet(
	ctx context.Context, q audit.AskedQuery, terms *audit.GrantTerms, charges func(*spend.Check) []spend.Charge,
) error {
	for {
		page, err := a.store.AskedBy(ctx, q)
		if err != nil {
			return fmt.Errorf("%w: cannot read the caller's checks: %w", ErrUnavailable, err)
		}
		checks, err := a.store.Checks(ctx, page)
		if err != nil {
			return fmt.Errorf("%w: cannot read the caller's checks: %w", ErrUnavailable, err)
		}
		if len(checks) < len(page) { // what a refused check met stands in an archive only
			return ErrGrantOwnCheck
		}
		for _, c := range checks {
			if slices.ContainsFunc(charges(c), func(charge spend.Charge) bool { return terms.Covers(&charge) }) {
				return ErrGrantOwnCheck
			}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.Before = page[len(page)-1]
	}
}
