package e2e_test

import (
	"testing"

	"spendgate/bench/access"
	"spendgate/bench/fleet"
)

// S31: the compiled service gives every role what the table says, on every route
// that it serves.
func testScopes(t *testing.T, binary string) {
	const admin = "scopes-admin-key-0123456789"
	n, err := fleet.NewNode(binary, "dev", "scopes", t.TempDir(), fleet.Settings{"DATA_DIR": t.TempDir(), "ADMIN_KEY": admin})
	act(t, err)
	t.Cleanup(func() { act(t, n.Kill()) })
	act(t, n.Start(limited(t, patience)))
	access.Compare(t, n.API, admin)
}
