package gateway

import "testing"

func TestMinorUnits(t *testing.T) {
	for code, want := range map[string]int{"USD": 2, "JPY": 0, "BHD": 3, "CLF": 4, "ISK": 0, "HUF": 2, "XAF": 0, "UGX": 0, "TND": 3} {
		if got, known := minorDigits(code); !known || got != want {
			t.Error(code, got, known)
		}
	}
	for _, code := range []string{"", "XXX", "XAU", "usd", "US", "D A", "EDA", "USDX", "BTC"} {
		if _, known := minorDigits(code); known {
			t.Error(code, "is known")
		}
	}
}
