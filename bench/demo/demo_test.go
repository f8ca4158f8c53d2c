package main

import (
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

	"spendgate/cmd/spendgate/policyfile"
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
// replay; the first check it refuses for the rate limit. The keys that it makes are
// for checks or for policies alone.
func fakeNode(t *testing.T, change bool) *httptest.Server {
	t.Helper()
	first, stored := make(map[string]string), make(map[string]bool)
	limited, count := false, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(status int, body string) {
			w.WriteHeader(status)
			fmt.Fprint(w, body) //nolint:errcheck // the client would notice
		}
		var body map[string]any
		if r.Method == http.MethodPost {
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
		}
		id, ofPolicies := strings.CutPrefix(r.URL.Path, "/v1/policies")
		id = strings.TrimPrefix(id, "/")
		may := map[string]bool{"svc_live_1": true, "svc_live_agent": !ofPolicies, "svc_live_author": ofPolicies}
		if permitted, known := may[r.Header.Get("X-API-Key")]; r.Header.Get("X-Admin-Key") == "admin" {
			if r.URL.Path != "/v1/keys" || len(body["policy_ids"].([]any)) != 4 || body["expires_at"] == nil {
				t.Errorf("%s %v", r.URL, body)
			}
			answer(201, fmt.Sprintf(`{"key_id":"key_1","api_key":"svc_live_%s"}`, body["role"]))
			return
		} else if !known {
			answer(401, `{"error":{"code":"unauthorized","message":"no"}}`)
			return
		} else if !permitted {
			answer(403, `{"error":{"code":"forbidden","message":"the key lacks the scope"}}`)
			return
		}
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

func playAgainst(t *testing.T, server *httptest.Server, settings config.Client) (string, error) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := policyfile.Read("../../deploy/policies", nil)
	if err != nil {
		t.Fatal(err)
	}
	settings.APIURL = server.URL
	sendErr := send(t.Context(), settings, files, "r", newTable(out), draw(1, "r", 60))
	printed, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(printed), sendErr
}

// An admin key is used for two narrow keys, one that is given for all.
func TestPlay(t *testing.T) {
	for _, settings := range []config.Client{{AdminKey: "admin", APIKey: "unused"}, {APIKey: "svc_live_1"}} {
		printed, err := playAgainst(t, fakeNode(t, false), settings)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"  60  ", "replay of #", "60 actions in", "max_amount_exceeded (cap)", "decision      2ms     2ms"} {
			if !strings.Contains(printed, want) {
				t.Errorf("no %q in\n%s", want, printed)
			}
		}
	}
}

func TestPlayNoticesReplaysThatDiffer(t *testing.T) {
	if _, err := playAgainst(t, fakeNode(t, true), config.Client{AdminKey: "admin"}); err == nil || !strings.Contains(err.Error(), "replays that differ") {
		t.Error(err)
	}
}

func TestKeysThatDoNot(t *testing.T) {
	for key, want := range map[config.Secret]string{
		"other": "does not accept the API key", "svc_live_agent": "not for all of the demo", "svc_live_author": "not for all of the demo",
	} {
		if _, err := playAgainst(t, fakeNode(t, false), config.Client{APIKey: key}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", string(key), err)
		}
	}
	t.Chdir(t.TempDir())
	if _, err := findKeys(t.Context(), config.Client{}, nil, "r"); err == nil || !strings.Contains(err.Error(), "make run") {
		t.Error(err)
	}
}
