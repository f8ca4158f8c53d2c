package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// given is a request to give or revoke a grant, and the answer to it.
type given struct {
	id      spend.ID
	revokes bool
	err     error
	lost    bool // the node died before it answered
}

// grantSome raises limits of the budgets for some seconds, while others take from them, and revokes some of the grants.
func (f *simulation) grantSome(r *rand.Rand) {
	time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
	f.several(r, 1+r.IntN(4), func(r *rand.Rand, _ int) {
		m := f.staff[r.IntN(len(f.staff))]
		g := f.grant(r, m, f.grantAsked(r))
		if g == nil || r.IntN(2) == 0 {
			return
		}
		time.Sleep(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
		f.revoke(r, f.staff[r.IntN(len(f.staff))], *g)
	})
}

func (f *simulation) grantAsked(r *rand.Rand) hotpath.GrantAsked {
	asked := hotpath.GrantAsked{
		PolicyID: budgeted, RuleID: "each", Until: time.Now().Add(200*time.Millisecond + time.Duration(r.Int64N(int64(6*time.Second)))),
		Note: "a busy hour",
	}
	switch r.IntN(4) {
	case 0:
		asked.RuleID, asked.AddCount = "all", 1+r.Int64N(4)
		return asked
	case 1:
		asked.RuleID = "rolling"
	default:
		agent := [...]string{`"agent"`, `"another"`}[r.IntN(2)]
		asked.Per = map[string]jsontext.Value{"agent_id": jsontext.Value(agent)}
	}
	asked.AddAmount, _ = spend.ParseAmount(fmt.Sprint(10 + 10*r.IntN(4)))
	return asked
}

// grant gives a grant, and retries if that fails. It returns the grant if it was answered.
func (f *simulation) grant(r *rand.Rand, m *member, asked hotpath.GrantAsked) *spend.ID {
	if r.IntN(2) == 0 {
		asked.IdempotencyKey = fmt.Sprint("raise ", r.Uint64())
	}
	for range 3 {
		n := f.nodes[r.IntN(len(f.nodes))]
		access, err := m.as(n, spend.BudgetsGrant)
		if err == nil {
			var shown *hotpath.GrantView
			if shown, _, err = n.Grant(context.Background(), access, audit.Actor{}, asked); err == nil {
				f.noteGiven(&given{id: shown.ID, lost: n.store.isDead()})
				return &shown.ID
			}
		}
		f.noteGiven(&given{err: err})
		if !unanswered(err) {
			return nil
		}
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
	}
	return nil
}

// revoke revokes a grant, and retries if that fails.
func (f *simulation) revoke(r *rand.Rand, m *member, id spend.ID) {
	for range 3 {
		n := f.nodes[r.IntN(len(f.nodes))]
		access, err := m.as(n, spend.BudgetsGrant)
		if err == nil {
			_, _, err = n.RevokeGrant(context.Background(), access, audit.Actor{}, id, "enough")
		}
		f.noteGiven(&given{id, true, err, n.store.isDead()})
		if !unanswered(err) {
			return
		}
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
	}
}

// unanswered reports whether the request is to be sent again.
func unanswered(err error) bool {
	return errors.Is(err, hotpath.ErrUnavailable) || errors.Is(err, audit.ErrUnavailable) || errors.Is(err, audit.ErrUnknown)
}

func (f *simulation) noteGiven(g *given) {
	f.note("%s: grant %s, revoked %t: %v", time.Now().Format("05.000000"), g.id.Text(spend.PrefixGrant), g.revokes, g.err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.given = append(f.given, g)
}

// raise is a grant, as the judge reads it from the record. Places are those of changes among the events.
type raise struct {
	rule, subject string
	adds          spend.Usage
	until         time.Time
	by            string
	given         int
	revoked       int // 0: never
}

// book is the grants of the record, with the keys that gave them.
type book struct {
	raises map[string]*raise
	keys   map[string][]standing
	places []int // of all changes by which grants begin or end
}

func (r *record) book() *book {
	b := &book{raises: make(map[string]*raise), keys: standings(r.events)}
	for i, e := range r.events {
		switch {
		case e.change == nil:
			continue
		case e.change.Kind == audit.GrantCreated:
			var said struct {
				Policy  string      `json:"policy_id"`
				Rule    string      `json:"rule_id"`
				Subject string      `json:"subject"`
				Amount  json.Number `json:"add_amount"`
				Count   int64       `json:"add_count"`
				Until   int64       `json:"until_ms"`
			}
			if err := json.Unmarshal([]byte(e.change.Details), &said); err != nil {
				panic(fmt.Sprintf("BUG: a grant is no JSON: %v", err))
			}
			amount := spend.Total{}
			if said.Amount != "" {
				amount, _ = spend.ParseTotal(said.Amount.String())
			}
			b.raises[e.change.Subject] = &raise{
				rule: said.Policy + " " + said.Rule, subject: said.Subject, adds: spend.Usage{Used: amount, Count: said.Count},
				until: time.UnixMilli(said.Until), by: e.change.By.KeyID, given: i,
			}
		case e.change.Kind == audit.GrantRevoked:
			b.raises[e.change.Subject].revoked = i
		case e.change.Kind != audit.KeyChanged:
			continue
		}
		b.places = append(b.places, i)
	}
	return b
}

// granted returns what grants add to a counter for a check of that time that is recorded at a place.
func (b *book) granted(t taken, at time.Time, place int) (all spend.Usage) {
	for _, g := range b.raises {
		counts := g.rule == t.rule && g.subject == t.subject && g.given < place && (g.revoked == 0 || g.revoked > place) && at.Before(g.until)
		ended := slices.ContainsFunc(b.keys[g.by], func(s standing) bool { // for good
			return g.given < s.place && s.place < place && !s.decides()
		})
		if counts && !ended {
			all = spend.Usage{Used: all.Used.Plus(g.adds.Used), Count: all.Count + g.adds.Count}
		}
	}
	return all
}

// unsure is for how long before a check a node may not know of a change that nobody told it of.
const unsure = 10 * time.Second

// mayBeGranted returns what grants may have added when a check was judged that is recorded at a place.
func (b *book) mayBeGranted(events []event, t taken, at time.Time, place int) []spend.Usage {
	all := []spend.Usage{b.granted(t, at, place)}
	for _, change := range slices.Backward(b.places) {
		if change >= place {
			continue
		}
		if one := b.granted(t, at, change); !slices.Contains(all, one) {
			all = append(all, one)
		}
		if events[change].at.Before(at.Add(-unsure)) {
			break
		}
	}
	return all
}

// judgeGrants checks S91: what was answered is recorded, and a check's row says what the grants gave that were in force when it was
// recorded.
func (f *simulation) judgeGrants(fail func(string, ...any), b *book) {
	for _, g := range f.given {
		r := b.raises[g.id.Text(spend.PrefixGrant)]
		_, forbidden := errors.AsType[*hotpath.ForbiddenError](g.err)
		switch {
		case g.err == nil && !g.lost && (r == nil || g.revokes && r.revoked == 0):
			fail("S91: %s was answered, revoked %t, and is not recorded", g.id.Text(spend.PrefixGrant), g.revokes)
		case g.err == nil, forbidden, unanswered(g.err), errors.Is(g.err, hotpath.ErrKeyInactive),
			errors.Is(g.err, hotpath.ErrTooManyGrants), errors.Is(g.err, hotpath.ErrGrantOwnCheck), errors.Is(g.err, hotpath.ErrRateLimited),
			g.revokes && errors.Is(g.err, hotpath.ErrGrantNotActive):
		default:
			if _, late := errors.AsType[spend.Faults](g.err); !late { // its time was over before it was recorded
				fail("a grant: %v", g.err)
			}
		}
	}
	for place, e := range f.record.events {
		if e.check == nil || e.check.Decision.Effect != spend.Allow {
			continue
		}
		for i := range e.check.Charges {
			c := &e.check.Charges[i]
			t := taken{rule: e.check.Action.PolicyID + " " + c.RuleID, subject: c.Subject}
			if want := b.granted(t, e.check.ID.Time(), place); c.Granted != want {
				fail("S91: %s says that grants gave %s of %d to %s %s, it was %s of %d", e.check.ID.Text("chk_"), c.Granted.Used, c.Granted.Count,
					t.rule, t.subject, want.Used, want.Count)
			}
		}
	}
}
