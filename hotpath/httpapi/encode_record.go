package httpapi

import (
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// appendPolicy writes a policy. Its rules and its metadata are the text that was
// sent.
func appendPolicy(dst []byte, p *audit.Policy) []byte {
	o := policyObject(dst, p)
	return o.end()
}

// appendVersion writes a policy with the author of the version and the note (S65).
func appendVersion(dst []byte, p *audit.Policy) []byte {
	o := policyObject(dst, p)
	o = appendAuthor(o, "author", p.Author)
	if p.Drafter.KeyID != "" {
		o = appendAuthor(o, "drafted_by", p.Drafter)
	}
	o.optional("note", p.Note)
	return o.end()
}

// appendAuthor adds the author of a version or a draft; null without an API key.
func appendAuthor(o objectWriter, name string, by audit.Actor) objectWriter {
	if by.KeyID == "" {
		o.null(name)
		return o
	}
	o.name(name)
	author := newObject(o)
	author.text("principal", by.Principal)
	author.text("key_id", by.KeyID)
	return author.end()
}

func appendRedeem(o *objectWriter, terms spend.RedeemTerms) {
	if terms.Required {
		o.text("redeem", "required")
	}
	if terms.WithinMinutes > 0 {
		o.integer("redeem_within_minutes", int64(terms.WithinMinutes))
	}
}

// changes writes the approvals that a policy requires for its next version.
func (o *objectWriter) changes(text string) {
	if text != "" {
		o.raw("changes", text)
	}
}

func policyObject(dst []byte, p *audit.Policy) objectWriter {
	o := newObject(dst)
	o.text("policy_id", p.PolicyID)
	o.text("name", p.Name)
	o.given("description", p.Description)
	o.integer("version", int64(p.Version))
	o.raw("rules", p.Rules)
	appendRedeem(&o, p.Redeem)
	o.changes(p.Changes)
	o.time("created_at", p.CreatedAt)
	o.time("updated_at", p.UpdatedAt)
	o.raw("metadata", p.Metadata)
	return o
}

// appendViolation writes a violation.
func appendViolation(dst []byte, v *audit.Violation, textAmounts bool) []byte {
	o := newObject(dst)
	o.id("violation_id", v.ID, spend.PrefixViolation)
	o.id("check_id", v.ID, spend.PrefixCheck)
	o.text("agent_id", v.AgentID)
	o.text("policy_id", v.PolicyID)
	o.integer("policy_version", int64(v.PolicyVersion))
	o.text("action_type", v.ActionType.String())
	o.amount(true, v.Amount, textAmounts)
	o.text("currency", v.Currency)
	o.text("counterparty", v.Counterparty)
	o.text("decision", v.Effect.String())
	o.text("violated_rule_id", v.RuleID)
	o.text("violated_rule_description", v.RuleDescription)
	o.text("confidence", v.Confidence.String())
	o.integer("latency_ms", v.LatencyMS)
	o.time("timestamp", v.ID.Time())
	return o.end()
}

// appendNewKey writes the one answer that shows a raw key.
func appendNewKey(dst []byte, k *audit.Key, raw string) []byte {
	o := newObject(dst)
	o.id("key_id", k.ID, spend.PrefixKey)
	o.text("name", k.Name)
	o.text("api_key", raw)
	o.integer("rate_limit_rpm", int64(k.RateLimitRPM))
	o.time("created_at", k.CreatedAt)
	o.grants(&k.Grants)
	return o.end()
}

// appendKey writes a key's record (S25).
func appendKey(dst []byte, k *audit.Key) []byte {
	o := newObject(dst)
	o.id("key_id", k.ID, spend.PrefixKey)
	o.text("name", k.Name)
	o.integer("rate_limit_rpm", int64(k.RateLimitRPM))
	o.boolean("active", k.Active)
	o.time("created_at", k.CreatedAt)
	o.optionalTime("last_used_at", k.LastUsedAt)
	o.grants(&k.Grants)
	return o.end()
}

// grants writes the members that were given (S29).
func (o *objectWriter) grants(g *spend.Grants) {
	lists := func(name string, values []string) {
		if len(values) > 0 {
			o.texts(name, values)
		}
	}
	o.given(spend.MemberRole, string(g.Role))
	lists(spend.MemberScopes, g.Scopes.Names())
	lists(spend.MemberPolicyIDs, g.PolicyIDs)
	lists(spend.MemberAgentIDs, g.AgentIDs)
	o.given(spend.MemberPrincipal, g.Principal)
	o.given(spend.MemberOwner, g.Owner)
	lists(spend.MemberGroups, g.Groups)
	if !g.ExpiresAt.IsZero() {
		o.time(spend.MemberExpiresAt, g.ExpiresAt)
	}
}

// appendBudget writes a counter of a policy's budget.
func appendBudget(dst []byte, policyID string, c *hotpath.BudgetCounter, asOf time.Time) []byte {
	left, ok := c.Limit.Total().Minus(c.Used)
	if !ok { // lifted, or the limit was lowered
		left = spend.Total{}
	}
	o := newObject(dst)
	o.text("policy_id", policyID)
	o.text("rule_id", c.RuleID)
	o.per(c.Per, c.Values)
	o.optional("currency", c.Currency)
	sum(&o, "limit", c.Limited, c.Limit)
	sum(&o, "used", true, c.Used)
	sum(&o, "remaining", c.Limited, left)
	o.integer("count", c.Count)
	o.count("max_count", c.Counted, c.MaxCount)
	o.count("remaining_count", c.Counted, max(c.MaxCount-c.Count, 0))
	o.window(c.WindowName, c.TimeZone, c.RollingMinutes)
	o.time("window_start", c.WindowStart)
	o.optionalTime("resets_at", c.ResetsAt)
	o.time("counting_since", c.Since.At)
	o.time("as_of", asOf)
	return o.end()
}

// per writes for whom a counter counts, by the names of the rule's per.
func (o *objectWriter) per(names, values []string) {
	o.name("per")
	per := newObject(*o)
	for i, value := range values {
		per.text(names[i], value)
	}
	*o = per.end()
}

// window writes the members that name a budget's window.
func (o *objectWriter) window(name, zone string, rollingMinutes int64) {
	if rollingMinutes > 0 {
		o.null("window")
		o.integer("rolling_minutes", rollingMinutes)
		return
	}
	o.text("window", name)
	o.text("time_zone", zone)
}

// appendWebhook writes a webhook, with its secret if it is new.
func appendWebhook(dst []byte, w *audit.Webhook, secret audit.Secret) []byte {
	o := newObject(dst)
	o.id("webhook_id", w.ID, spend.PrefixWebhook)
	o.text("url", w.URL)
	o.given("secret", string(secret))
	o.raw("event_types", audit.EventTypesText(w.EventTypes))
	o.text("status", w.Status())
	o.time("created_at", w.CreatedAt)
	return o.end()
}

// appendDelivery writes an attempt.
func appendDelivery(dst []byte, d *audit.Delivery) []byte {
	o := newObject(dst)
	o.id("delivery_id", d.ID, spend.PrefixDelivery)
	o.id("webhook_id", d.WebhookID, spend.PrefixWebhook)
	o.id("event_id", d.EventID, spend.PrefixEvent)
	o.text("event_type", string(d.EventType))
	o.integer("sequence", d.Sequence)
	o.integer("attempt", int64(d.Attempt))
	o.time("timestamp", d.ID.Time())
	o.integer("duration_ms", d.Duration.Milliseconds())
	o.boolean("delivered", d.Error == "")
	o.count("status_code", d.StatusCode != 0, int64(d.StatusCode))
	o.optional("error", d.Error)
	o.optionalTime("next_attempt_at", d.NextAt)
	return o.end()
}
