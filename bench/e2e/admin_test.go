package e2e_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
)

// S25: an admin key is rotated by restarts alone. Both keys are accepted while
// there are two, each alone before and after, and nothing else ever.
func testAdminRotation(t *testing.T, binary string) {
	const former, next = "admin-key-that-was-0123456789", "admin-key-to-be-0123456789"
	folder := filepath.Join(t.TempDir(), "data")
	var used string
	for _, step := range []struct {
		name, setting    string
		accepted, others []string
	}{
		{"before", former, []string{former}, []string{next, former + "," + next, ""}},
		{"both", next + "," + former, []string{next, former}, []string{next + "," + former, former + "x", ""}},
		{"after", next, []string{next}, []string{former, ""}},
	} {
		n, err := fleet.NewNode(binary, "dev", "rotation-"+step.name, t.TempDir(), fleet.Settings{"DATA_DIR": folder, "ADMIN_KEY": step.setting})
		act(t, err)
		t.Cleanup(func() { act(t, n.Kill()) })
		act(t, n.Start(limited(t, patience)))
		for _, key := range step.accepted {
			id, raw, err := n.Admin(key).CreateKey(t.Context(), step.name, plenty)
			act(t, err)
			ok(t, must(n.Admin(key).PatchKey(t.Context(), id, map[string]any{"name": "by " + step.name}))(t), http.StatusOK)
			ok(t, must(n.Admin(key).Do(t.Context(), http.MethodGet, "/v1/keys", nil))(t), http.StatusOK)
			if used == "" {
				used = id
				ok(t, must(n.Client(raw).PostPolicy(t.Context(), standardPolicy()))(t), http.StatusCreated)
			}
		}
		for _, key := range step.others {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				if a := must(n.Admin(key).Do(t.Context(), method, "/v1/keys", nil))(t); a.Status != http.StatusUnauthorized {
					t.Errorf("%s: %s with the admin key %q: %s", step.name, method, key, a)
				}
			}
		}
		// The commands take the same setting, and send the first.
		code, output, err := fleet.Run(limited(t, patience), binary, t.TempDir(),
			fleet.Settings{"API_URL": n.API, "ADMIN_KEY": step.setting}, "keys", "list", "--json")
		act(t, err)
		if code != 0 {
			t.Errorf("%s: keys list exited with %d:\n%s", step.name, code, output)
		}
		if at := lastUsed(t, output, used); (at != "") != (step.name != "before") {
			t.Errorf("%s: the key was last used at %q; it was used before the first stop", step.name, at)
		}
		signalled := time.Now()
		act(t, n.Terminate())
		terminated(t, n, signalled)
		if strings.Contains(n.Log(), former) || strings.Contains(n.Log(), next) {
			t.Errorf("%s: the log contains an admin key", step.name)
		}
	}
}

// lastUsed finds a key's last use in what `keys list --json` printed.
func lastUsed(t *testing.T, list, id string) string {
	t.Helper()
	var keys []struct {
		KeyID      string  `json:"key_id"`
		LastUsedAt *string `json:"last_used_at"`
	}
	if err := json.Unmarshal([]byte(list), &keys); err != nil {
		t.Fatalf("%v\n%s", err, list)
	}
	for _, k := range keys {
		if k.KeyID == id && k.LastUsedAt != nil {
			return *k.LastUsedAt
		}
	}
	return ""
}
