package judge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// GrantStep is a recorded change of a grant, or of a key that gave one.
type GrantStep struct {
	Subject     string          `json:"subject"`
	Kind        string          `json:"kind"` // grant.created, grant.revoked or key.changed
	KeyID       string          `json:"key_id"`
	Details     json.RawMessage `json:"details"`
	CommittedUS int64           `json:"committed_us"` // Unix microseconds
}

// raise is a grant (S91).
type raise struct {
	at      place // of a rolling window in no bucket
	amount  *big.Rat
	count   int64
	untilMS int64
	by      string
	given   int64 // when it was committed
	revoked int64 // 0: never
}

// right is what a granter's key may do since a change.
type right struct {
	since    int64
	mayGrant bool
}

// grants are the grants of a history.
type grants struct {
	raises map[string]*raise
	rights map[string][]right
}

// readGrants reads the recorded changes.
func (e *evidence) readGrants() error {
	e.grants = grants{make(map[string]*raise), make(map[string][]right)}
	for _, s := range e.GrantSteps {
		var said struct {
			PolicyID  string      `json:"policy_id"`
			RuleID    string      `json:"rule_id"`
			Subject   string      `json:"subject"`
			StartMS   int64       `json:"start_ms"`
			AddAmount json.Number `json:"add_amount"`
			AddCount  int64       `json:"add_count"`
			UntilMS   int64       `json:"until_ms"`
			Active    bool        `json:"active"`
			Role      string      `json:"role"`
		}
		if err := json.Unmarshal(s.Details, &said); err != nil {
			return fmt.Errorf("%s of %s: %w", s.Kind, s.Subject, err)
		}
		switch s.Kind {
		case "grant.created":
			amount, _ := new(big.Rat).SetString(cmp.Or(string(said.AddAmount), "0"))
			e.grants.raises[s.Subject] = &raise{
				at: place{said.PolicyID, said.RuleID, said.Subject, said.StartMS}, amount: amount, count: said.AddCount, untilMS: said.UntilMS,
				by: s.KeyID, given: s.CommittedUS,
			}
		case "grant.revoked":
			if g := e.grants.raises[s.Subject]; g != nil {
				g.revoked = s.CommittedUS
			}
		default:
			e.grants.rights[s.Subject] = append(e.grants.rights[s.Subject],
				right{since: s.CommittedUS, mayGrant: said.Active && said.Role == "approver"})
		}
	}
	return nil
}

// granted returns what grants add to a budget in a window for a check of that time, committed at another.
func (g *grants) granted(r *rule, at place, atMS, committedUS int64) (all sum) {
	all.used = new(big.Rat)
	if r.Parameters.RollingMinutes > 0 {
		at.startMS = 0
	}
	for _, one := range g.raises {
		if one.at == at && one.given < committedUS && (one.revoked == 0 || one.revoked > committedUS) && atMS < one.untilMS &&
			g.counts(one, committedUS) {
			all.used, all.count = all.used.Add(all.used, one.amount), all.count+one.count
		}
	}
	return all
}

// counts reports whether the key that gave a grant was active and might grant ever since.
func (g *grants) counts(one *raise, committedUS int64) bool {
	return !slices.ContainsFunc(g.rights[one.by], func(r right) bool {
		return one.given < r.since && r.since < committedUS && !r.mayGrant
	})
}

// granted is what a check spent, with what grants added to its limit.
type granted struct {
	*spending
	grants sum
}

// tooMuch reports whether some check was committed above the limit with the grants that were in force: with those that were committed
// before, and those of its own commit to which grants gave no more, one of which was the last.
func (r *rule) tooMuch(all []granted) bool {
	for _, own := range all {
		amounts, counts := sum{used: new(big.Rat)}, sum{used: new(big.Rat)}
		for _, one := range all {
			if one.committedUS > own.committedUS {
				continue
			}
			before := one.committedUS < own.committedUS
			if before || one.grants.used.Cmp(own.grants.used) <= 0 {
				amounts.used.Add(amounts.used, one.amount).Sub(amounts.used, one.back)
			}
			if (before || one.grants.count <= own.grants.count) && !one.gone {
				counts.count++
			}
		}
		amounts.used.Sub(amounts.used, own.grants.used)
		counts.count -= own.grants.count
		if r.Parameters.Limit != "" && !r.holds(amounts) || r.Parameters.MaxCount > 0 && !r.holds(counts) {
			return true
		}
	}
	return false
}

// exceeds reports whether the checks that count in a window took too much.
func (e *evidence) exceeds(r *rule, at place, all []spending) bool {
	var in []granted
	for i := range all {
		s := &all[i]
		own := r.place(s)
		last := at.startMS
		if r.Parameters.RollingMinutes > 0 {
			last += 60 * bucketMS
		}
		from, same := own.startMS, own
		if same.startMS = at.startMS; same == at && from >= at.startMS && from <= last {
			in = append(in, granted{s, e.grants.granted(r, at, s.atMS, s.committedUS)})
		}
	}
	return r.tooMuch(in)
}

// unsure is for how long before a request a node may not know of a change that nobody told it of.
const unsure = 10 * time.Second

// mayBeGranted returns what grants may have added when a check was judged.
func (e *evidence) mayBeGranted(r *rule, at place, row *Row, c *check) []sum {
	moments := []int64{row.CommittedUS}
	for _, s := range e.GrantSteps {
		if when := e.at(s.CommittedUS / 1000); when > c.Sent-unsure && when < c.Done+clockMargin {
			moments = append(moments, s.CommittedUS, s.CommittedUS+1)
		}
	}
	if from := e.Run.Began.Add(c.Sent - unsure).UnixMicro(); len(moments) > 1 {
		moments = append(moments, from)
	}
	var all []sum
	for _, at2 := range moments {
		all = append(all, e.grants.granted(r, at, row.AtMS, at2))
	}
	return all
}

// toldLimit reports whether a limit that a check was told is that of the budget with grants.
func (e *evidence) toldLimit(r *rule, c *check, told *big.Rat) bool {
	row, own := e.rows[c.result.CheckID], e.spentBy(c)
	limit, limited := new(big.Rat).SetString(string(r.Parameters.Limit))
	return row != nil && limited && slices.ContainsFunc(e.mayBeGranted(r, r.place(&own), row, c), func(s sum) bool {
		return new(big.Rat).Add(limit, s.used).Cmp(told) == 0
	})
}

// grantsJudge: a check's row says what the grants added that were in force at its commit, and what was answered about a grant is
// recorded (S91).
func (e *evidence) grantsJudge() {
	for i := range e.Rows {
		row := &e.Rows[i]
		p := e.policies[policyVersion{row.PolicyID, row.PolicyVersion}]
		if row.Charges == nil || p == nil || row.CommittedUS == 0 {
			continue
		}
		var charges []struct {
			RuleID  string          `json:"rule_id"`
			Per     json.RawMessage `json:"per"`
			StartMS int64           `json:"start_ms"`
			Granted json.Number     `json:"granted"`
			Count   int64           `json:"granted_count"`
		}
		if err := json.Unmarshal([]byte(*row.Charges), &charges); err != nil {
			e.findRow("S91", row.CheckID+" has charges that cannot be read", row)
			continue
		}
		for _, c := range charges {
			n := slices.IndexFunc(p.rules, func(r rule) bool { return r.ID == c.RuleID })
			if n < 0 {
				continue // G4
			}
			want := e.grants.granted(&p.rules[n], place{row.PolicyID, c.RuleID, string(c.Per), c.StartMS}, row.AtMS, row.CommittedUS)
			if says, ok := new(big.Rat).SetString(cmp.Or(string(c.Granted), "0")); !ok || says.Cmp(want.used) != 0 || c.Count != want.count {
				e.findRow("S91", fmt.Sprintf("%s says that grants gave %s of %d to %s; in force were %s", row.CheckID, says.FloatString(2), c.Count,
					c.RuleID, want), row)
			}
		}
	}
	for i := range e.Ops {
		o := &e.Ops[i]
		id := o.Subject
		if o.Kind == Grant && o.Status == 201 {
			_, id, _ = strings.Cut(o.Answer, `"grant_id":"`)
			id, _, _ = strings.Cut(id, `"`)
		} else if o.Kind != Revoke || o.Status != 200 {
			continue
		}
		if g := e.grants.raises[id]; g == nil || o.Kind == Revoke && g.revoked == 0 {
			e.findOp("S91", fmt.Sprintf("a %s of %s was answered and is not recorded", o.Kind, id), o)
		}
	}
}
