package spend

import (
	"reflect"
	"testing"

	"spendgate/bench/must"
)

func TestTaken(t *testing.T) {
	amount := func(s string) Amount {
		a := must.Get(ParseAmount(s))(t)
		return a
	}
	c := &Check{
		Action: Action{PolicyID: "refunds"},
		Charges: []Charge{
			{
				Counter: Counter{CounterID("refunds", "a day", 2, `["agent \"1\"","x<y"]`), 1763769600000, 0}, RuleID: "a day", Since: 2,
				Subject: `["agent \"1\"","x<y"]`, Amount: amount("60.50"), OffsetMS: -28800000, EndMS: 1763884800000,
			},
			{
				Counter: Counter{CounterID("refunds", `"é"`, 1, "[]"), 1763769540000, 60_000}, RuleID: `"é"`, Since: 1, Subject: "[]",
				NoCurrency: true,
			},
			{Counter: Counter{CounterID("refunds", "free", 1, "[]"), 0, 0}, RuleID: "free", Since: 1, Subject: "[]"},
		},
	}
	got, err := ParseTaken("refunds", string(c.AppendTaken(nil)))
	if err != nil || !reflect.DeepEqual(got, c.Charges) {
		t.Errorf("%s is read as %+v, %v", string(c.AppendTaken(nil)), got, err)
	}
	c.Decision.Effect = Escalate
	if string(c.AppendTaken(nil)) != "" {
		t.Errorf("an escalated check took %s", string(c.AppendTaken(nil)))
	}
}

func TestChargeFits(t *testing.T) {
	ten, six := Amount{coef: 10}, Amount{coef: 6}
	c := &Charge{Amount: six, Limited: true, Limit: ten.Total(), Counted: true, MaxCount: 2}
	var u Usage
	if !c.Fits(u) {
		t.Error("an empty counter has no room")
	}
	four := Usage{Used: Amount{coef: 4}.Total(), Count: 1}
	if !c.Fits(four) {
		t.Error("exactly the limit is within it")
	}
	if over := four.Plus(&Charge{Amount: Amount{coef: 1, scale: 9}}); c.FitsLimit(over) || c.FitsCount(over) || c.Fits(over) {
		t.Errorf("%+v has room", over)
	}
	if c.Lifted = true; !c.Fits(four.Plus(c)) {
		t.Error("a lifted charge needs no room")
	}
}
