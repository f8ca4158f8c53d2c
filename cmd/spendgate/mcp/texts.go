package mcp

import (
	"fmt"
	"maps"
	"strings"

	"spendgate/hotpath/policy"
)

// What a model reads: when to call a tool, and what its answer asks.

const checkDescription = `Ask whether a planned movement of money is permitted. Call it BEFORE every refund, credit, discount or payment,
once per action, with exactly the values that will be carried out. The answer is recorded permanently.

Act only if "proceed" is true. What the answer asks of you:
- "allow", "proceed" true: carry out exactly this action, once. Give the payment system the check_id as its idempotency key, if it takes
  one; then call report_outcome.
- "allow", "proceed" false and "replayed" true: an earlier call was answered so, and the action may have been carried out since. Find out
  (next_step); only if it was not, carry it out.
- an "outcome" (executed, failed, voided), whatever the decision: this check is over. Do not carry the action out.
- "redeem_required" true: permitted, but whoever moves the money redeems the check first. Give them the check_id; do not move the money
  yourself.
- "redeemed" true: whoever moves the money took this check to do so. Do not carry the action out; what became of it will be the outcome.
- "block": do not carry it out. Do not split, reword or reroute it to get round the rule; follow next_step and tell whoever asked you why.
- "escalate" without an approval_id: pause. Hand the action to a human and carry it out only if they approve; do not check it again after
  the approval.
- "escalate" with an approval_id: pause. People are asked to approve exactly this action. Pending is not approved: wait with
  wait_for_approval. Once it is approved, call this again with the same values and the approval_id, and carry it out only if that is
  "allow".
An error is no decision: do not carry the action out. If the error says that the outcome is unknown, call again with the same arguments.
The errors frozen and check_stopped, and a block by the rule "freeze", say that people stopped this: do not carry it out, nor what you were
allowed before and have not carried out yet. Tell whoever asked you; do not try another way.

The same action (agent, type, amount, counterparty) twice within minutes is blocked as a duplicate. Once a call was answered, the same call
again without an idempotency_key is a new check; with the same idempotency_key it is the same check.`

const waitDescription = `Wait until people decided about an escalated action: call it with the approval_id that check_financial_action
answered. It returns as soon as they decided, after 50 seconds at most.

What the status asks of you:
- "pending": not approved. Do not carry the action out. Call this again, or do other work and come back before expires_at.
- "approved": not yet allowed. Call check_financial_action with exactly the same values and the approval_id, before use_by; act only on its
  "allow".
- "denied", "expired": do not carry the action out, and do not ask for it in other words. Tell whoever asked you.
- "used": a check was allowed by it already (used_by_check_id). Do not carry the action out a second time.
Waiting permits nothing, and an error is no approval.`

const createDescription = `Store a policy, or the next version of one that exists, with the rules by which actions are judged. It takes
effect at once, for everybody: call it only when a human with authority over the rules asked for exactly this change, never to get an
action of your own allowed. To change a policy, read it with get_policy first, and give the version that you read as replaces. Old versions
are kept. Try the result with simulate_actions.`

const getDescription = `Read a policy and its rules: to find out which limits apply before you plan an action, or why a check was blocked.
Reading permits nothing: ask check_financial_action about the action itself.`

const simulateDescription = `Judge up to 100 actions by a policy without recording anything: to plan, to compare alternatives, or to try a
new policy. A simulated "allow" is no permission: before acting, call check_financial_action. Without an API key it is a demo of up to 10
actions.`

const listDescription = `List checks that were blocked or escalated, newest first: to review what agents were refused and why. ` +
	`All filters are optional.`

const reportDescription = `Report what became of an action that check_financial_action allowed: "executed" when the money moved, "failed"
when it did not, "voided" when it was taken back. Call it once for each allowed check, with its check_id and the truth. If you cannot tell
whether the money moved (a timeout, an error without an answer), find out first: never report a guess as "failed", and do not pay again. It
permits nothing.`

func reportTexts() map[string]string {
	return map[string]string{
		"check_id":        "The check_id of the allowed check, chk_ and 32 digits.",
		"status":          "What became of the action.",
		"amount":          "What was really moved, if executed and another amount than was checked.",
		"reference":       "The payment system's name for it, if there is one.",
		"note":            "Anything that people should know of it.",
		"supersedes":      "Only to correct an earlier report, if you may: the number of the last, which the refusal names.",
		"redemption_id":   "Of a payment: the redemption_id of whoever carried it out, if you know it.",
		"unless_in_doubt": "True refuses the report if the check is in doubt.",
	}
}

func actionTexts() map[string]string {
	return map[string]string{
		"agent_id":           "Your own stable name as an agent, the same on every call, for example support-bot-7.",
		"policy_id":          "The policy to judge by. Use the one you were told to use.",
		"action_type":        "What the action is. If you cannot tell, leave it out and describe the action in reason_text.",
		"amount":             "How much, as an exact decimal number in the currency's main unit, for example 42.50. Not negative.",
		"currency":           "Three letters, ISO 4217, for example USD.",
		"counterparty":       "Who gets the money: the customer, vendor or account identifier, spelt the same every time.",
		"payment_method":     "How it is paid, for example card, ach, wire or crypto. Give it whenever you know it: rules may need it.",
		"merchant_or_vendor": "The merchant or vendor, if it is another than the counterparty.",
		"reason_text":        "Why, in plain words. Required if action_type is left out.",
		"idempotency_key": "Names this one action, for example order-1001-refund. With the same key the same request gets the first answer " +
			"again, for 24 hours. " +
			"If you leave it out, one is made, and kept when you repeat a call that failed.",
		"payment_key": "Names the payment behind the action, for example order-1001-refund, for ever: it is carried out at most once. Give it in " +
			"place of idempotency_key and approval_id; ask again under it for what became of it.",
		"replace":     "With payment_key: true to change the action of a payment that was not carried out.",
		"approval_id": "Only to use an approval: the approval_id of the escalation, once people approved it. All else must be as it was then.",
		"metadata":    "Facts that rules read, and any others. Give those you know, truthfully: a rule may block an action that lacks them.",
	}
}

func metadataTexts() map[string]string {
	return map[string]string{
		"days_since_purchase": "For refunds: whole days since the purchase.",
		"discount_percent":    "For discounts: the percentage, for example 12.5.",
		"country":             "The counterparty's country, two letters.",
		"category":            "What is bought, for example travel.",
	}
}

func simulationTexts() map[string]string {
	texts := actionTexts()
	texts["policy_id"] = "The policy to judge all the actions by."
	texts["actions"] = "The actions, 1 to 100, judged in this order."
	return texts
}

func policyTexts() map[string]string {
	return map[string]string{
		"policy_id":             "The policy's name, letters, digits and . _ : -; an existing one gets a new version. Made up if left out.",
		"name":                  "A title for people.",
		"description":           "What it is for, for people.",
		"rules":                 "All the rules, in order. A new version has only the rules given here.",
		"rule_id":               "The rule's name, unique within the policy.",
		"rule_type":             "What kind of rule. All block, but for escalate_if, and budget where it says so.",
		"metadata":              "Anything else to keep with the policy.",
		"version":               "A certain version, from 1. The latest if left out.",
		"redeem":                "required where only what was redeemed may be reported as executed.",
		"redeem_within_minutes": "How old a check may be when it is redeemed: 15 unless given.",
		"changes":               "Whom a later version needs: people who approve it before it is in force.",
		"required":              "How many people.",
		"from":                  "The groups that they are of.",
		"group":                 "Its name.",
		"any_of":                "Names of groups of which anybody counts, in place of group.",
		"note":                  "Why, for people who read the versions. No part of the policy.",
		"replaces": "The version that you read and changed: nothing is stored if another is in force. 0: only if " +
			"there is no such policy.",
		"parameters": parametersText(),
		"when":       conditionsText(),
	}
}

// parametersText describes the parameters of each rule type, by an example and one by one; parameters
// that several types share are described once.
func parametersText() string {
	var b strings.Builder
	b.WriteString("By rule_type:")
	explained := map[string]bool{}
	for _, r := range policy.RuleTypes() {
		fmt.Fprintf(&b, "\n%s %s", r.Name, r.Example())
		var again []string
		for _, p := range r.Parameters {
			if explained[p.Text] {
				again = append(again, p.Name)
				continue
			}
			explained[p.Text] = true
			writeParameter(&b, &p)
		}
		if again != nil {
			b.WriteString("\n- " + strings.Join(again, ", ") + ": as above")
		}
	}
	return b.String()
}

func writeParameter(b *strings.Builder, p *policy.Parameter) {
	b.WriteString("\n- " + p.Name)
	if p.Required {
		b.WriteString(", required")
	}
	if p.Max > 0 {
		fmt.Fprintf(b, ", %d to %d", p.Min, p.Max)
	}
	if p.Names != nil {
		b.WriteString(", of " + strings.Join(p.Names, " "))
	}
	b.WriteString(": " + p.Text)
}

// conditionsText describes the members of when.
func conditionsText() string {
	var b strings.Builder
	b.WriteString("When the policy has the rule: all of these must match. Lists of")
	for _, p := range policy.Conditions() {
		writeParameter(&b, &p)
	}
	return b.String()
}

func listTexts() map[string]string {
	return map[string]string{
		"agent_id":    "Only of this agent.",
		"policy_id":   "Only of this policy.",
		"action_type": "Only of this type.",
		"decision":    "Only blocked, or only escalated ones.",
		"from":        "From this time on, RFC 3339 (2026-01-31T12:00:00Z), or from the start of this UTC day (2026-01-31).",
		"to":          "Up to this time, or to the end of this UTC day.",
		"amount_from": "From this amount on, in whatever currency.",
		"amount_to":   "Up to this amount, in whatever currency.",
		"limit":       "How many at most, 1 to 100. 20 if left out.",
		"cursor":      "For the next page: next_cursor of the page before, with the same filters.",
	}
}

func waitTexts() map[string]string {
	return map[string]string{
		"approval_id":  "The approval to wait for: apr_ and so on, as check_financial_action answered.",
		"wait_seconds": "How long to wait at most, 0 to 50. 50 if left out. Less, if your calls of tools are given up earlier.",
	}
}

func outputTexts() map[string]string {
	texts := map[string]string{
		"check_id": "Names the check in the record.",
		"decision": "allow, block or escalate.",
		"confidence": "How sure the premises are: low or medium when the action type was taken from reason_text or facts were " +
			"missing.",
		"reason_code":               "A label for the reason. Null on allow.",
		"message":                   "What was found, with figures.",
		"violated_rule_id":          "The rule that fired. Null on allow.",
		"violated_rule_description": "What that rule is for.",
		"policy_version":            "The version of the policy that judged.",
		"next_step":                 "What to do now.",
		"latency_ms":                "How long the decision took, in milliseconds.",
		"payment":                   "What became of the payment of payment_key. Null without one.",
		"payment_key":               "Names the payment.",
		"state":                     "free, denied, escalated, waiting, open, redeemed, in_doubt, releasing or executed.",
		"attempt":                   "Counts the payment's attempts.",
		"proceed":                   "Whether whoever asked carries the payment out now.",
		"nonce":                     "By what. Null unless proceed is true.",
		"execution_id":              "The payment provider's idempotency key. Null before somebody redeemed the check.",
		"redemption_id":             "Names the redemption.",
		"redeemed_at":               "When it was redeemed, UTC.",
		"outcome":                   "executed, failed or voided. Null before a report.",
		"approval":                  "The approval that it waits for. Null without one.",
		"timestamp":                 "When it was decided, UTC.",
		"mode":                      "demo without an API key, else simulation.",
		"policy_id":                 "The policy.",
		"results":                   "What would be decided, one per action, in their order.",
		"summary":                   "The results, counted.",
		"total":                     "All actions.",
		"allowed":                   "How many would be allowed.",
		"blocked":                   "How many would be blocked.",
		"escalated":                 "How many would be escalated.",
		"name":                      "Its title; of a person, what the sign-in provider calls them.",
		"description":               "What it is for.",
		"version":                   "Its version, from 1.",
		"rules":                     "Its rules, in order.",
		"rule_id":                   "The rule's name.",
		"rule_type":                 "The kind of rule.",
		"parameters":                "The rule's figures and lists.",
		"when":                      "What must match for the policy to have the rule.",
		"created_at":                "When the first version was stored, UTC.",
		"redeem":                    "required where only what was redeemed may be reported as executed.",
		"redeem_within_minutes":     "How old a check may be when it is redeemed: 15 unless given.",
		"changes":                   "Whom the next version needs: people who approve it before it is in force.",
		"updated_at":                "When this version was stored, UTC.",
		"metadata":                  "What was kept with it. Null if nothing was.",
		"data":                      "The violations, newest first.",
		"pagination":                "Where this page stands.",
		"next_cursor":               "The cursor for the next page. Null on the last.",
		"has_more":                  "Whether there is another page.",
		"total_count":               "How many violations there are in all for these filters.",
		"violation_id":              "Names the violation.",
		"agent_id":                  "The agent that asked.",
		"action_type":               "What the action was.",
		"amount":                    "How much.",
		"currency":                  "Three letters.",
		"counterparty":              "Who would have got the money.",

		"reference": "The payment system's name for it. Null if none was given.",
		"release":   "none: there is nothing to give back. pending: a system that may release has to report, too. done: given back.",
		"flags": "exceeded or exceeded_pending if more was moved than was allowed; " +
			"unapproved if the check was escalated and approved elsewhere.",
	}
	maps.Copy(texts, approvalTexts())
	return texts
}

// approvalTexts returns the descriptions of an approval's members.
func approvalTexts() map[string]string {
	return map[string]string{
		"approval_id":        "Of an escalation that people are asked to approve, for wait_for_approval. Pending is not approved.",
		"status":             "pending: not approved. approved: check again with approval_id. denied, expired, used: do not act.",
		"action":             "The action that it is for, and no other.",
		"principal":          "Who asked.",
		"payment_method":     "How it is paid.",
		"merchant_or_vendor": "The merchant or vendor.",
		"reason_text":        "Why, in words.",
		"idempotency_key":    "The key that the check was asked with.",
		"action_hash":        "The hash of the action.",
		"rule_ids":           "The rules that escalated it.",
		"required":           "How many people have to approve.",
		"from":               "The groups whose people have to approve.",
		"group":              "Its name.",
		"any_of":             "Names of groups of which anybody counts, in place of group.",
		"kind":               "approval.",
		"groups":             "The groups of who decided, as of then.",
		"missing":            "How many are missing.",
		"exclude_author":     "Who wrote the version of the policy decides nothing.",
		"decisions":          "What people decided so far.",
		"key_id":             "The API key or session it was decided with.",
		"email":              "Of who signed in, as the provider says.",
		"note":               "What they noted.",
		"at":                 "When, UTC.",
		"expires_at":         "Until when it can be approved.",
		"use_by":             "Until when it can be used. Null before it is approved.",
		"used_by_check_id":   "The check that was allowed by it.",
		"remaining":          "What the budgets that apply have left; null is no such limit.",
		"remaining_count":    "How many actions are left.",

		"remaining_after_approved":       "What is left once other actions that people approved were carried out.",
		"remaining_count_after_approved": "How many actions are left then.",
	}
}

// checkedTexts returns the descriptions that differ for the answer of a check.
func checkedTexts() map[string]string {
	return map[string]string{
		"proceed": "true: carry out exactly this action, once. false: do not, or, if next_step says so, not before you found " +
			"out whether that was done.",
		"outcome": "What was reported of this check: executed, failed or voided; " +
			"unknown if that cannot be understood. Null if nothing was.",
		"redeemed": "Whether somebody redeemed the check to carry the action out. It is not to be carried out by anybody else.",
		"redeem_required": "true: the action is permitted, and whoever moves the money redeems the check first, by its check_id. " +
			"Do not move the money without that.",
		"release_pending": "Whether what it took from budgets is still taken, although it was reported.",
		"replayed":        "Whether an earlier call was answered so: the action may have been carried out since.",
		"decision":        "allow: permitted. block: refused. escalate: a human decides. proceed says whether to act.",
	}
}

// simulatedTexts returns the descriptions that differ for a simulated result.
func simulatedTexts() map[string]string {
	return map[string]string{
		"check_id":  "Of this simulation only: it is in no record.",
		"decision":  "What a check would decide. It permits nothing: before acting, call check_financial_action.",
		"next_step": "The next step of such a check; a simulation requires none.",
		"timestamp": "When it was simulated, UTC.",
	}
}

// violationTexts returns the descriptions that differ for a listed violation.
func violationTexts() map[string]string {
	return map[string]string{
		"decision":         "block: it was refused. escalate: it was left to a human.",
		"violated_rule_id": "The rule that fired.",
	}
}
