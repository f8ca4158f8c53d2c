package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"spendgate/audit/spend"
)

// EventRow is an event as stores number it. It names its source, from which the event is read: a check
// that is a violation, an approval, an outcome, an Exhaustion, or a change (ChangeSource).
type EventRow struct {
	Sequence int64
	Source   spend.ID
	Type     EventType
	PolicyID string // empty for an event without policy
	AgentID  string // empty for an event without agent
}

// examinedEvents bounds the rows that a page with a rare filter examines.
const examinedEvents = 1000

// Examine returns how many rows after the cursor a page looks at.
func (q *EventQuery) Examine() int {
	if q.Types == nil && q.PolicyIDs == nil && q.AgentIDs == nil {
		return q.Limit + 1
	}
	return max(examinedEvents, q.Limit+1)
}

// Page selects from the rows after the cursor, of which there are up to Examine. The
// page has no events yet.
func (q *EventQuery) Page(rows []EventRow) (selected []EventRow, page EventPage) {
	page.Next = q.After
	for i := range rows {
		if len(selected) == q.Limit {
			page.More = true
			return selected, page
		}
		if q.selects(&rows[i]) {
			selected = append(selected, rows[i])
		}
		page.Next = rows[i].Sequence
	}
	page.More = len(rows) == q.Examine()
	return selected, page
}

// Behind fails with *EventsRemovedError if events after the cursor were removed: those up to floor
// were, before or after the page was read. A reader that began with the oldest event, and found none,
// is not refused.
func (p *EventPage) Behind(after, floor int64) error {
	if after > 0 && after < floor {
		return &EventsRemovedError{floor}
	}
	p.Floor = floor
	if p.Next == 0 {
		p.Next = floor
	}
	return nil
}

func (q *EventQuery) selects(r *EventRow) bool {
	switch {
	case q.Types != nil && !slices.Contains(q.Types, r.Type):
		return false
	case r.Type == EventKeyChanged, r.Type == EventKeyExpiring:
		return q.PolicyIDs == nil && q.AgentIDs == nil
	case q.PolicyIDs != nil && !slices.Contains(q.PolicyIDs, r.PolicyID):
		return false
	}
	return q.AgentIDs == nil || r.AgentID == "" || slices.Contains(q.AgentIDs, r.AgentID)
}

// ChangeSource returns the source ID of events about a change.
func ChangeSource(seq int64) (source spend.ID) {
	binary.BigEndian.PutUint64(source[8:], uint64(seq))
	return source
}

// changeOf is the inverse of ChangeSource.
func changeOf(source spend.ID) int64 { return int64(binary.BigEndian.Uint64(source[8:])) }

// EventID returns the ID of the event of that type about a source. There is one at
// most.
func EventID(t EventType, source spend.ID) spend.ID {
	sum := sha256.Sum256(append([]byte("spendgate event 1\n"+string(t)+"\n"), source[:]...))
	return spend.ID(sum[:16])
}

// changeEventID is EventID for a change, by its head, since its number also exists in other
// deployments.
func changeEventID(t EventType, c *Change) spend.ID { return EventID(t, spend.ID(c.Head[:16])) }

// EventSources are the sources of events, by IDs and in no order. A source exists for each row of an
// event, except that a violation may be Archived.
type EventSources interface {
	ViolationsOf(ctx context.Context, ids []spend.ID) ([]Violation, error)
	OutcomesOf(ctx context.Context, ids []spend.ID) ([]*spend.Outcome, error)
	ExhaustionsOf(ctx context.Context, ids []spend.ID) ([]Exhaustion, error)
	ChangesOf(ctx context.Context, seqs []int64) ([]Change, error)
	// ApprovalsOf returns approvals without their checks and decisions.
	ApprovalsOf(ctx context.Context, ids []spend.ID) ([]ApprovalEvent, error)
	Checks(ctx context.Context, ids []spend.ID) ([]*spend.Check, error)
}

// ReadEvents returns the events of rows, by one look-up for each kind of source.
func ReadEvents(ctx context.Context, from EventSources, rows []EventRow) ([]Event, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var s eventSources
	if err := s.read(ctx, from, rows); err != nil {
		return nil, err
	}
	events := make([]Event, len(rows))
	for i := range rows {
		r := &rows[i]
		events[i] = Event{Sequence: r.Sequence, ID: EventID(r.Type, r.Source), Type: r.Type, PolicyID: r.PolicyID, AgentID: r.AgentID}
		if !r.Type.row().complete(&s, &events[i], r.Source) {
			return nil, fmt.Errorf("%w: event %d is about a %s that is not there", ErrUnavailable, r.Sequence, r.Type)
		}
	}
	return events, nil
}

// eventSources has the sources of some events.
type eventSources struct {
	violations  map[spend.ID]Violation
	outcomes    map[spend.ID]*spend.Outcome
	exhaustions map[spend.ID]Exhaustion
	changes     map[int64]Change
	approvals   map[spend.ID]ApprovalEvent
	checks      map[spend.ID]*spend.Check // of the approvals
}

func (s *eventSources) read(ctx context.Context, from EventSources, rows []EventRow) error {
	var of [eventSourceKinds][]spend.ID
	for i := range rows {
		if !rows[i].Type.Known() {
			return fmt.Errorf("event %d: unknown type %q", rows[i].Sequence, rows[i].Type)
		}
		source := rows[i].Type.Source()
		of[source] = append(of[source], rows[i].Source)
	}
	var changes []int64
	for _, source := range of[SourceChange] {
		changes = append(changes, changeOf(source))
	}
	approvals := slices.Concat(of[SourceApproval], of[SourceUse])
	var err error
	if s.violations, err = sourcesOf(ctx, of[SourceViolation], from.ViolationsOf, func(v Violation) spend.ID { return v.ID }); err != nil {
		return err
	}
	if s.exhaustions, err = sourcesOf(ctx, of[SourceExhaustion], from.ExhaustionsOf, func(e Exhaustion) spend.ID { return e.ID }); err != nil {
		return err
	}
	if s.changes, err = sourcesOf(ctx, changes, from.ChangesOf, func(c Change) int64 { return c.Seq }); err != nil {
		return err
	}
	if s.outcomes, err = sourcesOf(ctx, of[SourceOutcome], from.OutcomesOf, func(o *spend.Outcome) spend.ID { return o.ID }); err != nil {
		return err
	}
	for _, c := range s.changes {
		if id, err := spend.ParseID(c.Subject, spend.PrefixApproval); err == nil {
			approvals = append(approvals, id)
		}
	}
	if s.approvals, err = sourcesOf(ctx, approvals, from.ApprovalsOf, func(a ApprovalEvent) spend.ID { return a.ID }); err != nil {
		return err
	}
	s.checks, err = sourcesOf(ctx, approvals, from.Checks, func(c *spend.Check) spend.ID { return c.ID })
	return err
}

// sourcesOf reads some sources, each once, by their keys.
func sourcesOf[K comparable, V any](
	ctx context.Context, keys []K, read func(context.Context, []K) ([]V, error), key func(V) K,
) (map[K]V, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	once := make(map[K]bool, len(keys))
	for _, k := range keys {
		once[k] = true
	}
	all, err := read(ctx, slices.Collect(maps.Keys(once)))
	found := make(map[K]V, len(all))
	for _, v := range all {
		found[key(v)] = v
	}
	return found, err
}

func (s *eventSources) violation(e *Event, source spend.ID) bool {
	v, ok := s.violations[source]
	if !v.Archived {
		e.Violation = &v
	}
	e.At = source.Time()
	return ok
}

func (s *eventSources) request(e *Event, source spend.ID) (ok bool) {
	if e.Approval, ok = s.approvalAt(source); ok {
		e.At, e.Approval.UsedBy = e.Approval.CreatedAt, spend.ID{}
	}
	return ok
}

func (s *eventSources) use(e *Event, source spend.ID) (ok bool) {
	if e.Approval, ok = s.approvalAt(source); ok {
		e.At = e.Approval.UsedBy.Time()
	}
	return ok
}

func (s *eventSources) outcome(e *Event, source spend.ID) (ok bool) {
	e.Outcome, ok = s.outcomes[source]
	e.At = source.Time()
	return ok
}

func (s *eventSources) exhaustion(e *Event, source spend.ID) bool {
	x, ok := s.exhaustions[source]
	e.Exhaustion, e.At = &x, x.At
	return ok
}

func (s *eventSources) change(e *Event, source spend.ID) bool {
	c, ok := s.changes[changeOf(source)]
	e.Change, e.At, e.ID = &c, c.At, changeEventID(e.Type, &c)
	return ok
}

func (s *eventSources) decision(e *Event, source spend.ID) bool {
	if !s.expiry(e, source) {
		return false
	}
	c := s.changes[changeOf(source)]
	e.Approval.Decision = decisionOf(&c)
	return true
}

func (s *eventSources) expiry(e *Event, source spend.ID) (ok bool) {
	c, there := s.changes[changeOf(source)]
	if !there {
		return false
	}
	id, err := spend.ParseID(c.Subject, spend.PrefixApproval)
	if err != nil {
		return false
	}
	if e.Approval, ok = s.approvalAt(id); ok {
		e.At, e.ID, e.Approval.UsedBy = c.At, changeEventID(e.Type, &c), spend.ID{}
	}
	return ok
}

func (s *eventSources) reopening(e *Event, source spend.ID) (ok bool) {
	if ok = s.expiry(e, source); ok {
		e.Approval.ExpiresAt = e.At.Add(e.Approval.ExpiresAt.Sub(e.Approval.CreatedAt))
	}
	return ok
}

// approvalAt returns a copy, which an event makes its own.
func (s *eventSources) approvalAt(id spend.ID) (*ApprovalEvent, bool) {
	a, ok := s.approvals[id]
	a.Check = s.checks[id]
	return &a, ok
}
