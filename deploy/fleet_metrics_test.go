package deploy_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// ask returns the results of a query to the fleet's Prometheus: labels, and the
// last value.
func (f *localFleet) ask(t *testing.T, query string) []sample {
	t.Helper()
	var answer struct {
		Data struct {
			Result []sample
		}
	}
	f.askAPI(t, "query?query="+url.QueryEscape(query), &answer)
	return answer.Data.Result
}

// sample is one result of an instant query.
type sample struct {
	Metric map[string]string
	Value  [2]any // time and value
}

func (s sample) value() float64 {
	text, _ := s.Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

func (f *localFleet) askAPI(t *testing.T, path string, into any) {
	t.Helper()
	if body := fetch(t, f.urls["prometheus"]+"/api/v1/"+path); body != nil {
		if err := json.Unmarshal(body, into); err != nil {
			t.Errorf("prometheus answers %s: %v", body, err)
		}
	}
}

// fetch returns a page, or nil and a fault if its status is not 200.
func fetch(t *testing.T, url string) []byte {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	response, err := http.DefaultClient.Do(request)
	must.Do(t, err)
	defer response.Body.Close() //nolint:errcheck // only read
	body := must.Get(io.ReadAll(response.Body))(t)
	if response.StatusCode != http.StatusOK {
		t.Errorf("%s answers %s: %s", url, response.Status, body)
		return nil
	}
	return body
}

// eventually repeats a question until it has its answer, since scraping and evaluation take time.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("still not: %s", what)
			return
		}
	}
}

// scraped: Prometheus sees all three nodes.
func (f *localFleet) scraped(t *testing.T) {
	eventually(t, "three nodes are up", func() bool {
		var up []string
		for _, s := range f.ask(t, `up{job="spendgate"} == 1`) {
			up = append(up, s.Metric["instance"])
		}
		slices.Sort(up)
		return slices.Equal(up, nodeNames)
	})
}

// liveMetrics returns the names and samples that the fleet's nodes have, all
// together: one that has just started has not decided anything yet.
func (f *localFleet) liveMetrics(t *testing.T) (families, samples map[string]bool) {
	t.Helper()
	families, samples = make(map[string]bool), map[string]bool{"up": true}
	for _, name := range nodeNames {
		text := fetch(t, f.urls[name+"_ops"]+"/metrics")
		for _, found := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllSubmatch(text, -1) {
			families[string(found[1])] = true
		}
		for _, found := range regexp.MustCompile(`(?m)^([a-z_]+)[ {]`).FindAllSubmatch(text, -1) {
			samples[string(found[1])] = true
		}
	}
	return families, samples
}

// seldom has happen what the metrics count that are absent until it does: a budget is exhausted, a
// report made, a webhook tried, whose receiver is not there.
func (f *localFleet) seldom(t *testing.T) {
	_, key, err := f.admin.CreateKey(t.Context(), "seldom", 100)
	must.Do(t, err)
	c := &fleet.Client{Base: f.urls["api"], Key: key, HTTP: http.DefaultClient}
	do := func(c *fleet.Client, path string, body any, want int) fleet.Answer {
		t.Helper()
		answer, err := c.Do(t.Context(), http.MethodPost, path, body)
		if err != nil || answer.Status != want {
			t.Fatalf("%s is answered %s, %v", path, answer, err)
		}
		return answer
	}
	do(f.admin, "/v1/webhooks",
		map[string]any{"url": "https://receiver.invalid/", "event_types": []string{"budget.exhausted"}}, http.StatusCreated)
	do(c, "/v1/policies", fleet.Policy{PolicyID: "seldom", Name: "Seldom", Rules: []fleet.Rule{
		{RuleID: "once", RuleType: "budget", Parameters: map[string]any{"max_count": 1, "window": "lifetime"}},
	}}, http.StatusCreated)
	var first string
	for _, customer := range []string{"first", "second"} {
		answer := do(c, "/v1/checks", fleet.Action{
			AgentID: "agent", PolicyID: "seldom", ActionType: "refund", Amount: "1", Currency: "USD", Counterparty: customer,
		}, http.StatusOK)
		first = cmp.Or(first, answer.Result().CheckID)
	}
	do(c, "/v1/checks/"+first+"/outcome", map[string]any{"status": "executed"}, http.StatusCreated)
	do(c, "/v1/checks", map[string]any{}, http.StatusUnprocessableEntity)
}

// Every metric that the dashboard and the rules name is one of a loaded node, and so is each that
// metrics.md explains.
func (f *localFleet) compareMetrics(t *testing.T) {
	namedBy := make(map[string]string)
	for name := range explainedMetrics(t) {
		namedBy[name] = "metrics.md"
	}
	for what, expr := range expressions(t) {
		names := regexp.MustCompile(`\b(?:spendgate|go|process)[_:][a-z0-9_:]+|\bup\b`).FindAllString(expr, -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric: %s", what, expr)
		}
		for _, name := range names {
			namedBy[name] = what
		}
	}
	for _, r := range rules(t, nodeRules) {
		delete(namedBy, r.Record)
	}
	var missing []string
	eventually(t, "all metrics are there", func() bool {
		families, samples := f.liveMetrics(t)
		missing = slices.DeleteFunc(slices.Sorted(maps.Keys(namedBy)), func(name string) bool {
			return families[name] || samples[name] || ofCommands(name)
		})
		return len(missing) == 0
	})
	for _, name := range missing {
		t.Errorf("%s names %s, which no node has", namedBy[name], name)
	}
}

// explainedMetrics returns the metrics that metrics.md explains.
func explainedMetrics(t *testing.T) map[string]bool {
	t.Helper()
	page := must.Get(os.ReadFile("../docs/operate/metrics.md"))(t)
	explained := make(map[string]bool)
	for _, found := range regexp.MustCompile("(?m)^\\| `(spendgate_[a-z_]+)` \\|").FindAllSubmatch(page, -1) {
		explained[string(found[1])] = true
	}
	return explained
}

// notOfNodes reports whether an expression has no result in a fleet: it names a metric of a command.
func notOfNodes(expr string) bool {
	return strings.Contains(expr, `job="spendgate-gateway"`) ||
		slices.ContainsFunc(regexp.MustCompile(`spendgate_[a-z_]+`).FindAllString(expr, -1), ofCommands)
}

// expressions returns the expressions of the dashboard and the rules, by where
// they are used.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, p := range panels(t) {
		for i, target := range p.Targets {
			all[fmt.Sprintf("the panel %q, query %d,", p.Title, i+1)] = p.query(target.Expr)
		}
	}
	for _, r := range rules(t, nodeRules) {
		all["the rule "+r.Alert+r.Record] = r.Expr
	}
	return all
}

// moving are the panels all of whose queries show more than zero under load.
var moving = []string{
	"Decisions a second", "Check p99", "Nodes up", "Why not allowed", "Replays, duplicates and refusals", "Check", "Check by stage",
	"Redis and PostgreSQL", "Requests a second", "Batch sizes", "Processors", "Memory", "Goroutines and connections",
	"Partitions ahead", "Versions",
}

// Every query of the dashboard has a result under load, and a figure above zero where the load
// causes one. Every label that it selects by exists.
func (f *localFleet) askDashboard(t *testing.T) {
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			query := p.query(target.Expr)
			if notOfNodes(query) {
				continue
			}
			least := math.Inf(-1)
			if slices.Contains(moving, p.Title) {
				least = math.SmallestNonzeroFloat64
			}
			eventually(t, p.Title+" has figures: "+query, func() bool {
				return slices.ContainsFunc(f.ask(t, query), func(s sample) bool { return s.value() >= least })
			})
		}
	}
	var decisions []string
	for _, s := range f.ask(t, `sum by (decision) (rate(spendgate_decisions_total[1m])) > 0`) {
		decisions = append(decisions, s.Metric["decision"])
	}
	slices.Sort(decisions)
	if !slices.Equal(decisions, []string{"allow", "block", "escalate"}) {
		t.Errorf("decisions: %q", decisions)
	}
}

// ofCommands reports whether `audit verify` writes the metric to a file, or `probe` or `gateway` serves it.
func ofCommands(name string) bool {
	of := func(command string) bool { return strings.HasPrefix(name, "spendgate_"+command) }
	return of("verify_") || of("probe") || of("gateway_")
}

// Prometheus has loaded and evaluated the rules, every label that they select by exists, and the
// alerts are silent while the fleet works.
func (f *localFleet) askRules(t *testing.T) {
	selectors := make(map[string]bool)
	for _, expr := range expressions(t) {
		for _, selector := range regexp.MustCompile(`[a-z_:]+\{[^}]*\}`).FindAllString(expr, -1) {
			selectors[selector] = true
		}
	}
	for _, selector := range slices.Sorted(maps.Keys(selectors)) {
		if len(f.ask(t, selector)) == 0 && !notOfNodes(selector) {
			t.Errorf("nothing is selected by %s", selector)
		}
	}
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError, State string }
			}
		}
	}
	eventually(t, "all rules are evaluated", func() bool {
		f.askAPI(t, "rules", &answer)
		count := 0
		for _, group := range answer.Data.Groups {
			for _, r := range group.Rules {
				if r.Health == "ok" {
					count++
				}
			}
		}
		return count == len(rules(t, nodeRules))
	})
	for _, group := range answer.Data.Groups {
		for _, r := range group.Rules {
			if r.State == "firing" || r.Health != "ok" {
				t.Errorf("%s is %s, %s %s", r.Name, r.State, r.Health, r.LastError)
			}
		}
	}
}
