package audit

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// TestEventTypes: every type is complete. An event of the type is read from its source and has
// data, and the documents describe it.
func TestEventTypes(t *testing.T) {
	about := make(map[EventSource]bool)
	for i, of := range EventTypes() {
		about[of.Source()] = true
		source := ChangeSource(int64(i + 1))
		if of.Source() != SourceChange {
			source = spend.NewID(time.Now())
		}
		events, err := ReadEvents(t.Context(), anySource{}, []EventRow{{Sequence: 7, Source: source, Type: of}})
		if err != nil || events[0].Type != of || events[0].Sequence != 7 || events[0].At.IsZero() || !said(&events[0]) {
			t.Errorf("%s: %+v, %v", of, events, err)
		}
	}
	for source := range EventSource(eventSourceKinds) {
		if !about[source] {
			t.Errorf("no type of events is about source %d", source)
		}
	}
	for document, rows := range map[string]func(EventType) string{
		"../hotpath/httpapi/openapi.yaml":           func(of EventType) string { return " " + string(of) + `: "#/components/` },
		"../docs/audit/format.md":                   func(of EventType) string { return "`" + string(of) + "`" },
		"../hotpath/console/assets/pages/events.js": func(of EventType) string { return `"` + string(of) + `"` },
	} {
		text := must.Get(os.ReadFile(document))(t)
		for _, of := range EventTypes() {
			if !strings.Contains(string(text), rows(of)) {
				t.Errorf("%s has no %s, of %s", document, rows(of), of)
			}
		}
	}
	if _, err := ReadEvents(t.Context(), anySource{}, []EventRow{{Sequence: 7, Type: "x"}}); err == nil || EventType("x").Known() {
		t.Errorf("an event of a type that there is not: %v", err)
	}
}

func said(e *Event) bool {
	return e.Violation != nil || e.Approval != nil || e.Outcome != nil || e.Exhaustion != nil || e.Change != nil
}

// anySource has whatever it is asked for.
type anySource struct{}

func (anySource) ViolationsOf(_ context.Context, ids []spend.ID) ([]Violation, error) {
	return []Violation{{ID: ids[0]}}, nil
}

func (anySource) OutcomesOf(_ context.Context, ids []spend.ID) ([]*spend.Outcome, error) {
	return []*spend.Outcome{{ID: ids[0]}}, nil
}

func (anySource) ExhaustionsOf(_ context.Context, ids []spend.ID) ([]Exhaustion, error) {
	return []Exhaustion{{ID: ids[0], At: time.Now()}}, nil
}

func (anySource) ChangesOf(_ context.Context, seqs []int64) ([]Change, error) {
	return []Change{{Seq: seqs[0], At: time.Now(), Subject: spend.NewID(time.Now()).Text(spend.PrefixApproval), Details: "{}"}}, nil
}

func (anySource) ApprovalsOf(_ context.Context, ids []spend.ID) ([]ApprovalEvent, error) {
	return []ApprovalEvent{{ID: ids[0], CreatedAt: time.Now(), UsedBy: ids[0]}}, nil
}

func (anySource) Checks(_ context.Context, ids []spend.ID) ([]*spend.Check, error) {
	return []*spend.Check{{ID: ids[0]}}, nil
}
