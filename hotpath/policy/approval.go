package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"spendgate/audit/spend"
)

// ApprovalTerms are the approvals that a rule requires before an action that it escalated may pass.
type ApprovalTerms struct {
	Required      int                   // how many people must approve, in all
	From          []spend.GroupRequired // these of groups
	ExcludeAuthor bool                  // of the version
	Expires       time.Duration         // how long they may decide
	UseWithin     time.Duration         // how long it may be used after that
}

const (
	maxRequired      = 5 // people, of any group or of one
	maxGroups        = 5 // that a rule asks
	maxGroupsOfEntry = spend.MaxGroups
	// groupOverhead is the most memory that an entry takes beside its own struct and text.
	groupOverhead = 32
)

// groupMembers are the members of an entry of from.
var groupMembers = []Parameter{
	{Name: "group", Max: spend.MaxPrincipal},
	{Name: "any_of", Max: maxGroups},
	{Name: "required", Min: 1, Max: maxRequired},
}

var approvalMembers = []Parameter{
	{Name: "required", Min: 1, Max: maxRequired},
	{Name: "from", Max: maxGroups},
	{Name: "exclude_author"},
	{Name: "expires_minutes", Min: 1, Max: 30 * 24 * 60},
	{Name: "use_within_minutes", Min: 1, Max: 7 * 24 * 60},
}

// approval returns the approvals that the rule requires, nil when absent. A rule that does not
// escalate may not require any; why says when it may.
func (o *objectReader) approval(escalates bool, why string) *ApprovalTerms {
	raw := o.value("approval")
	if raw == nil {
		return nil
	}
	if !escalates {
		o.fault("approval", why)
	}
	p, ok := openObject(raw, o.path+".approval", approvalMembers, o.log)
	if !ok {
		return nil
	}
	a := &ApprovalTerms{Required: 1, Expires: 24 * time.Hour, UseWithin: time.Hour}
	n, given := p.integer("required")
	if given {
		a.Required = int(n)
	}
	if p.value("from") != nil {
		if a.From = p.groups(true); given {
			p.fault("required", "and from exclude each other")
		}
		a.Required = 0
		for _, g := range a.From {
			a.Required += g.Required
		}
	}
	a.ExcludeAuthor = p.boolean("exclude_author")
	if n, given := p.integer("expires_minutes"); given {
		a.Expires = time.Duration(n) * time.Minute
	}
	if n, given := p.integer("use_within_minutes"); given {
		a.UseWithin = time.Duration(n) * time.Minute
	}
	p.refuseOthers()
	return a
}

// size returns the memory that the groups take; the rest is part of ruleOverhead.
func (a *ApprovalTerms) size() (size int) {
	if a == nil || a.From == nil {
		return 0
	}
	for _, g := range a.From {
		size += int(unsafe.Sizeof(g)) + groupOverhead + len(g.Name()) + len(g.AnyOf)*(groupOverhead/2)
	}
	return size
}

// groups returns how many people of which groups are asked (S79).
func (o *objectReader) groups(anyOf bool) (from []spend.GroupRequired) {
	entries, ok := o.array("from", maxGroups)
	if ok && len(entries) == 0 {
		o.fault("from", "must have at least one entry")
	}
	for i, raw := range entries {
		name := index("from", i)
		e, ok := openObject(raw, o.path+"."+name, groupMembers, o.log)
		if !ok {
			continue
		}
		g := spend.GroupRequired{Group: e.text("group"), AnyOf: e.anyOf(), Required: 1}
		if n, given := e.integer("required"); given {
			g.Required = int(n)
		}
		e.refuseOthers()
		switch same := func(other spend.GroupRequired) bool { return other.Same(&g) }; {
		case e.member("any_of") != nil && !anyOf:
			e.fault("any_of", "is accepted only in an approval of a rule")
		case e.member("any_of") != nil && g.Group != "":
			e.fault("any_of", "and group exclude each other")
		case e.member("any_of") != nil && !slices.ContainsFunc(from, same):
		case e.member("any_of") != nil:
			e.fault("any_of", "is there twice")
		case g.Group == "":
			if e.member("group") == nil {
				e.fault("group", isRequired)
			}
		case !spend.ValidName(g.Group):
			e.fault("group", spend.NameForm)
		case slices.ContainsFunc(from, same):
			e.fault("group", "is there twice")
		}
		from = append(from, g)
	}
	return from
}

// anyOf returns the groups of which any counts, nil when absent.
func (o *objectReader) anyOf() (groups []string) {
	o.list("any_of", func(entry string) string {
		switch same := func(other string) bool { return spend.SameName(other, entry) }; {
		case !spend.ValidName(entry):
			return spend.NameForm
		case slices.ContainsFunc(groups, same):
			return repeated
		case len(groups) == maxGroupsOfEntry:
			return "must be one of at most 20 groups"
		}
		groups = append(groups, entry)
		return ""
	})
	return groups
}

// text describes the terms by their meaning: groups in any order give the same text, as their names
// are compared.
func (a *ApprovalTerms) text() string {
	text := fmt.Sprintf("approval %d %d %d", a.Required, a.Expires/time.Minute, a.UseWithin/time.Minute)
	var groups []string
	for _, g := range a.From {
		var names []string
		for _, name := range g.Groups() {
			names = append(names, strconv.Quote(spend.FoldName(name)))
		}
		slices.Sort(names)
		groups = append(groups, fmt.Sprintf(" from %d %s", g.Required, strings.Join(names, " or ")))
	}
	slices.Sort(groups)
	text += strings.Join(groups, "")
	if a.ExcludeAuthor {
		text += " exclude author"
	}
	return text
}

// identify sets the hash that distinguishes the rule from rules whose parameters mean something else:
// only the escalation of the same rule is lifted (S47).
func (r *rule) identify(ruleType, parameters string) {
	meaning := ruleType + "\n" + r.approval.text() + "\n"
	if r.when != nil {
		meaning += "when " + r.when.identity() + " " + r.when.onMissing.String() + "\n"
	}
	switch c, isEscalateIf := r.condition.(*escalateIf); {
	case r.budget != nil:
		b := r.budget
		meaning += fmt.Sprintf("%s %v %s %v %d", b.identityIn(b.period.zone.String()), b.limited, b.limit, b.counted, b.maxCount)
	case isEscalateIf:
		meaning += c.identity() + " " + r.types.String()
	default:
		hash := spend.HashJSON(parameters)
		meaning += hex.EncodeToString(hash[:])
	}
	r.identity = sha256.Sum256([]byte(meaning))
}

// lifted reports whether the rule is one of those whose escalation was approved.
func (r *rule) lifted(lift []spend.EscalatedRule) bool {
	return r.approval != nil && slices.Contains(lift, spend.EscalatedRule{RuleID: r.id, Identity: r.identity})
}

// Lift marks the charges of budgets whose escalation was approved.
func (p *Program) Lift(charges []spend.Charge, lift []spend.EscalatedRule) {
	for i := range charges {
		charges[i].Lifted = p.budgetNamed(charges[i].RuleID).rule.lifted(lift)
	}
}

// Blocking reports of each charge whether its budget blocks what it has no room for.
func (p *Program) Blocking(charges []spend.Charge) []bool {
	blocks := make([]bool, len(charges))
	for i := range charges {
		blocks[i] = p.budgetNamed(charges[i].RuleID).rule.effect == spend.Block
	}
	return blocks
}

// LongestApproval returns how long an action that is escalated may be executed later with its approval: at most.
func (p *Program) LongestApproval() (longest time.Duration) {
	terms := func(a *ApprovalTerms) {
		if a != nil {
			longest = max(longest, a.Expires+a.UseWithin)
		}
	}
	for i := range p.rules {
		terms(p.rules[i].approval)
	}
	for _, b := range p.budgets {
		terms(b.rule.approval)
	}
	return longest
}

// Asks returns the approval that an escalated action requires. All rules that escalate it, the budgets
// without room among them, must ask for an approval; the highest numbers of people, of each group and
// of any, and the shortest times are taken (S42, S79). It is nil if one of these rules does not ask.
func (p *Program) Asks(
	a *spend.Action, r spend.Resolution, now time.Time, charges []spend.Charge, exceeded map[int]spend.Usage,
) *spend.ApprovalRequest {
	type escalation struct {
		rule  *rule
		place [2]int // in the policy's order: budgets come before the rule of their number
	}
	var fired []escalation
	at := momentOf(now)
	for i := range p.rules {
		if effect, _ := p.rules[i].fire(a, r.Type, at); effect == spend.Escalate {
			fired = append(fired, escalation{&p.rules[i], [2]int{i, 1}})
		}
	}
	for i := range charges {
		if usage, ok := exceeded[i]; ok && !charges[i].Fits(usage) {
			b := p.budgetNamed(charges[i].RuleID)
			fired = append(fired, escalation{&b.rule, [2]int{b.before, 0}})
		}
	}
	slices.SortStableFunc(fired, func(x, y escalation) int { return slices.Compare(x.place[:], y.place[:]) })
	var asked *spend.ApprovalRequest
	anybody := 0 // the most that a rule asks for without naming groups
	for _, e := range fired {
		one := e.rule.approval
		if one == nil {
			return nil
		}
		if asked == nil {
			asked = &spend.ApprovalRequest{Expires: one.Expires, UseWithin: one.UseWithin}
		}
		anybody = max(anybody, one.join(asked))
		asked.Expires, asked.UseWithin = min(asked.Expires, one.Expires), min(asked.UseWithin, one.UseWithin)
		asked.Rules = append(asked.Rules, spend.EscalatedRule{RuleID: e.rule.id, Identity: e.rule.identity})
	}
	if asked != nil {
		asked.Required = anybody
		for _, g := range asked.From {
			asked.Required += g.Required
		}
	}
	return asked
}

// join adds the groups that a rule asks to those that others ask: of each group the highest number is
// taken. It returns how many people the rule asks for from any group.
func (a *ApprovalTerms) join(asked *spend.ApprovalRequest) (anybody int) {
	asked.ExcludeAuthor = asked.ExcludeAuthor || a.ExcludeAuthor
	for _, g := range a.From {
		i := slices.IndexFunc(asked.From, func(other spend.GroupRequired) bool { return other.Same(&g) })
		if i < 0 {
			asked.From = append(asked.From, g)
		} else {
			asked.From[i].Required = max(asked.From[i].Required, g.Required)
		}
	}
	if a.From != nil {
		return 0
	}
	return a.Required
}
