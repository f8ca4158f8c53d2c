//go:build !race

package spend

import "testing"

// (The race detector empties pools at random.)
func TestHashingDoesNotAllocate(t *testing.T) {
	a := actionOf(t, "129.95", `{"days_since_purchase":12,"country":"DE","x":{"y":[1,2.50]}}`, nil)
	if n := testing.AllocsPerRun(100, func() { RequestSHA(a); FingerprintOf(a, Refund); HashKey("order-99") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
