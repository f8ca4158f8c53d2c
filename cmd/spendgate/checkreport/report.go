// Package checkreport prints one recorded check for people: the decision, the
// request, the rule that fired and why, and whether the record verifies.
//
// Most of the texts come from agents, some of them hostile: they are printed
// only as printable characters on one line.
package checkreport

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/intent"
)

// Report is a check with everything that is recorded about it.
type Report struct {
	Check    *spend.Check
	Policy   *audit.Policy    // the version that decided; nil if unknown
	KeyName  string           // of the API key; empty if unknown
	Approval *audit.Approval  // that the check asked for or was sent with; nil without one
	Outcomes []*spend.Outcome // in the order of the reports
	Source   string           // where the row was read: "PostgreSQL", or an archive's file
	Chain    Chain
}

// Chain is a check's place in the tamper-evident chain (G8).
type Chain struct {
	ID    spend.ID // the node incarnation whose chain it is
	Seq   int64    // the batch's number in its chain, from 1; 0 if no batch has the check
	State string   // in words: whether the row is the one that was chained

	Compared bool // whether the batch could be read, or there is none
	Holds    bool
}

// Write prints the report as text.
func (r *Report) Write(w io.Writer) error {
	p := &printer{}
	c, d := r.Check, &r.Check.Decision
	fmt.Fprintf(&p.out, "%s: %s%s\n", c.ID.Text(spend.PrefixCheck), d.Effect, r.becameOf())
	p.section("Decision")
	p.line("decision", d.Effect.String()+", confidence "+d.Confidence.String())
	p.text("reason code", string(d.Reason))
	p.text("message", d.Message)
	p.text("next step", d.NextStep)
	p.line("made", fmt.Sprintf("%s, in %d ms", spend.TimeText(c.Timestamp()), c.LatencyMS))
	r.writeRequest(p)
	r.writeJudgement(p)
	r.writeApproval(p)
	r.writeOutcomes(p)
	r.writeRecord(p)
	_, err := io.WriteString(w, p.out.String())
	return err
}

// becameOf returns the last report, so that nobody takes an old allow for one that is still to be
// carried out.
func (r *Report) becameOf() string {
	if len(r.Outcomes) == 0 {
		return ""
	}
	last := r.Outcomes[len(r.Outcomes)-1]
	if last.Release == spend.ReleasePending {
		return fmt.Sprintf(", then %s (release pending)", last.Status)
	}
	if last.Status == spend.InDoubt {
		return ", redeemed and then in doubt"
	}
	return ", then " + string(last.Status)
}

// writeOutcomes prints the outcomes of the check, step by step.
func (r *Report) writeOutcomes(p *printer) {
	for _, o := range r.Outcomes {
		if o.Status == spend.Redeemed {
			p.section("Redemption")
			p.line("redemption_id", o.ID.Text(spend.PrefixRedemption))
			if id := o.Payment.ExecutionID; id != "" {
				p.line("execution_id", id)
			}
			writeBy(p, o)
			continue
		}
		if o.Status == spend.TakenOver {
			p.section("Taken over")
			p.line("redemption_id", o.ID.Text(spend.PrefixRedemption))
			writeBy(p, o)
			continue
		}
		if o.Status == spend.InDoubt {
			p.section("In doubt")
			p.text("note", o.Note)
			writeBy(p, o)
			continue
		}
		p.section("Outcome")
		status := string(o.Status)
		if o.Status == spend.Executed {
			status += ", " + o.Amount.Money(r.Check.Action.Currency)
		}
		p.line("report", strconv.Itoa(o.Number))
		p.text("status", status)
		p.line("release", string(o.Release))
		if o.Excess != "" {
			p.line("flag", string(o.Excess))
		}
		for _, flag := range o.Payment.Flags {
			p.line("payment", string(flag))
		}
		p.text("reference", o.Reference)
		p.text("note", o.Note)
		writeBy(p, o)
	}
}

// writeBy prints who recorded a step, and when.
func writeBy(p *printer, o *spend.Outcome) {
	switch {
	case o.KeyID == spend.SystemKey && o.Status == spend.InDoubt:
		p.line("by", "spendgate, for nobody reported what became of it")
	case o.KeyID == spend.SystemKey:
		p.line("by", "spendgate")
	default:
		p.text("by", o.Reporter())
		p.text("key_id", o.KeyID)
	}
	p.line("at", spend.TimeText(o.ID.Time()))
}

func (r *Report) writeRequest(p *printer) {
	a := &r.Check.Action
	p.section("Request")
	p.text("agent_id", a.AgentID)
	p.text("policy_id", a.PolicyID)
	p.text("action_type", a.Type.String())
	p.line("amount", a.Amount.String())
	p.text("currency", a.Currency)
	p.text("counterparty", a.Counterparty)
	p.text("payment_method", a.PaymentMethod)
	p.text("merchant_or_vendor", a.MerchantOrVendor)
	p.text("reason_text", a.ReasonText)
	if of := r.Check.Payment; of != nil {
		p.text("payment_key", of.Key)
		p.line("attempt", strconv.Itoa(of.Attempt))
	} else {
		p.text("idempotency_key", a.IdempotencyKey)
	}
	if a.Metadata.JSON == "" {
		p.text("metadata", "")
		return
	}
	p.line("metadata", printableJSON(a.Metadata.JSON))
}

func (r *Report) writeJudgement(p *printer) {
	c, d := r.Check, &r.Check.Decision
	p.section("Judged")
	p.line("as", resolution(c))
	policy := fmt.Sprintf("%s, version %d", printable(c.Action.PolicyID), d.PolicyVersion)
	if r.Policy != nil {
		policy += fmt.Sprintf(", %s, in force from %s", printable(r.Policy.Name), spend.TimeText(r.Policy.UpdatedAt))
	}
	p.line("by policy", policy)
	if d.Effect == spend.Allow {
		p.line("rule", "none fired")
		return
	}
	fired := r.fired()
	p.line("rule", printable(d.RuleID)+fired.kind())
	p.text("described as", d.RuleDescription)
	for _, parameter := range fired.parameters {
		p.line("parameter", printable(parameter.name)+" = "+clip(printableJSON(parameter.value)))
	}
	for _, fact := range fired.facts(c) {
		p.line("the check had", fact)
	}
	if of := duplicateOf(d); of != "" {
		p.line("duplicate of", of)
	}
}

// resolution describes how the action type was resolved.
func resolution(c *spend.Check) string {
	if c.Action.Type != spend.Unspecified {
		return c.ActionType.String() + ", as the request named it"
	}
	read := intent.New().Classify(c.Action.ReasonText)
	if read.Type != c.ActionType {
		return c.ActionType.String() + ", classified from reason_text; this version's classifier reads " + read.Type.String()
	}
	return c.ActionType.String() + ", classified from reason_text with confidence " + read.Confidence.String()
}

func (r *Report) writeRecord(p *printer) {
	c := r.Check
	p.section("Record")
	key := printable(c.KeyID)
	if r.KeyName != "" {
		key += ", " + printable(r.KeyName)
	}
	p.line("API key", key)
	if c.Principal != "" {
		p.text("principal", c.Principal)
	}
	if c.Owner != "" {
		p.text("owner", c.Owner)
	}
	p.text("request id", c.RequestID)
	p.line("duplicate guard", guardState(c))
	p.line("fingerprint", hexOf(c.Fingerprint))
	p.line("request SHA-256", hexOf(c.RequestSHA))
	p.line("node", c.Fence.Node.Text(""))
	p.line("epoch", c.Fence.Epoch.Text(""))
	p.line("chain", r.Chain.String())
	p.text("read from", r.Source)
}

func (c Chain) String() string {
	if c.Seq == 0 {
		return c.State
	}
	return fmt.Sprintf("%s, batch %d: %s", c.ID.Text(""), c.Seq, c.State)
}

func guardState(c *spend.Check) string {
	pass := c.Pass
	switch {
	case !pass.Passed() && c.Decision.Exceeded():
		return "let the check pass; a block as exceeded leaves no fingerprint"
	case !pass.Passed():
		return "stopped the check"
	}
	form := func(ms int64) string { return spend.TimeText(time.UnixMilli(ms)) }
	return "passed at " + form(pass.ClaimedMS) + "; repeats were blocked until " + form(pass.UntilMS)
}

func hexOf(h spend.Hash) string { return fmt.Sprintf("%x", h[:]) }

// duplicateOf returns the check that the message of a duplicate names at its end.
func duplicateOf(d *spend.Decision) string {
	if d.Reason != spend.ReasonDuplicate {
		return ""
	}
	_, of, _ := strings.Cut(d.Message, ": ")
	if _, err := spend.ParseID(of, spend.PrefixCheck); err != nil {
		return ""
	}
	return of
}
