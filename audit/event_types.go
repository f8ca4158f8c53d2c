package audit

import "spendgate/audit/spend"

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
	EventKeyExpiring           EventType = "key.expiring"
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
	source EventSource
	// complete adds to an event its source, as of the event. It is not ok if the source is missing.
	complete func(s *eventSources, e *Event, source spend.ID) (ok bool)
}

// eventTypes has all there are, in the interface's order.
var eventTypes = [...]eventType{
	{EventViolationRecorded, SourceViolation, (*eventSources).violation},
	{EventApprovalRequested, SourceApproval, (*eventSources).request},
	{EventApprovalDecided, SourceChange, (*eventSources).decision},
	{EventApprovalApproved, SourceChange, (*eventSources).decision},
	{EventApprovalDenied, SourceChange, (*eventSources).decision},
	{EventApprovalReopened, SourceChange, (*eventSources).reopening},
	{EventApprovalExpired, SourceChange, (*eventSources).expiry},
	{EventApprovalWithdrawn, SourceChange, (*eventSources).expiry},
	{EventApprovalUsed, SourceUse, (*eventSources).use},
	{EventOutcomeReported, SourceOutcome, (*eventSources).outcome},
	{EventOutcomeReleasePending, SourceOutcome, (*eventSources).outcome},
	{EventOutcomeExceeded, SourceOutcome, (*eventSources).outcome},
	{EventBudgetExhausted, SourceExhaustion, (*eventSources).exhaustion},
	{EventBudgetThreshold, SourceExhaustion, (*eventSources).exhaustion},
	{EventPolicyCreated, SourceChange, (*eventSources).change},
	{EventPolicyForced, SourceChange, (*eventSources).change},
	{EventDraftSubmitted, SourceChange, (*eventSources).change},
	{EventDraftApproved, SourceChange, (*eventSources).change},
	{EventDraftRejected, SourceChange, (*eventSources).change},
	{EventKeyChanged, SourceChange, (*eventSources).change},
	{EventKeyExpiring, SourceChange, (*eventSources).change},
	{EventCheckRedeemed, SourceOutcome, (*eventSources).outcome},
	{EventCheckInDoubt, SourceOutcome, (*eventSources).outcome},
	{EventCheckTakenOver, SourceOutcome, (*eventSources).outcome},
	{EventPaymentPaidTwice, SourceOutcome, (*eventSources).outcome},
	{EventFreezeCreated, SourceChange, (*eventSources).change},
	{EventFreezeReleaseApproved, SourceChange, (*eventSources).change},
	{EventFreezeReleased, SourceChange, (*eventSources).change},
	{EventFreezeForced, SourceChange, (*eventSources).change},
	{EventFreezeEnded, SourceChange, (*eventSources).change},
	{EventGrantCreated, SourceChange, (*eventSources).change},
	{EventGrantApproved, SourceChange, (*eventSources).change},
	{EventGrantRevoked, SourceChange, (*eventSources).change},
}

// EventTypes returns all there are, in the interface's order.
func EventTypes() []EventType {
	names := make([]EventType, len(eventTypes))
	for i := range eventTypes {
		names[i] = eventTypes[i].name
	}
	return names
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

// Source returns the kind of source that events of a known type have.
func (t EventType) Source() EventSource { return t.row().source }
