package policy

import (
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

func defaultGuard() guardSettings {
	return guardSettings{window: defaultWindow, id: duplicateGuard, description: guardDescription(defaultWindow)}
}

func compileDuplicateGuard(o *objectReader, r *rule) string {
	minutes, _ := o.integer("window_minutes")
	r.window = time.Duration(minutes) * time.Minute
	after, _ := o.oneOf("after_block")
	r.judgesAgain = after == 1
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
	return message, "Do not repeat the action: the decision about it is that of " + decided +
		". If a second one is meant, check again" + g.afterWindow() + "."
}

// Duplicate returns the decision about an action that the duplicate guard found to
// repeat the check of (S14, S17), which is not named if it is zero. The
// fingerprint covers the action type, so its confidence is the resolution's (S16).
func (p *Program) Duplicate(of spend.ID, r spend.Resolution) spend.Decision {
	earlier := ""
	if !of.IsZero() {
		earlier = of.Text(spend.PrefixCheck)
	}
	message, nextStep := p.guard.explain(earlier)
	return spend.Decision{
		Effect:          spend.Block,
		Confidence:      r.Confidence,
		Reason:          spend.ReasonDuplicate,
		RuleID:          p.guard.id,
		RuleDescription: p.guard.description,
		Message:         message,
		NextStep:        nextStep,
		PolicyVersion:   p.version,
	}
}
