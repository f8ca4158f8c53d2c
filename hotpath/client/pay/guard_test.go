package pay

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"spendgate/hotpath/client"
)

// TestStates: a state is printed by its name.
func TestStates(t *testing.T) {
	if got := fmt.Sprint(Error, Pending, Rejected, Rejected+1, State(-1)); got != "error pending rejected unknown unknown" {
		t.Error(got)
	}
}

// TestZero: a payment of 0 is refused before anybody is asked.
func TestZero(t *testing.T) {
	got := New(Options{}).Run(t.Context(), Payment{Action: client.Action{PaymentKey: "order-1"}}, nil)
	if got.State != Error || got.Err == nil || !strings.HasPrefix(got.Err.Error(), "the amount is 0") {
		t.Error(got)
	}
}

// TestAge: the age of a moment counts the time for which the machine slept, when its monotonic clock stood still.
func TestAge(t *testing.T) {
	began := time.Now()
	slept := began
	const secondsAt = 30 // the bit at which seconds begin in the first word of a time that has a monotonic reading
	*(*uint64)(unsafe.Pointer(&slept)) -= 3600 << secondsAt
	if time.Since(slept) > time.Minute || began.Round(0).Sub(slept.Round(0)) != time.Hour {
		t.Fatal("the time has another form")
	}
	if got := age(slept); got < time.Hour {
		t.Error(got)
	}
	if got := age(time.Now().Add(-time.Hour)); got < time.Hour {
		t.Error(got)
	}
}
