package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// clockMargin is how far the rows' clocks may be from the clients': the
	// machine is the same, but times are rounded down to milliseconds, and a claim
	// is stamped a little before Redis receives it.
	clockMargin = 100 * time.Millisecond
	// windowMargin is how far the end of a window may be from the end computed from its claims'
	// stamps.
	windowMargin = 2500 * time.Millisecond
	// resumeIn is the time in which service resumes after a fault (G7). A request is answered
	// within answerIn without a fault in a node, and within takeOverIn with one: a claim expires
	// after 2.5 s.
	resumeIn   = 2 * time.Second
	answerIn   = 2 * time.Second
	takeOverIn = 4500 * time.Millisecond
	// slack allows for a busy machine.
	slack = time.Second
)

// Finding is a violation of the contract.
type Finding struct {
	Rule string // the guarantee's number
	Text string
	Ops  []int // the requests involved
	From time.Duration
	To   time.Duration
}

// String returns the finding on one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s (%.3f s to %.3f s, requests %v)", f.Rule, f.Text, f.From.Seconds(), f.To.Seconds(), f.Ops)
}

// find records a violation by some requests.
func (e *evidence) find(rule, text string, of ...*check) {
	f := Finding{Rule: rule, Text: text}
	for _, c := range of {
		f.add(c.Op)
	}
	e.findings = append(e.findings, f)
}

func (e *evidence) findOp(rule, text string, ops ...*Op) {
	f := Finding{Rule: rule, Text: text}
	for _, o := range ops {
		f.add(o)
	}
	e.findings = append(e.findings, f)
}

func (f *Finding) add(o *Op) {
	if len(f.Ops) == 0 || o.Sent < f.From {
		f.From = o.Sent
	}
	f.To = max(f.To, o.Done)
	f.Ops = append(f.Ops, o.ID)
}

// findRow records a violation by rows, with the requests that may have caused it.
func (e *evidence) findRow(rule, text string, rows ...*Row) {
	f := Finding{Rule: rule, Text: text}
	for _, r := range rows {
		at := e.at(r.AtMS)
		if f.From == 0 || at < f.From {
			f.From = at
		}
		f.To = max(f.To, at)
		for _, c := range e.producers(r) {
			f.add(c.Op)
		}
	}
	e.findings = append(e.findings, f)
}

// Judge returns what the contract does not allow, in the order of the rules. It fails on a
// malformed history.
func Judge(h *History) ([]Finding, error) {
	e, err := gather(h)
	if err != nil {
		return nil, err
	}
	for _, rule := range []func(*evidence){
		(*evidence).answersAreRecorded, (*evidence).rowsHaveRequests, (*evidence).readsAgree, (*evidence).violationsMatch,
		(*evidence).keysAreAnsweredOnce, (*evidence).onePasses, (*evidence).duplicatesAreOf,
		(*evidence).policiesAreStored, (*evidence).policiesAreFresh, (*evidence).decisionsFollowRules,
		(*evidence).keysAreFresh, (*evidence).limitsHold,
		(*evidence).failuresAreExcused, (*evidence).answersAreInTime, (*evidence).orphansAnswerOnce,
		(*evidence).simulationsLeaveNothing,
		(*evidence).budgetsHold, (*evidence).exceededIsTrue, (*evidence).grantsJudge,
		(*evidence).outcomesAreReportedOnce, (*evidence).releasedIsFree,
		(*evidence).redemptionsAreSteps, (*evidence).redemptionsAreTold, (*evidence).stoppedStays,
		(*evidence).nothingPassesFreezes, (*evidence).nothingIsRecordedFrozen, (*evidence).onlyFrozenIsStopped,
		(*evidence).paymentsAreCarriedOutOnce, (*evidence).oneProceeds,
		(*evidence).approvalsAreUsedOnce, (*evidence).approvalsAreTold,
	} {
		rule(e)
	}
	for line := range strings.Lines(h.Run.Unproved) {
		e.find("G8", strings.TrimSpace(line))
	}
	for line := range strings.Lines(h.Run.Flipped) {
		e.find("S53", strings.TrimSpace(line))
	}
	slices.SortStableFunc(e.findings, func(a, b Finding) int { return cmp.Compare(a.From, b.From) })
	return e.findings, nil
}
