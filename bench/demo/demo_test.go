package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"spendgate/config"
)

func draw(seed uint64, run string, count int) []step {
	return script(rand.New(rand.NewPCG(seed, 0)), run, count)
}

func TestScriptIsRepeatable(t *testing.T) {
	if !reflect.DeepEqual(draw(7, "r", 200), draw(7, "r", 200)) {
		t.Error("one seed, two scripts")
	}
	if reflect.DeepEqual(draw(7, "r", 200), draw(8, "r", 200)) {
		t.Error("two seeds, one script")
	}
}

// Of every seed, the script is what it says: only duplicates repeat an action,
// and everything is within what the API takes.
func TestScript(t *testing.T) {
	for seed := range uint64(50) {
		steps := draw(seed, "r", 200)
		kinds, seen, inferred := make(map[kind]int), make(map[string]bool), 0
		for i, s := range steps {
			kinds[s.kind]++
			if s.action.Amount.IsZero() {
				t.Fatalf("no amount: %+v", s.action)
			}
			if s.action.ActionType == "" && s.action.ReasonText == "" {
				t.Fatalf("neither type nor text: %+v", s.action)
			}
			if s.action.ActionType == "" {
				inferred++
			}
			// The type is left out: the classifier may take it for any.
			fingerprint := fmt.Sprint(s.action.AgentID, "|", s.action.Amount, "|", s.action.Counterparty)
			switch first := steps[s.of].action; s.kind {
			case fresh:
				if seen[fingerprint] {
					t.Fatalf("seed %d, #%d is a duplicate and should be fresh", seed, i+1)
				}
			case replay:
				if !reflect.DeepEqual(first, s.action) || s.action.IdempotencyKey == "" {
					t.Fatalf("seed %d, #%d is no replay of #%d", seed, i+1, s.of+1)
				}
			case duplicate:
				if !seen[fingerprint] || s.action.IdempotencyKey != "" {
					t.Fatalf("seed %d, #%d is no duplicate of #%d", seed, i+1, s.of+1)
				}
			case misuse:
				if first.Amount == s.action.Amount || first.IdempotencyKey != s.action.IdempotencyKey {
					t.Fatalf("seed %d, #%d does not misuse the key of #%d", seed, i+1, s.of+1)
				}
			}
			seen[fingerprint] = true
		}
		if len(steps) != 200 || kinds[replay] < 5 || kinds[duplicate] < 5 || inferred < 20 {
			t.Errorf("seed %d: %d steps, kinds %v, %d inferred", seed, len(steps), kinds, inferred)
		}
	}
}

// fakeNode answers every check with a decision and keys seen twice with a
// replay; the first check it refuses for the rate limit.
func fakeNode(t *testing.T, change bool) *httptest.Server {
	t.Helper()
	first, stored := make(map[string]string), make(map[string]bool)
	limited, count := false, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(status int, body string) {
			w.WriteHeader(status)
			fmt.Fprint(w, body) //nolint:errcheck // the client would notice
		}
		if r.Header.Get("X-API-Key") != "svc_live_1" {
			answer(401, `{"error":{"code":"unauthorized","message":"no"}}`)
			return
		}
		var body map[string]any
		if r.Method == http.MethodPost {
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
		}
		id, _ := strings.CutPrefix(r.URL.Path, "/v1/policies/")
		switch key, _ := body["idempotency_key"].(string); {
		case r.Method == http.MethodGet && stored[id]:
			answer(200, `{"policy_id":"`+id+`","version":1}`)
		case r.Method == http.MethodGet:
			answer(404, `{"error":{"code":"policy_not_found","message":"none"}}`)
		case r.URL.Path == "/v1/policies":
			stored[body["policy_id"].(string)] = true
			answer(201, fmt.Sprintf(`{"policy_id":%q,"version":1}`, body["policy_id"]))
		case !limited:
			limited = true
			w.Header().Set("Retry-After", "1")
			answer(429, `{"error":{"code":"rate_limit_exceeded","message":"slow down"}}`)
		case key != "" && first[key] != "" && !change:
			w.Header().Set("Idempotent-Replayed", "true")
			answer(200, first[key])
		default:
			count++
			text := fmt.Sprintf(`{"check_id":"chk_%d","decision":"block","confidence":"high",`+
				`"reason_code":"max_amount_exceeded","violated_rule_id":"cap","policy_version":1,"latency_ms":2,"timestamp":"2026-01-02T03:04:05.000Z"}`, count)
			first[key] = text
			answer(200, text)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func playAgainst(t *testing.T, server *httptest.Server, key string) (string, error) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := newNode(server.URL, config.Secret(cmp.Or(key, "svc_live_1")))
	if err != nil {
		t.Fatal(err)
	}
	if err := ensurePolicies(t.Context(), n, "../../deploy/policies"); err != nil {
		return "", err
	}
	playErr := play(t.Context(), n, newTable(out), draw(1, "r", 60))
	printed, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(printed), playErr
}

func TestPlay(t *testing.T) {
	printed, err := playAgainst(t, fakeNode(t, false), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  60  ", "replay of #", "60 actions in", "max_amount_exceeded (cap)", "decision      2ms     2ms"} {
		if !strings.Contains(printed, want) {
			t.Errorf("no %q in\n%s", want, printed)
		}
	}
}

func TestPlayNoticesReplaysThatDiffer(t *testing.T) {
	if _, err := playAgainst(t, fakeNode(t, true), ""); err == nil || !strings.Contains(err.Error(), "replays that differ") {
		t.Error(err)
	}
}

func TestWrongKey(t *testing.T) {
	if _, err := playAgainst(t, fakeNode(t, false), "other"); err == nil || !strings.Contains(err.Error(), "does not accept the API key") {
		t.Error(err)
	}
}
