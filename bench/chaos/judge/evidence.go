package judge

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"

	"spendgate/bench/fleet"
)

// evidence is a history, indexed for the rules.
type evidence struct {
	*History
	checks      []*check            // requests, in the order in which they were sent
	alike       map[string][]*check // by request
	contenders  map[string][]*check // by idempotency key or fingerprint, for which checks may wait for each other
	rows        map[string]*Row     // by ID
	recorded    map[string][]*Row   // by request
	answers     map[string][]*check // requests, by the ID of the check that answered them
	policies    map[policyVersion]*program
	outcomes    map[string][]*Outcome // by check
	reports     map[string][]*Op      // of outcomes, by check
	courses     map[string]*course    // by check
	grants      grants
	findings    []Finding
	deactivated map[string][]change // by key_id; made when it is first asked for
}

// check is one request for a check and, if it was answered, the result.
type check struct {
	*Op
	request request
	same    string // equal for equal requests
	result  *result
}

// request is the body of a check.
type request struct{ fleet.Action }

type result = fleet.Result

type policyVersion struct {
	id      string
	version int
}

func gather(h *History) (*evidence, error) {
	e := &evidence{
		History: h, alike: make(map[string][]*check), rows: make(map[string]*Row), recorded: make(map[string][]*Row),
		contenders: make(map[string][]*check), answers: make(map[string][]*check), policies: make(map[policyVersion]*program),
		outcomes: make(map[string][]*Outcome), courses: make(map[string]*course), reports: make(map[string][]*Op),
	}
	for i := range h.Ops {
		if o := &h.Ops[i]; o.Kind == Report {
			e.reports[o.Subject] = append(e.reports[o.Subject], o)
		}
		if h.Ops[i].Kind != Check {
			continue
		}
		c := &check{Op: &h.Ops[i]}
		if err := json.Unmarshal(c.Request, &c.request); err != nil {
			return nil, fmt.Errorf("request %d: %w", c.ID, err)
		}
		c.same = c.request.canonical()
		if c.Status == 200 {
			c.result = &result{}
			if err := json.Unmarshal([]byte(c.Answer), c.result); err != nil {
				e.find("G1", fmt.Sprintf("an answer that is no check: %q", c.Answer), c)
				c.result = nil
			} else {
				e.answers[c.result.CheckID] = append(e.answers[c.result.CheckID], c)
			}
		}
		e.checks = append(e.checks, c)
	}
	slices.SortStableFunc(e.checks, func(a, b *check) int { return int(a.Sent - b.Sent) })
	for _, c := range e.checks {
		e.alike[c.same] = append(e.alike[c.same], c)
		for _, wanted := range c.request.contended() {
			e.contenders[wanted] = append(e.contenders[wanted], c)
		}
	}
	for i := range h.Rows {
		r := &h.Rows[i]
		e.rows[r.CheckID] = r
		for _, same := range r.requests() {
			e.recorded[same] = append(e.recorded[same], r)
		}
	}
	for i := range h.Outcomes {
		o := &h.Outcomes[i]
		e.outcomes[o.CheckID] = append(e.outcomes[o.CheckID], o)
	}
	for i := range h.Policies {
		p, err := compile(&h.Policies[i])
		if err != nil {
			return nil, err
		}
		e.policies[policyVersion{p.ID, p.Version}] = p
	}
	return e, e.readGrants()
}

// canonical returns a text that is equal for equal requests (S18).
func (r request) canonical() string {
	metadata := ""
	if r.Metadata != nil {
		text, _ := json.Marshal(r.Metadata) // it was JSON
		metadata = string(text)
	}
	parts := []string{
		r.AgentID, r.PolicyID, r.ActionType, decimal(string(r.Amount)), strings.ToUpper(r.Currency), r.Counterparty,
		r.PaymentMethod, r.Vendor, r.ReasonText, r.IdempotencyKey, metadata, r.ApprovalID,
	}
	text, _ := json.Marshal(parts) // strings always encode
	return string(text)
}

// requests returns the canonical requests that may have made a row: the row's type may have been
// inferred.
func (r *Row) requests() []string {
	q := r.asked()
	typed := q.canonical()
	if q.ReasonText == "" {
		return []string{typed}
	}
	q.ActionType = ""
	return []string{typed, q.canonical()}
}

// asked returns the recorded request.
func (r *Row) asked() request {
	q := request{fleet.Action{
		AgentID: r.AgentID, PolicyID: r.PolicyID, ActionType: r.ActionType, Amount: json.Number(r.Amount), Currency: r.Currency,
		Counterparty: r.Counterparty, PaymentMethod: deref(r.PaymentMethod), Vendor: deref(r.Vendor),
		ReasonText: deref(r.ReasonText), IdempotencyKey: deref(r.IdempotencyKey), ApprovalID: deref(r.ApprovalID),
	}}
	_ = json.Unmarshal([]byte(deref(r.Metadata)), &q.Metadata) // recorded metadata is JSON, or absent
	return q
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// decimal normalizes the spelling of an amount.
func decimal(s string) string {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return s
	}
	return r.RatString()
}

func sortedJSON(text json.RawMessage) string {
	if len(text) == 0 || string(text) == "null" {
		return ""
	}
	var v any
	if json.Unmarshal(text, &v) != nil {
		return string(text)
	}
	sorted, _ := json.Marshal(v) // it was JSON
	return string(sorted)
}

// fingerprint returns what the duplicate guard compares (S17).
func (r *Row) fingerprint() string {
	text, _ := json.Marshal([]string{r.AgentID, r.ActionType, decimal(r.Amount), r.Counterparty}) // strings always encode
	return string(text)
}

// at returns when the row's clocks showed the given time.
func (e *evidence) at(unixMS int64) time.Duration { return time.UnixMilli(unixMS).Sub(e.Run.Began) }

// duplicateOf returns the check that a duplicate block names; "" for other checks.
func (r *Row) duplicateOf() (id string, duplicate bool) {
	if deref(r.ReasonCode) != "duplicate_action_detected" {
		return "", false
	}
	return regexp.MustCompile(`chk_[0-9a-f]{32}`).FindString(deref(r.Message)), true
}

// producers returns the requests that may have made a row: the one that it answered, otherwise all
// equal requests sent before it.
func (e *evidence) producers(r *Row) []*check {
	var possible []*check
	for _, c := range e.answers[r.CheckID] {
		if !c.Replayed {
			return []*check{c}
		}
	}
	for _, same := range r.requests() {
		for _, c := range e.alike[same] {
			if c.Sent <= e.at(r.AtMS)+clockMargin && c.Key == r.KeyID {
				possible = append(possible, c)
			}
		}
	}
	return possible
}

// code returns the code of an error's body.
func (o *Op) code() string { return fleet.Answer{Body: []byte(o.Answer)}.ErrorCode() }
