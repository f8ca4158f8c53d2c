package audit

import (
	"slices"

	"spendgate/audit/spend"
)

// EventType is the type of an event.
type EventType string

// The types of events.
const (
	EventViolationRecorded     EventType = "violation.recorded"
	EventApprovalRequested     EventType = "approval.requested"
	EventApprovalDecided       EventType = "approval.decided" // every decision of a person
	EventApprovalApproved      EventType = "approval.approved"
	EventApprovalDenied        EventType = "approval.denied"
	EventApprovalReopened      EventType = "approval.reopened"
	EventApprovalExpired       EventType = "approval.expired"
	EventApprovalWithdrawn     EventType = "approval.withdrawn"
	EventApprovalUsed          EventType = "approval.used"
	EventOutcomeReported       EventType = "outcome.reported"
	EventOutcomeReleasePending EventType = "outcome.release_pending"
	EventOutcomeExceeded       EventType = "outcome.exceeded"
	EventBudgetExhausted       EventType = "budget.exhausted"
	EventBudgetThreshold       EventType = "budget.threshold"
	EventPolicyCreated         EventType = "policy.created"
	EventPolicyForced          EventType = "policy.forced"
	EventDraftSubmitted        EventType = "policy.draft_submitted" // a draft that people are asked about
	EventDraftApproved         EventType = "policy.draft_approved"
	EventDraftRejected         EventType = "policy.draft_rejected"
	EventKeyChanged            EventType = "key.changed" // or created
	EventCheckRedeemed         EventType = "check.redeemed"
	EventCheckInDoubt          EventType = "check.in_doubt"
	EventCheckTakenOver        EventType = "check.taken_over"
	EventPaymentPaidTwice      EventType = "payment.paid_twice"
	EventFreezeCreated         EventType = "freeze.created"
	EventFreezeReleaseApproved EventType = "freeze.release_approved"
	EventFreezeReleased        EventType = "freeze.released"
	EventFreezeForced          EventType = "freeze.forced"
	EventFreezeEnded           EventType = "freeze.ended"
	EventGrantCreated          EventType = "grant.created"
	EventGrantApproved         EventType = "grant.approved"
	EventGrantRevoked          EventType = "grant.revoked"
)

// EventSource is a kind of rows that events are about.
type EventSource int

// The sources of events.
const (
	SourceViolation EventSource = iota
	SourceApproval
	SourceUse // of an approval, by the approval's ID
	SourceOutcome
	SourceExhaustion
	SourceChange // by the change's number: see ChangeSource

	eventSourceKinds int = iota
)

// eventType describes a type of events.
type eventType struct {
	name   EventType
	letter byte // names it in rows of PostgreSQL
	source EventSource
	// complete adds to an event its source, as of the event. It is not ok if the source is missing.
	complete func(s *eventSources, e *Event, source spend.ID) (ok bool)
}

// eventTypes has all there are, in the interface's order.
var eventTypes = [...]eventType{
	{EventViolationRecorded, 'v', SourceViolation, (*eventSources).violation},
	{EventApprovalRequested, 'r', SourceApproval, (*eventSources).request},
	{EventApprovalDecided, 'i', SourceChange, (*eventSources).decision},
	{EventApprovalApproved, 'a', SourceChange, (*eventSources).decision},
	{EventApprovalDenied, 'd', SourceChange, (*eventSources).decision},
	{EventApprovalReopened, 'R', SourceChange, (*eventSources).reopening},
	{EventApprovalExpired, 'e', SourceChange, (*eventSources).expiry},
	{EventApprovalWithdrawn, 'w', SourceChange, (*eventSources).expiry},
	{EventApprovalUsed, 'u', SourceUse, (*eventSources).use},
	{EventOutcomeReported, 'o', SourceOutcome, (*eventSources).outcome},
	{EventOutcomeReleasePending, 'p', SourceOutcome, (*eventSources).outcome},
	{EventOutcomeExceeded, 'x', SourceOutcome, (*eventSources).outcome},
	{EventBudgetExhausted, 'b', SourceExhaustion, (*eventSources).exhaustion},
	{EventBudgetThreshold, 'B', SourceExhaustion, (*eventSources).exhaustion},
	{EventPolicyCreated, 'c', SourceChange, (*eventSources).change},
	{EventPolicyForced, 'f', SourceChange, (*eventSources).change},
	{EventDraftSubmitted, 'j', SourceChange, (*eventSources).change},
	{EventDraftApproved, 'g', SourceChange, (*eventSources).change},
	{EventDraftRejected, 'q', SourceChange, (*eventSources).change},
	{EventKeyChanged, 'k', SourceChange, (*eventSources).change},
	{EventCheckRedeemed, 'm', SourceOutcome, (*eventSources).outcome},
	{EventCheckInDoubt, 'n', SourceOutcome, (*eventSources).outcome},
	{EventCheckTakenOver, 't', SourceOutcome, (*eventSources).outcome},
	{EventPaymentPaidTwice, 's', SourceOutcome, (*eventSources).outcome},
	{EventFreezeCreated, 'h', SourceChange, (*eventSources).change},
	{EventFreezeReleaseApproved, 'z', SourceChange, (*eventSources).change},
	{EventFreezeReleased, 'l', SourceChange, (*eventSources).change},
	{EventFreezeForced, 'F', SourceChange, (*eventSources).change},
	{EventFreezeEnded, 'y', SourceChange, (*eventSources).change},
	{EventGrantCreated, 'G', SourceChange, (*eventSources).change},
	{EventGrantApproved, 'A', SourceChange, (*eventSources).change},
	{EventGrantRevoked, 'X', SourceChange, (*eventSources).change},
}

// EventTypes returns all there are, in the interface's order.
func EventTypes() []EventType {
	names := make([]EventType, len(eventTypes))
	for i := range eventTypes {
		names[i] = eventTypes[i].name
	}
	return names
}

// EventTypeOf returns the type that rows of PostgreSQL name by a letter.
func EventTypeOf(letter byte) (t EventType, ok bool) {
	i := slices.IndexFunc(eventTypes[:], func(row eventType) bool { return row.letter == letter })
	if i < 0 {
		return "", false
	}
	return eventTypes[i].name, true
}

// row returns the description of a type; nil for an unknown one.
func (t EventType) row() *eventType {
	for i := range eventTypes {
		if eventTypes[i].name == t {
			return &eventTypes[i]
		}
	}
	return nil
}

// Known reports whether there is such a type.
func (t EventType) Known() bool { return t.row() != nil }

// Letter returns how rows of PostgreSQL name a type that there is.
func (t EventType) Letter() byte { return t.row().letter }

// Source returns the kind of source that events of a known type have.
func (t EventType) Source() EventSource { return t.row().source }
