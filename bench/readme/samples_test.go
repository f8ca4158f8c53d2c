package readme_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// acts is what the samples print where a reader's program moves the money.
const acts = "refund under"

// notFilledIn is what stands for asking the provider, of which a reader makes the call of theirs.
var notFilledIn = regexp.MustCompile(`(log\.Fatal|raise NotImplementedError|throw new Error)\(.*not known.*\)`)

// The samples, whose types TestPages checks, move money only on a complete 200 allow without an
// outcome, and once: on a replay they ask the provider first.
func TestSamplesActOnlyOnAnAllow(t *testing.T) {
	const allowed = `{"check_id":"chk_0123456789abcdef0123456789abcdef","decision":"allow","confidence":"high","reason_code":null,` +
		`"message":"fine",` +
		`"violated_rule_id":null,"violated_rule_description":null,"policy_version":2,"next_step":"Proceed.","latency_ms":1,` +
		`"timestamp":"2026-01-02T03:04:05.600Z"}`
	answers := map[string]http.HandlerFunc{
		"allow":     says(200, allowed),
		"replay":    says(200, allowed, "Idempotent-Replayed"), // of a refund that the provider knows
		"201":       says(201, allowed),
		"block":     says(200, strings.Replace(allowed, "allow", "block", 1)),
		"escalate":  says(200, strings.Replace(allowed, "allow", "escalate", 1)),
		"truncated": says(200, allowed, "Content-Length", fmt.Sprint(2*len(allowed))),
	}
	for _, outcome := range []string{"executed", "executed;release=pending", "failed", "voided", "voided;release=pending", "reversed", ""} {
		answers["outcome "+outcome] = says(200, allowed, "Outcome", outcome) // which is enough
	}
	samples := 0
	for _, e := range examplesOf(t, "docs/clients/http.md") {
		if e.language == "sh" || !strings.Contains(e.text, acts) {
			continue
		}
		samples++
		asWritten := e
		known := map[string]string{"go": "return true", "python": "return True", "ts": "return true"}[e.language] // by the provider
		e.text = notFilledIn.ReplaceAllString(e.text, known)
		if e.text == asWritten.text {
			t.Errorf("the %s sample acts on a replay before it asks a provider", e.language)
		}
		t.Run(e.language, func(t *testing.T) {
			script, unfinished := program(t, e, transpile), program(t, asWritten, transpile)
			if script == "" {
				t.Skip("it cannot be run here")
			}
			for name, answer := range answers {
				t.Run(name, func(t *testing.T) { checkSample(t, script, answer, name == "allow") })
			}
			t.Run("replay, as written", func(t *testing.T) { checkSample(t, unfinished, answers["replay"], false) })
		})
	}
	if samples != 3 {
		t.Errorf("%d samples act, want Go, Python and TypeScript", samples)
	}
}

// checkSample runs a sample that gets that answer, and wants it to move money or not.
func checkSample(t *testing.T, script string, answer http.HandlerFunc, want bool) {
	t.Helper()
	node := httptest.NewServer(answer)
	defer node.Close()
	run := exec.CommandContext(t.Context(), "bash", "-c", script)
	run.Env = append(run.Environ(), "SPENDGATE_API_URL="+node.URL, "SPENDGATE_API_KEY=k")
	printed, err := run.Output()
	if acted := strings.Contains(string(printed), acts); acted != want || acted && err != nil {
		t.Errorf("acted: %t, %v\n%s", acted, err, printed)
	}
}

const redeemed = `{"check_id":"chk_1","payment":{"payment_key":"order-1001","proceed":true,"execution_id":"exe_1"}}`

const notKnown = "not known, look at the check a minute later: "

// The payment service pays on a 200 to a redemption of that very check, which it asked for as often as
// it takes with one key, and says that nothing is paid only where that is final.
func TestPaymentSamples(t *testing.T) {
	refuses := func(status int, code string) http.HandlerFunc {
		return says(status, fmt.Sprintf(`{"error":{"code":%q,"message":"m","request_id":"r"}}`, code))
	}
	samples := 0
	for _, e := range examplesOf(t, "docs/use/payments.md") {
		if e.language == "sh" {
			continue
		}
		samples++
		t.Run(e.language, func(t *testing.T) {
			script := program(t, e, transpile)
			if script == "" {
				t.Skip("it cannot be run here")
			}
			again, late := refuses(409, "check_already_redeemed"), refuses(409, "check_expired")
			for _, test := range []struct {
				want, outcome string
				answers       []http.HandlerFunc
			}{
				{"paid ", "", []http.HandlerFunc{refuses(503, "unavailable"), refuses(429, "rate_limited"), says(200, redeemed)}},
				{notKnown + "no answer", "", []http.HandlerFunc{refuses(500, "internal_error")}},
				{notKnown + "no answer", "", []http.HandlerFunc{says(200, `{"check_id":"chk_1"}`)}},
				{notKnown + "no answer", "", []http.HandlerFunc{says(200, strings.Replace(redeemed, "true", "false", 1))}},
				{notKnown + "no answer", "", []http.HandlerFunc{
					says(302, "", "Location", "/page"), says(200, `{"check_id":"chk_2"}`), says(200, `{}`),
				}},
				{notKnown + "no answer", "", []http.HandlerFunc{says(307, "", "Location", "/page"), says(200, `<html>`), says(404, `<html>`)}},
				{notKnown + "check_already_redeemed", "", []http.HandlerFunc{again}},
				{notKnown + "check_already_redeemed", "executed", []http.HandlerFunc{again}},
				{notKnown + "check_expired", "", []http.HandlerFunc{late}},
				{"not paid under this check: a new", "voided", []http.HandlerFunc{again}},
				{"not paid under this check: a new", "failed", []http.HandlerFunc{late}},
				{"not paid: action_mismatch", "", []http.HandlerFunc{refuses(409, "action_mismatch")}},
			} {
				t.Run(test.want, func(t *testing.T) {
					t.Parallel()
					checkPayments(t, script, test.want, test.outcome, test.answers)
				})
			}
		})
	}
	if samples != 1 {
		t.Errorf("%d samples pay, want the one in Python", samples)
	}
}

// checkPayments runs a payment service that gets those answers to each redemption, the last one
// again and again, and wants a line for each of its three payments. The check has that outcome.
func checkPayments(t *testing.T, script, want, outcome string, answers []http.HandlerFunc) {
	t.Helper()
	var mu sync.Mutex
	asked := make(map[string]int) // redemptions by their idempotency keys
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/outcome") && r.Method == http.MethodGet && outcome == "":
			says(404, `{"error":{"code":"outcome_not_found","message":"m","request_id":"r"}}`)(w, r)
			return
		case strings.HasSuffix(r.URL.Path, "/outcome") && r.Method == http.MethodGet:
			says(200, fmt.Sprintf(`{"check_id":"chk_1","status":%q}`, outcome))(w, r)
			return
		case strings.HasSuffix(r.URL.Path, "/outcome"):
			says(201, `{"check_id":"chk_1","status":"executed"}`)(w, r)
			return
		case !strings.HasSuffix(r.URL.Path, "/redeem"): // behind a redirect
			says(200, `{"check_id":"chk_1"}`)(w, r)
			return
		}
		var body struct {
			Key string `json:"idempotency_key"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body) // without one it is empty
		mu.Lock()
		n := min(asked[body.Key], len(answers)-1)
		asked[body.Key]++
		mu.Unlock()
		answers[n](w, r)
	}))
	defer node.Close()
	run := exec.CommandContext(t.Context(), "bash", "-c", script)
	run.Env = append(run.Environ(), "SPENDGATE_API_URL="+node.URL, "SERVICE_KEY=k", "CHECK=chk_1")
	printed, err := run.Output()
	for line := range strings.Lines(string(printed)) {
		if !strings.HasPrefix(line, want) {
			t.Errorf("want %q: %s", want, line)
		}
	}
	if err != nil || strings.Count(string(printed), "\n") != 3 || len(asked) != 3 {
		t.Errorf("%v\n%s%v", err, printed, asked)
	}
}

// says answers with a status, a body and headers. The last header may lack a value, which is then
// "true".
func says(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "req_1")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], append(headers, "true")[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body) //nolint:errcheck // the sample would notice
	}
}
