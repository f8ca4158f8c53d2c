package httpapi

import (
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/wire"
)

// EventEncoder returns what writes an event (S51), with links to the console at that address; empty for none.
func EventEncoder(console string) func(dst []byte, e *audit.Event) []byte {
	return func(dst []byte, e *audit.Event) []byte {
		shown := eventOf(e, false, console)
		return wire.Append(dst, &shown, false)
	}
}

func eventOf(e *audit.Event, textAmounts bool, console string) wire.Event {
	data := eventData(e, textAmounts)
	if place := consolePlace(e); console != "" && place != "" {
		link, _ := json.Marshal(console + "/#/" + place) // a text is always encoded
		data = append(append(append(data[:len(data)-1], `,"console_url":`...), link...), '}')
	}
	return wire.Event{
		ID: e.ID.Text(spend.PrefixEvent), Type: string(e.Type), Timestamp: wire.Timestamp{Time: e.At}, Sequence: e.Sequence, Data: data,
	}
}

// consolePlace returns where the console shows what an event is about; empty if the caller is not told what that is.
func consolePlace(e *audit.Event) string {
	switch {
	case e.Approval != nil:
		return "approvals/" + e.Approval.ID.Text(spend.PrefixApproval)
	case e.Violation != nil:
		return "checks/" + e.Violation.ID.Text(spend.PrefixCheck)
	case e.Outcome != nil:
		return "checks/" + e.Outcome.CheckID.Text(spend.PrefixCheck)
	case e.Exhaustion != nil:
		return "budgets?" + url.Values{"policy_id": {e.Exhaustion.PolicyID}}.Encode()
	case e.Type == audit.EventKeyChanged, e.Type == audit.EventKeyExpiring:
		return "keys"
	case e.Change == nil:
		return ""
	case e.Change.Kind == audit.DraftPut, e.Change.Kind == audit.DraftApproved, e.Change.Kind == audit.DraftRejected:
		return "policies/" + url.PathEscape(e.Change.Subject) + "/draft"
	}
	return "policies/" + url.PathEscape(e.Change.Subject) + "?version=" + strconv.Itoa(e.Change.Version)
}

// eventData returns the member data of an event.
func eventData(e *audit.Event, textAmounts bool) json.RawMessage {
	scope := wire.EventScope{PolicyID: e.PolicyID, AgentID: e.AgentID}
	switch {
	case e.Violation != nil:
		shown := violationOf(e.Violation)
		return wire.Append(nil, &shown, textAmounts)
	case e.Approval != nil:
		return wire.Append(nil, approvalEvent(e, scope), textAmounts)
	case (e.Type == audit.EventCheckRedeemed || e.Type == audit.EventCheckTakenOver) && e.Outcome != nil:
		return wire.Append(nil, &wire.RedemptionEvent{Redeemed: redeemedOf(e.Outcome), EventScope: scope}, textAmounts)
	case e.Type == audit.EventCheckInDoubt && e.Outcome != nil:
		return wire.Append(nil, doubtOf(e.Outcome, scope), textAmounts)
	case e.Outcome != nil:
		return wire.Append(nil, &wire.OutcomeEvent{Outcome: *outcomeOf(e.Outcome), EventScope: scope}, textAmounts)
	case e.Exhaustion != nil:
		return wire.Append(nil, exhaustionOf(e.Exhaustion), textAmounts)
	case e.Change != nil:
		return changeData(e.Change)
	default:
		return wire.Append(nil, &scope, textAmounts)
	}
}

// doubtOf says that a check is in doubt, and who said so: nobody if it was the service.
func doubtOf(said *spend.Outcome, scope wire.EventScope) *wire.DoubtEvent {
	shown := &wire.DoubtEvent{
		CheckID: said.CheckID.Text(spend.PrefixCheck), At: wire.Timestamp{Time: said.ID.Time()}, Note: said.Note, EventScope: scope,
	}
	if said.KeyID != spend.SystemKey {
		shown.Principal, shown.KeyID = said.Reporter(), said.KeyID
	}
	return shown
}

func approvalEvent(e *audit.Event, scope wire.EventScope) *wire.ApprovalEvent {
	a := e.Approval
	shown := &wire.ApprovalEvent{
		ApprovalID: a.ID.Text(spend.PrefixApproval), CheckID: a.ID.Text(spend.PrefixCheck), EventScope: scope,
		ActionHash: hex.EncodeToString(a.ActionHash[:]), Required: a.Required, ExpiresAt: wire.Timestamp{Time: a.ExpiresAt},
	}
	if a.Check != nil {
		asked := a.Check.Approval
		shown.Action, shown.RuleIDs, shown.ExcludeAuthor = new(actionOf(a.Check)), ruleIDs(asked.Rules), asked.ExcludeAuthor
		for _, g := range asked.From {
			shown.From = append(shown.From, wire.GroupRequired{Group: g.Group, AnyOf: g.AnyOf, Required: g.Required})
		}
	}
	if a.Decision != nil {
		shown.Decision = decisionOf(a.Decision)
	}
	if e.Type == audit.EventApprovalApproved {
		shown.UseBy = &wire.Timestamp{Time: a.UseBy()}
	}
	if !a.UsedBy.IsZero() {
		shown.UsedByCheckID = a.UsedBy.Text(spend.PrefixCheck)
	}
	return shown
}

func exhaustionOf(e *audit.Exhaustion) *wire.ExhaustionEvent {
	shown := &wire.ExhaustionEvent{
		PolicyID: e.PolicyID, RuleID: e.RuleID, Currency: e.Currency, Limit: known(e.Limited, e.Limit),
		MaxCount: known(e.Counted, e.MaxCount), BudgetWindow: windowOf(e.WindowName, e.TimeZone, e.RollingMinutes),
		WindowStart: wire.Timestamp{Time: e.WindowStart},
	}
	if e.Percent < spend.Exhausted {
		shown.Percent = e.Percent
	}
	if !e.Veiled {
		shown.Per, shown.Used, shown.Count = appendPer(e.Per, e.Values), &e.Usage.Used, &e.Usage.Count
	}
	return shown
}

// changeData says what changed of a policy, a freeze, a grant or a key, and who changed it.
func changeData(c *audit.Change) json.RawMessage {
	by := wire.ChangedBy{Kind: c.By.Kind(), KeyID: c.By.KeyID, Principal: c.By.Principal, Credential: c.By.Credential}
	switch c.Kind {
	case audit.PolicyCreated, audit.PolicyForced:
		return wire.Append(nil, &wire.VersionEvent{PolicyID: c.Subject, Version: c.Version, By: by}, false)
	case audit.DraftPut, audit.DraftApproved, audit.DraftRejected:
		d, _ := audit.DraftDecisionOf(c) // a record that cannot be read has no note
		return wire.Append(nil, &wire.DraftEvent{
			PolicyID: c.Subject, DraftHash: hex.EncodeToString(c.Hash[:]), PolicyVersion: c.Version, Note: d.Note, By: by,
		}, false)
	case audit.FreezeCreated, audit.FreezeReleaseApproved, audit.FreezeIsReleased, audit.FreezeForced, audit.FreezeEnded:
		f, _ := audit.FreezeOf(c) // a record that cannot be read has no scope
		shown := &wire.FreezeEvent{FreezeID: c.Subject, Scope: scopeOf(f.Scope), Reason: f.Reason, By: by}
		if !f.Until.IsZero() {
			shown.Until = &wire.Timestamp{Time: f.Until}
		}
		return wire.Append(nil, shown, false)
	case audit.GrantCreated, audit.GrantApproved, audit.GrantRevoked:
		return wire.Append(nil, grantEventOf(c, by), false)
	default:
		return wire.Append(nil, &wire.KeyEvent{
			KeyID: c.Subject, Created: c.Kind == audit.KeyCreated, Key: wire.Text(c.Details), By: by,
		}, false)
	}
}
