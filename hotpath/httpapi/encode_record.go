package httpapi

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/wire"
)

// known returns nil for a value that is not known.
func known[T any](is bool, value T) *T {
	if !is {
		return nil
	}
	return &value
}

// given returns nil for an empty list, which is left out.
func given(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	return values
}

// policyOf returns a policy as it is shown. Its rules and its metadata are the text that was sent.
func policyOf(p *audit.Policy) wire.Policy {
	return wire.Policy{
		PolicyID: p.PolicyID, Name: p.Name, Description: p.Description, Version: p.Version, Rules: wire.Text(p.Rules),
		Terms: termsOf(p.Redeem, p.Changes), CreatedAt: wire.Timestamp{Time: p.CreatedAt}, UpdatedAt: wire.Timestamp{Time: p.UpdatedAt},
		Metadata: wire.Text(p.Metadata),
	}
}

func termsOf(redeem spend.RedeemTerms, changes string) wire.Terms {
	terms := wire.Terms{RedeemWithinMinutes: redeem.WithinMinutes, Changes: wire.Text(changes)}
	if redeem.Required {
		terms.Redeem = "required"
	}
	return terms
}

// versionOf returns a policy with the author of the version and the note (S65).
func versionOf(p *audit.Policy) wire.PolicyVersion {
	made := wire.VersionMade{Author: authorOf(p.Author), DraftedBy: authorOf(p.Drafter), Note: p.Note}
	if made.DraftedBy != nil {
		made.ApprovedBy, made.Forced = make([]wire.DraftDecision, len(p.ApprovedBy)), &p.Forced
		for i := range p.ApprovedBy {
			made.ApprovedBy[i] = draftDecisionOf(&p.ApprovedBy[i])
		}
	}
	return wire.PolicyVersion{Policy: policyOf(p), VersionMade: made}
}

// authorOf returns the author of a version or a draft; nil without an API key.
func authorOf(by audit.Actor) *wire.PolicyAuthor {
	return known(by.KeyID != "", wire.PolicyAuthor{Principal: by.Principal, KeyID: by.KeyID})
}

func violationOf(v *audit.Violation) wire.Violation {
	return wire.Violation{
		ViolationID: wire.ID{ID: v.ID, Prefix: spend.PrefixViolation}, CheckID: wire.ID{ID: v.ID, Prefix: spend.PrefixCheck},
		AgentID: v.AgentID, PolicyID: v.PolicyID, PolicyVersion: v.PolicyVersion, ActionType: wire.ActionType(v.ActionType.String()),
		Amount: v.Amount, Currency: v.Currency, Counterparty: v.Counterparty, Decision: wire.DecisionOf(v.Effect),
		ViolatedRuleID: v.RuleID, ViolatedRuleDescription: v.RuleDescription, Confidence: v.Confidence.String(), LatencyMS: v.LatencyMS,
		Timestamp: wire.Timestamp{Time: v.ID.Time()},
	}
}

// newKeyOf returns the one answer that shows a raw key.
func newKeyOf(k *audit.Key, raw string) wire.NewKey {
	return wire.NewKey{
		KeyID: k.ID.Text(spend.PrefixKey), Name: k.Name, APIKey: raw, RateLimitRPM: k.RateLimitRPM,
		CreatedAt: wire.Timestamp{Time: k.CreatedAt}, Grants: grantsOf(&k.Grants),
	}
}

// keyOf returns a key's record (S25).
func keyOf(k *audit.Key) wire.Key {
	return wire.Key{
		KeyID: k.ID.Text(spend.PrefixKey), Name: k.Name, RateLimitRPM: k.RateLimitRPM, Active: k.Active,
		CreatedAt: wire.Timestamp{Time: k.CreatedAt}, LastUsedAt: wire.At(k.LastUsedAt), Grants: grantsOf(&k.Grants),
	}
}

// grantsOf returns the members that were given (S29).
func grantsOf(g *spend.Grants) wire.Grants {
	return wire.Grants{
		Role: string(g.Role), Scopes: given(g.Scopes.Names()), PolicyIDs: given(g.PolicyIDs), AgentIDs: given(g.AgentIDs),
		Principal: g.Principal, Owner: g.Owner, Groups: given(g.Groups), ExpiresAt: wire.At(g.ExpiresAt),
	}
}

// budgetOf returns a counter of a policy's budget.
func budgetOf(policyID string, c *hotpath.BudgetCounter, asOf time.Time) wire.Budget {
	left, ok := c.Limit.Total().Plus(c.Granted.Used).Minus(c.Used)
	if !ok { // lifted, or the limit was lowered
		left = spend.Total{}
	}
	return wire.Budget{
		PolicyID: policyID, RuleID: c.RuleID, Per: appendPer(c.Per, c.Values), Currency: c.Currency, Limit: known(c.Limited, c.Limit),
		Used: c.Used, Granted: known(c.Limited, c.Granted.Used), Remaining: known(c.Limited, left),
		Count: c.Count, MaxCount: known(c.Counted, c.MaxCount),
		GrantedCount:   known(c.Counted, c.Granted.Count),
		RemainingCount: known(c.Counted, max(c.MaxCount+c.Granted.Count-c.Count, 0)),
		BudgetWindow:   windowOf(c.WindowName, c.TimeZone, c.RollingMinutes),
		WindowStart:    wire.Timestamp{Time: c.WindowStart}, ResetsAt: wire.At(c.ResetsAt), CountingSince: wire.Timestamp{Time: c.Since.At},
		AsOf: wire.Timestamp{Time: asOf},
	}
}

// appendPer returns for whom a counter counts, in the order of the rule's per.
func appendPer(names []string, values []jsontext.Value) []byte {
	per := []byte{'{'}
	for i, value := range values {
		per = append(wire.AppendString(between(per), names[i]), ':')
		per = append(per, value...)
	}
	return append(per, '}')
}

func windowOf(name, zone string, rollingMinutes int64) wire.BudgetWindow {
	if rollingMinutes > 0 {
		return wire.BudgetWindow{RollingMinutes: rollingMinutes}
	}
	return wire.BudgetWindow{Window: name, TimeZone: zone}
}

// webhookOf returns a webhook, with its secret if it is new.
func webhookOf(w *audit.Webhook, secret audit.Secret) wire.Webhook {
	types := make([]string, len(w.EventTypes))
	for i, t := range w.EventTypes {
		types[i] = string(t)
	}
	return wire.Webhook{
		WebhookID: w.ID.Text(spend.PrefixWebhook), URL: w.URL, Secret: string(secret), EventTypes: types, Status: w.Status(),
		CreatedAt: wire.Timestamp{Time: w.CreatedAt},
	}
}

// shownWebhook is webhookOf one whose secret was shown before.
func shownWebhook(w *audit.Webhook) wire.Webhook { return webhookOf(w, "") }

// deliveryOf returns an attempt.
func deliveryOf(d *audit.Delivery) wire.Delivery {
	return wire.Delivery{
		DeliveryID: d.ID.Text(spend.PrefixDelivery), WebhookID: d.WebhookID.Text(spend.PrefixWebhook),
		EventID: d.EventID.Text(spend.PrefixEvent), EventType: string(d.EventType), Sequence: d.Sequence, Attempt: d.Attempt,
		Timestamp: wire.Timestamp{Time: d.ID.Time()}, DurationMS: d.Duration.Milliseconds(), Delivered: d.Error == "",
		StatusCode: d.StatusCode, Error: d.Error, NextAttemptAt: wire.At(d.NextAt),
	}
}
