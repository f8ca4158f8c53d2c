package spend

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"spendgate/bench/must"
)

// What rows keep of payments is the JSON of the structures, whatever they have, and reads back.
func TestPaymentTexts(t *testing.T) {
	at, hash := time.UnixMilli(1_800_000_000_123).UTC(), Hash{1, 0xab}
	check := NewID(at)
	for _, made := range []interface{ Append([]byte) []byte }{
		&CheckPayment{Key: "k", Version: 1, Attempt: 1},
		&CheckPayment{Key: "k \"é\\", Version: 12, Attempt: 3, Round: 2, Hours: 24, Nonce: hash},
		&OutcomePayment{Flags: []Flag{FlagLapsed, FlagPaidTwice}},
		&OutcomePayment{ExecutionID: "exe_1"},
		&OutcomePayment{Of: []PaymentStep{{Key: "a", Version: 1}, {"n", "b", 2, 3, 4, true}}, ExecutionID: "exe_1"},
		&PaymentState{Attempt: 1, Current: check},
		&PaymentState{2, 1, 24, check, 2, []Hash{hash, {2}}, []Execution{{Check: check, At: at}, {check, 1, at, true}}},
	} {
		want := must.Get(json.Marshal(made))(t)
		text := made.Append(nil)
		if string(text) != string(want) {
			t.Errorf("%T: got %s\nwant %s", made, text, want)
		}
		back := reflect.New(reflect.TypeOf(made).Elem())
		if err := json.Unmarshal(text, back.Interface()); err != nil || !reflect.DeepEqual(back.Interface(), made) {
			t.Errorf("%s reads back as %+v, %v", text, back.Elem(), err)
		}
	}
	if text := (*CheckPayment)(nil).Append(nil); len(text) > 0 {
		t.Errorf("no payment is %s", text)
	}
	if text := new(OutcomePayment).Append(nil); len(text) > 0 {
		t.Errorf("a step of no payment says %s", text)
	}
}
