package deploy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// rule is a recording or an alert rule.
type rule struct {
	Record      string
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

// The files of rules: of nodes and probes, and of what nodes depend on.
const (
	nodeRules       = "prometheus/rules.yaml"
	dependencyRules = "prometheus/dependencies.yaml"
)

func allRules(t *testing.T) []rule {
	t.Helper()
	return append(rules(t, nodeRules), rules(t, dependencyRules)...)
}

func rules(t *testing.T, path string) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []rule
		}
	}
	readYAML(t, path, &file)
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no rules found")
	}
	return all
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(content, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// panel is one of the dashboard's.
type panel struct {
	ID      int
	Type    string
	Title   string
	Desc    string `json:"description"`
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr, RefID string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	content, err := os.ReadFile("grafana/spendgate.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(dashboard.Panels, func(p panel) bool { return p.Type == "row" })
}

// query returns an expression as Grafana expands it.
func (p panel) query(expr string) string {
	return strings.NewReplacer("$job", "spendgate", "$instance", ".*", "$__rate_interval", "1m").Replace(expr)
}

// Every panel has a title, a description, a place of its own and a query.
func TestDashboard(t *testing.T) {
	ids := make(map[int]string)
	taken := make(map[[2]int]string)
	for _, p := range panels(t) {
		if other, twice := ids[p.ID]; twice {
			t.Errorf("%s and %s have one id", p.Title, other)
		}
		ids[p.ID] = p.Title
		if p.Title == "" || p.Desc == "" || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q: no title, description, query or size", p.ID, p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" && other != p.Title {
					t.Errorf("%s overlaps %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			if rest := p.query(target.Expr); strings.Contains(rest, "$") {
				t.Errorf("%s: an unknown variable in %s", p.Title, rest)
			}
		}
	}
}

// Alerts and the runbook's sections of their names are the same, linked, and
// each section says what it means, where to look and what to do.
func TestAlertsHaveSections(t *testing.T) {
	page, err := os.ReadFile("RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := make(map[string]string)
	for _, part := range strings.Split(string(page), "\n### ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		text, _, _ = strings.Cut(text, "\n## ")
		if strings.HasPrefix(title, "Spendgate") {
			sections[title] = text
		}
	}
	alerts := make(map[string]bool)
	for _, r := range allRules(t) {
		if r.Alert == "" {
			continue
		}
		alerts[r.Alert] = true
		for _, part := range []string{"\n- **Means**: ", "\n- **Look**: ", "\n- **Do**: "} {
			if strings.Count(sections[r.Alert], part) != 1 {
				t.Errorf("RUNBOOK.md: the section %s has not one %q", r.Alert, part)
			}
		}
		if want := "deploy/RUNBOOK.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		if s := r.Labels["severity"]; r.Annotations["summary"] == "" || s != "page" && s != "ticket" {
			t.Errorf("%s: no summary, or severity %q", r.Alert, s)
		}
	}
	for title := range sections {
		if !alerts[title] {
			t.Errorf("RUNBOOK.md has a section for %s, which is no alert", title)
		}
	}
}

// Inhibition is among alerts that there are.
func TestInhibition(t *testing.T) {
	alerts := make(map[string]bool)
	for _, r := range allRules(t) {
		alerts[r.Alert] = true
	}
	content, err := os.ReadFile("prometheus/alertmanager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\bSpendgate\w+`).FindAllString(string(content), -1)
	for _, name := range names {
		if !alerts[name] {
			t.Errorf("alertmanager.yaml names %s, which is no alert", name)
		}
	}
	if len(names) == 0 {
		t.Error("alertmanager.yaml names no alert")
	}
}

// The unit tests of the rules pass, and each alert fires and is silent in them.
func TestRules(t *testing.T) {
	t.Parallel()
	fires, silent := make(map[string]bool), make(map[string]bool)
	for _, path := range []string{nodeRules, dependencyRules} {
		var file struct {
			Tests []struct {
				AlertRuleTest []struct {
					Alertname string
					ExpAlerts []any `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		readYAML(t, strings.TrimSuffix(path, ".yaml")+"_test.yaml", &file)
		for _, test := range file.Tests {
			for _, c := range test.AlertRuleTest {
				fires[c.Alertname] = fires[c.Alertname] || len(c.ExpAlerts) > 0
				silent[c.Alertname] = silent[c.Alertname] || len(c.ExpAlerts) == 0
			}
		}
	}
	for _, r := range allRules(t) {
		if r.Alert != "" && (!fires[r.Alert] || !silent[r.Alert]) {
			t.Errorf("the tests of rules: %s fires: %v, is silent: %v", r.Alert, fires[r.Alert], silent[r.Alert])
		}
	}

	promtool := filepath.Join(filepath.Dir(os.Getenv("TEST_PROMETHEUS")), "promtool")
	if os.Getenv("TEST_PROMETHEUS") == "" {
		t.Skip("needs Prometheus: run it by make test, which installs it")
	}
	for _, args := range [][]string{
		{"check", "rules", "rules.yaml", "dependencies.yaml"},
		{"check", "config", "prometheus.yaml"},
		{"test", "rules", "rules_test.yaml", "dependencies_test.yaml"},
	} {
		c := exec.CommandContext(t.Context(), promtool, args...)
		c.Dir = "prometheus"
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}

// The Prometheus of compose.yaml gets every file of rules that its configuration names.
func TestComposeMountsRules(t *testing.T) {
	var configuration struct {
		RuleFiles []string `yaml:"rule_files"`
	}
	readYAML(t, "prometheus/prometheus.yaml", &configuration)
	compose, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range configuration.RuleFiles {
		if !strings.Contains(string(compose), fmt.Sprintf("- ./prometheus/%s:/etc/prometheus/%[1]s:ro\n", name)) {
			t.Errorf("compose.yaml does not mount %s", name)
		}
	}
	if len(configuration.RuleFiles) == 0 {
		t.Error("no files of rules")
	}
}

// The runbook's command makes every runbook_url an address, and nothing else
// of the rules another.
func TestRunbookAddress(t *testing.T) {
	page, err := os.ReadFile("RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(
		`(?m)^RUNBOOK=.*\nsed .* deploy/prometheus/rules\.yaml >rules\.yaml\nsed .* deploy/prometheus/dependencies\.yaml >dependencies\.yaml$`).
		FindString(string(page))
	if command == "" {
		t.Fatal("RUNBOOK.md has no command for it")
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "deploy/prometheus"), os.DirFS("prometheus")); err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", command)
	shell.Dir = dir
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, path := range []string{nodeRules, dependencyRules} {
		var before, after any
		readYAML(t, path, &before)
		readYAML(t, filepath.Join(dir, filepath.Base(path)), &after)
		want := strings.ReplaceAll(fmt.Sprint(before), "runbook_url:deploy/", "runbook_url:https://wiki.example.com/spendgate/")
		if got := fmt.Sprint(after); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if !strings.Contains(want, "https://") {
			t.Errorf("no rule of %s has a runbook_url", path)
		}
	}
}

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
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Errorf("%s answers %s: %s", url, response.Status, body)
		return nil
	}
	return body
}

// eventually asks again while the answer is not there: what was scraped and
// evaluated takes its time.
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

// Every metric that the dashboard and the rules name is one of a loaded node,
// and METRICS.md explains exactly those that there are.
func (f *localFleet) compareMetrics(t *testing.T) {
	families, samples := f.liveMetrics(t)
	explained, absent := explainedMetrics(t)
	for _, r := range rules(t, nodeRules) {
		if r.Record != "" {
			samples[r.Record] = true
		}
	}
	for what, expr := range expressions(t) {
		names := regexp.MustCompile(`\b(?:spendgate|go|process)[_:][a-z0-9_:]+|\bup\b`).FindAllString(expr, -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric: %s", what, expr)
		}
		for _, name := range names {
			if !samples[name] && !absent[name] && !ofCommands(name) {
				t.Errorf("%s names %s, which no node has", what, name)
			}
		}
	}
	for name := range families {
		if strings.HasPrefix(name, "spendgate_") && !explained[name] {
			t.Errorf("METRICS.md does not explain %s", name)
		}
	}
	for name := range explained {
		if !families[name] && !absent[name] && !ofCommands(name) {
			t.Errorf("METRICS.md explains %s, which no node of a fleet has", name)
		}
	}
}

// explainedMetrics returns the metrics that METRICS.md explains, and those of them
// that are absent as long as nothing was counted.
func explainedMetrics(t *testing.T) (explained, absent map[string]bool) {
	t.Helper()
	page, err := os.ReadFile("METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	explained, absent = make(map[string]bool), make(map[string]bool)
	for _, found := range regexp.MustCompile("(?m)^\\| `(spendgate_[a-z_]+)` \\|(.*)").FindAllSubmatch(page, -1) {
		explained[string(found[1])] = true
		absent[string(found[1])] = strings.Contains(string(found[2]), "Absent until there is one.")
	}
	return explained, absent
}

// nothingYet reports whether an expression may have no result in a fleet at work:
// it names a metric that is absent until there is one, or one of a file.
func nothingYet(expr string, absent map[string]bool) bool {
	return slices.ContainsFunc(regexp.MustCompile(`spendgate_[a-z_]+`).FindAllString(expr, -1), func(name string) bool {
		return absent[name] || ofCommands(name)
	})
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

// Every query of the dashboard has a result under load, but for what is absent
// until there is one, and figures where the load makes them so. What is selected by labels is there.
func (f *localFleet) askDashboard(t *testing.T) {
	_, absent := explainedMetrics(t)
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			query := p.query(target.Expr)
			if nothingYet(query, absent) {
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

// ofCommands reports whether `audit verify` writes the metric to a file, or `probe` serves it.
func ofCommands(name string) bool {
	return strings.HasPrefix(name, "spendgate_verify_") || strings.HasPrefix(name, "spendgate_probe")
}

// Prometheus has loaded and evaluated the rules, what they select by labels is
// there, and the alerts of a fleet at work are silent.
func (f *localFleet) askRules(t *testing.T) {
	_, absent := explainedMetrics(t)
	selectors := make(map[string]bool)
	for _, expr := range expressions(t) {
		for _, selector := range regexp.MustCompile(`[a-z_:]+\{[^}]*\}`).FindAllString(expr, -1) {
			selectors[selector] = true
		}
	}
	for _, selector := range slices.Sorted(maps.Keys(selectors)) {
		if len(f.ask(t, selector)) == 0 && !nothingYet(selector, absent) {
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
