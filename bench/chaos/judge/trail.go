package judge

import (
	"fmt"
	"slices"
	"time"
)

// answersAreRecorded: every answer has its row, equal in content (G1).
func (e *evidence) answersAreRecorded() {
	for _, c := range e.checks {
		if c.result == nil {
			continue
		}
		r := e.rows[c.result.CheckID]
		switch {
		case r == nil:
			e.find("G1", c.result.CheckID+" was answered and is not recorded", c)
		case !is(c.result, r):
			e.find("G1", fmt.Sprintf("%s was answered as %s and is recorded as %+v", r.CheckID, c.Answer, *r), c)
		case !slices.Contains(r.requests(), c.same):
			rule := "G1"
			if c.request.IdempotencyKey != "" {
				rule = "G2"
			}
			e.find(rule, fmt.Sprintf("%s is recorded of another request: %+v", r.CheckID, *r), c)
		case !c.Replayed && r.KeyID != c.Key:
			e.find("G1", fmt.Sprintf("%s is recorded under the API key %s", r.CheckID, r.KeyID), c)
		}
	}
}

func is(a *result, r *Row) bool {
	at := time.UnixMilli(r.AtMS).UTC().Format("2006-01-02T15:04:05.000Z")
	return a.Decision == r.Decision && a.Confidence == r.Confidence && equal(a.ReasonCode, r.ReasonCode) &&
		equal(a.Message, r.Message) && equal(a.RuleID, r.RuleID) && equal(a.RuleDescription, r.RuleText) &&
		a.PolicyVersion == r.PolicyVersion && equal(a.NextStep, r.NextStep) && a.LatencyMS == r.LatencyMS && a.Timestamp == at
}

func equal(a, b *string) bool { return (a == nil) == (b == nil) && deref(a) == deref(b) }

// rowsHaveRequests: every row has a request, and there are no more rows than requests; a check
// without a key answers one request (G1).
func (e *evidence) rowsHaveRequests() {
	asked := make(map[string]int)
	for i := range e.Rows {
		r := &e.Rows[i]
		made := e.producers(r)
		if len(made) == 0 {
			e.findRow("G1", fmt.Sprintf("%s is recorded without a request: %+v", r.CheckID, *r), r)
			continue
		}
		if len(made) == 1 {
			if c, at := made[0], e.at(r.AtMS); at < c.Sent-clockMargin || at > c.Done+clockMargin && c.result != nil {
				e.findRow("G1", fmt.Sprintf("%s is of %s, when its request was not in flight", r.CheckID, at), r)
			}
		}
		same := made[0].same
		if asked[same]++; asked[same] > len(e.alike[same]) {
			e.findRow("G1", fmt.Sprintf("%s is one row more than there were requests", r.CheckID), r)
		}
	}
	for id, given := range e.answers {
		fresh := slices.DeleteFunc(slices.Clone(given), func(c *check) bool { return c.Replayed })
		if len(fresh) > 1 {
			e.find("G1", id+" was answered to several requests, each as its own", fresh...)
		}
	}
}

// readsAgree: a check that is read again equals its answer (G1).
func (e *evidence) readsAgree() {
	for i := range e.Ops {
		o := &e.Ops[i]
		if o.Kind != Get || o.failed() || o.Status == 401 || o.Status == 429 {
			continue
		}
		for _, c := range e.answers[o.Subject] {
			if o.Status != 200 && c.Done < o.Sent {
				e.findOp("G1", fmt.Sprintf("%s was answered, then read as %d %s", o.Subject, o.Status, o.Answer), c.Op, o)
				break
			}
			if o.Status == 200 && o.Answer != c.Answer {
				e.findOp("G1", fmt.Sprintf("%s was answered as %s and read as %s", o.Subject, c.Answer, o.Answer), c.Op, o)
				break
			}
		}
	}
}

// violationsMatch: each check that is not an allow has its violation, and there are no other
// violations (G1).
func (e *evidence) violationsMatch() {
	found := make(map[string]*Violation)
	for i := range e.Violations {
		v := &e.Violations[i]
		if r := e.rows[v.CheckID]; r == nil || r.Decision == "allow" {
			e.findings = append(e.findings, Finding{Rule: "G1", Text: fmt.Sprintf("a violation of no check: %+v", *v)})
		}
		found[v.CheckID] = v
	}
	for i := range e.Rows {
		r := &e.Rows[i]
		if r.Decision == "allow" {
			continue
		}
		v := found[r.CheckID]
		if v == nil {
			e.findRow("G1", r.CheckID+" has no violation", r)
			continue
		}
		same := Violation{
			r.CheckID, r.PolicyID, r.PolicyVersion, r.LatencyMS, r.ActionType, r.Decision, r.Confidence, v.Amount, r.Currency,
			r.AgentID, r.Counterparty, deref(r.RuleID), deref(r.RuleText),
		}
		if *v != same || decimal(v.Amount) != decimal(r.Amount) {
			e.findRow("G1", fmt.Sprintf("the violation of %s says %+v", r.CheckID, *v), r)
		}
	}
}

// keysAreAnsweredOnce: one row, one body and one first answer per idempotency
// key, and no other request gets it (G2).
func (e *evidence) keysAreAnsweredOnce() {
	rows := make(map[string][]*Row)
	for i := range e.Rows {
		if k := e.Rows[i].IdempotencyKey; k != nil {
			rows[*k] = append(rows[*k], &e.Rows[i])
		}
	}
	for k, of := range rows {
		if len(of) > 1 {
			e.findRow("G2", fmt.Sprintf("the idempotency key %s is recorded %d times", k, len(of)), of...)
		}
	}
	first := make(map[string]*check)
	for _, c := range e.checks {
		k := c.request.IdempotencyKey
		if k == "" {
			continue
		}
		if c.Status == 422 {
			e.keyReused(c, rows[k])
			continue
		}
		if c.result == nil {
			continue
		}
		if f := first[k]; f == nil {
			first[k] = c
		} else if f.Answer != c.Answer {
			e.find("G2", "the idempotency key "+k+" has two answers", f, c)
		}
	}
}

// keyReused checks a request that was refused because the key belongs to another
// request, which must have been recorded before the answer (S18).
func (e *evidence) keyReused(c *check, rows []*Row) {
	for _, r := range rows {
		if !slices.Contains(r.requests(), c.same) && e.at(r.AtMS) <= c.Done+clockMargin {
			return
		}
	}
	e.find("G2", "the idempotency key "+c.request.IdempotencyKey+" was refused though no other request has it: "+c.Answer, c)
}
