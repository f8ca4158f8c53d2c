package main

import (
	"os"
	"strings"
	"testing"
)

// TestMain runs the test binary as the provider if the gateway starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && strings.HasSuffix(os.Args[1], "/ledger") {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestDemo(t *testing.T) {
	var out strings.Builder
	if err := play(t.Context(), &out); err != nil || !strings.Contains(out.String(), "[charge-1 charge-3 charge-4], under 3 redeemed checks") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
