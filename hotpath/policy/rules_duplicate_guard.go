package policy

import (
	"slices"
	"strings"
	"time"

	"spendgate/audit/spend"
)

// duplicateGuard is the rule type, and the rule reported when the policy has
// no rule of that type (S17).
const duplicateGuard = "duplicate_guard"

var duplicateGuardParameters = []Parameter{
	{Name: "window_minutes", Required: true, Min: 1, Max: 7 * 24 * 60, Example: "60", Text: "for how long an identical action is a duplicate"},
	{
		Name: "after_block", Names: []string{"duplicate", "judge_again"},
		Text: "what an action identical to a blocked one is; duplicate if left out",
	},
}

// guardSettings are the policy's settings of the duplicate guard, which is always on.
// Package guard decides whether an action is a repeat.
type guardSettings struct {
	window      time.Duration
	id          string
	description string
	byRule      bool
	judgesAgain bool // an action does not repeat a blocked check
}

// guardContext is the part of a duplicate_guard that other rules have: it is skipped for an action that lacks what its
// conditions read.
type guardContext struct{}

func (guardContext) judge(*spend.Action, moment) spend.Reason { return spend.ReasonNone }

func (guardContext) explain(Finding, *spend.Action, *guardSettings) (message, nextStep string) {
	panic("BUG: a duplicate_guard fired among the rules")
}

// setGuards takes the duplicate_guard rules.
func (p *Program) setGuards(guards []rule) {
	for i := range guards {
		if guards[i].when != nil {
			p.guards = guards
			return
		}
	}
	for i := range guards {
		p.guard.widen(&guards[i])
	}
}

// guardOf returns the settings for an action: those of the duplicate_guard rules that it matches (S88).
func (p *Program) guardOf(a *spend.Action, t spend.ActionType) guardSettings {
	g := p.guard
	for i := range p.guards {
		if p.guards[i].applies(a, t) {
			g.widen(&p.guards[i])
		}
	}
	return g
}

// Guard returns for how long the duplicate guard takes an action identical to this one for a repeat: 5
// minutes, or the largest window of the duplicate_guard rules (S17); and whether such an action is no
// duplicate of one that was blocked (S60).
func (p *Program) Guard(a *spend.Action, t spend.ActionType) (window time.Duration, judgesAgain bool) {
	if p.guards == nil {
		return p.guard.window, p.guard.judgesAgain
	}
	g := p.guardOf(a, t)
	return g.window, g.judgesAgain
}

// LongestWindow returns the longest duplicate window of any action.
func (p *Program) LongestWindow() time.Duration {
	longest := p.guard.window
	for i := range p.guards {
		longest = max(longest, p.guards[i].window)
	}
	return longest
}

// SameWindows reports whether the duplicate windows of two versions are the same for every action.
func (p *Program) SameWindows(other *Program) bool {
	return p.guard.window == other.guard.window && slices.EqualFunc(p.guards, other.guards, func(x, y rule) bool {
		return x.window == y.window && x.when.identity() == y.when.identity()
	})
}

func defaultGuard() guardSettings {
	return guardSettings{window: defaultWindow, id: duplicateGuard, description: guardDescription(defaultWindow)}
}

func compileDuplicateGuard(o *objectReader, r *rule) string {
	minutes, _ := o.integer("window_minutes")
	r.window = time.Duration(minutes) * time.Minute
	after, _ := o.oneOf("after_block")
	r.judgesAgain = after == 1
	if r.when != nil && r.when.onMissing != spend.Allow {
		o.log.add(strings.TrimSuffix(o.path, "parameters")+"when."+paramOnMissing, "is not accepted with a duplicate_guard")
	}
	return guardDescription(r.window)
}

func guardDescription(window time.Duration) string {
	return "Blocks an action identical to one checked within " + inMinutes(window)
}

// widen takes a duplicate_guard rule into account: the largest window is used, the first of equal
// ones, and blocked checks are repeated unless all of the rules say judge_again (S60).
func (g *guardSettings) widen(r *rule) {
	again := r.judgesAgain && (g.judgesAgain || !g.byRule)
	if !g.byRule || r.window > g.window {
		*g = guardSettings{window: r.window, id: r.id, description: r.description, byRule: true}
	}
	g.judgesAgain = again
}

// afterBlock completes "check again", for an action that would be identical to the
// blocked one.
func (g *guardSettings) afterBlock() string {
	if g.judgesAgain {
		return ""
	}
	return g.afterWindow()
}

// afterWindow completes "check again", for an action that would be identical:
// before the window has passed it is a repeat (S17).
func (g *guardSettings) afterWindow() string {
	return " once the duplicate window of " + inMinutes(g.window) + " has passed"
}

// explain returns the texts of a hit. of is the earlier check, or empty when it
// is not to be named.
func (g *guardSettings) explain(of string) (message, nextStep string) {
	message = "an identical action (agent, action type, amount and counterparty) was checked within " + inMinutes(g.window)
	decided := "the earlier check"
	if of != "" {
		message += ": " + of
		decided = of
	}
	return message, "Do not repeat the action: " + decided +
		" decided it, and may have been acted on. If a second one is meant, check again" + g.afterWindow() + "."
}

// Duplicate returns the decision about an action that the duplicate guard found to
// repeat the check of (S14, S17), which is not named if it is zero. The
// fingerprint covers the action type, so its confidence is the resolution's (S16).
func (p *Program) Duplicate(of spend.ID, a *spend.Action, r spend.Resolution) spend.Decision {
	g := p.guardOf(a, r.Type)
	earlier := ""
	if !of.IsZero() {
		earlier = of.Text(spend.PrefixCheck)
	}
	message, nextStep := g.explain(earlier)
	return spend.Decision{
		Effect:          spend.Block,
		Confidence:      r.Confidence,
		Reason:          spend.ReasonDuplicate,
		RuleID:          g.id,
		RuleDescription: g.description,
		Message:         message,
		NextStep:        nextStep,
		PolicyVersion:   p.version,
	}
}
