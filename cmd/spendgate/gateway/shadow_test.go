package gateway

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"spendgate/bench/must"
)

// TestShadow: a shadow executes every call, redeems nothing, and says what enforcement would have done.
func TestShadow(t *testing.T) {
	s, p := newService(t), newProvider(t)
	g := guarded(t, s, p, "shadow: true # unlocked\n", withKey)
	agent := agentOver(t, g)
	call := func(charge string, amount int, state, decision, would any) {
		t.Helper()
		r, err := agent.CallTool(t.Context(), &sdk.CallToolParams{Name: "refund", Arguments: map[string]any{"charge": charge, "amount": amount}})
		if err != nil {
			t.Fatal(err)
		}
		if r.Meta[metaState] != state || r.Meta[metaDecision] != decision || r.Meta[metaShadow] != would {
			t.Errorf("%s %d: %v", charge, amount, r.Meta)
		}
	}
	call("ch_1", 1, stateExecuted, "allow", stateExecuted)
	call("ch_1", 1, stateExecuted, "allow", stateExecuted) // and the provider gets another key
	call("ch_2", 60_000, stateExecuted, "block", stateRefused)
	call("ch_3", 45_000, stateExecuted, "escalate", statePending)
	p.behave = func(int) (bool, string, error) { return false, "card_declined", nil }
	call("ch_4", 1, stateError, "allow", stateExecuted)
	p.behave = func(int) (bool, string, error) { return true, "", errors.New("timeout") }
	call("ch_5", 1, stateInDoubt, "allow", stateExecuted)
	p.behave = nil
	s.became(t, "allow", "block", "escalate", "allow", "allow")
	s.breaks(func(*http.Request) (bool, bool) { return true, false })
	call("ch_6", 1, stateExecuted, nil, stateError)
	if len(p.paid()) != 6 {
		t.Error(p.paid())
	}
	if got := testutil.ToFloat64(g.metrics.calls.WithLabelValues("psp", "refund", stateExecuted, stateExecuted)); got != 2 {
		t.Errorf("a shadow's calls: %v", got)
	}
}

// TestShadowLog: the log says what enforcement would refuse, and nothing that an argument has in it.
func TestShadowLog(t *testing.T) {
	s, p := newService(t), newProvider(t)
	p.schema["properties"].(map[string]any)["note"] = map[string]any{"type": "string", "pattern": "^a"}
	g := guarded(t, s, p, "shadow: true\n", "")
	log := new(strings.Builder)
	g.Logger = slog.New(slog.NewTextHandler(log, nil))
	agent := agentOver(t, g)
	for rule, arguments := range map[string]map[string]any{
		"note breaks pattern":      {"charge": "ch_secret", "amount": 1, "note": "secret"},
		"amount got string, want":  {"charge": "ch_secret", "amount": "secret"},
		"amount has more digits":   {"charge": "ch_secret", "amount": json.RawMessage("9007199254740993")},
		"argument charge must not": {"charge": "secret\u200b", "amount": 1},
	} {
		log.Reset()
		must.Get(agent.CallTool(t.Context(), &sdk.CallToolParams{Name: "refund", Arguments: arguments}))(t)
		if said := log.String(); !strings.Contains(said, rule) || strings.Contains(said, "secret") || strings.Contains(said, "9007") {
			t.Errorf("%s: %s", rule, said)
		}
	}
}

// TestMetrics counts calls by how they ended.
func TestMetrics(t *testing.T) {
	s, p := newService(t), newProvider(t)
	g := guarded(t, s, p, "", "")
	agent := agentOver(t, g)
	wants(t, agent, "ch_1", 1, stateExecuted, "")
	wants(t, agent, "ch_1", 1, stateAlready, "")
	wants(t, agent, "ch_2", "1", stateError, "")
	s.breaks(func(r *http.Request) (bool, bool) { return isReport(r), false })
	wants(t, agent, "ch_3", 1, stateExecuted, "")
	s.breaks(nil)
	for state, want := range map[string]float64{stateExecuted: 2, stateAlready: 1, stateError: 1, stateRefused: 0} {
		if got := testutil.ToFloat64(g.metrics.calls.WithLabelValues("psp", "refund", state, "")); got != want {
			t.Errorf("%s: %v, want %v", state, got, want)
		}
	}
	if n := testutil.ToFloat64(g.metrics.unrecorded); n == 0 {
		t.Error("no report failed")
	}
	if n, m := testutil.ToFloat64(g.metrics.sessions), testutil.ToFloat64(g.metrics.inFlight); n != 1 || m != 0 {
		t.Errorf("%v sessions, %v calls in flight", n, m)
	}
}

// TestMetricsAreShown: the dashboard, the rules and the runbook ask for metrics that a gateway has, by labels that they have.
func TestMetricsAreShown(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := newMetrics(registry)
	m.ended("psp", "refund", end{}, time.Second)
	m.ends.WithLabelValues("psp")
	families := must.Get(registry.Gather())(t)
	labels := make(map[string][]string)
	for _, f := range families {
		has := []string{"job", "deployment", "instance", "le"}
		for _, l := range f.GetMetric()[0].GetLabel() {
			has = append(has, l.GetName())
		}
		labels[f.GetName()], labels[f.GetName()+"_bucket"] = has, has
	}
	for _, name := range []string{"deploy/grafana/spendgate.json", "deploy/prometheus/rules.yaml", "docs/operate/runbook.md"} {
		path := "../../../" + name
		text := must.Get(os.ReadFile(path))(t)
		asked := 0
		for line := range strings.Lines(string(text)) {
			for _, name := range regexp.MustCompile(`spendgate_gateway_\w+`).FindAllString(line, -1) {
				if asked++; labels[name] == nil {
					t.Errorf("%s names %s, which no gateway has", path, name)
				}
				for _, by := range regexp.MustCompile(`by \(([^)]*)\)|(\w+)=~?\\?"`).FindAllStringSubmatch(line, -1) {
					for label := range strings.SplitSeq(by[1]+by[2], ", ") {
						if !slices.Contains(labels[name], label) {
							t.Errorf("%s asks %s by %s, which it has not", path, name, label)
						}
					}
				}
			}
		}
		if asked == 0 {
			t.Errorf("%s asks nothing", path)
		}
	}
}
