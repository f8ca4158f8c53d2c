package spend

import (
	"encoding/json"
	"testing"
)

// AppendShadow writes the same as encoding/json does for shadowText, which ParseShadow reads, and
// allocates nothing.
func TestShadowText(t *testing.T) {
	for _, s := range []*Shadow{
		{Draft: 7},
		{Draft: 1 << 40, Without: LackCounters},
		{Draft: 12, Effect: Block, Reason: ReasonMaxAmount, RuleID: "cap"},
		{Draft: 1, Effect: Escalate, Reason: ReasonEscalationThreshold, RuleID: "a\"b\\c<d>&e\u2028é\x00\x7f"},
	} {
		want := shadowText{Draft: s.Draft, Without: s.Without}
		if s.Without == "" {
			want.Decision, want.Reason, want.RuleID = s.Effect.String(), s.Reason, s.RuleID
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(s.AppendText(nil)); got != string(text) {
			t.Errorf("got %s, want %s", got, text)
		}
		if back, err := ParseShadow(string(text)); err != nil || *back != *s {
			t.Errorf("read back %+v, %v", back, err)
		}
	}
	s := &Shadow{Draft: 12, Effect: Escalate, Reason: ReasonEscalationThreshold, RuleID: "review-refunds"}
	if n := testing.AllocsPerRun(100, func() {
		var b [128]byte
		s.AppendText(b[:0])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if len((*Shadow)(nil).AppendText(nil)) != 0 {
		t.Error("of none there is a text")
	}
}
