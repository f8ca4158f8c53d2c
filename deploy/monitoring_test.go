package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"spendgate/bench/must"
)

// rule is a recording or an alert rule.
type rule struct {
	Record      string
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

// The files of rules: for nodes and probes, and for the servers that nodes depend on.
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
	content := must.Get(os.ReadFile("grafana/spendgate.json"))(t)
	var dashboard struct{ Panels []panel }
	must.Do(t, json.Unmarshal(content, &dashboard))
	return slices.DeleteFunc(dashboard.Panels, func(p panel) bool { return p.Type == "row" })
}

// query returns an expression as Grafana expands it.
func (p panel) query(expr string) string {
	return strings.NewReplacer("$job", "spendgate", "$deployment", ".*", "$instance", ".*", "$__rate_interval", "1m").Replace(expr)
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

// Every alert links to a section of the runbook with its name and there is no other such section.
// Each section says where to look and what to do, and what the alert means where its summary leaves that open.
func TestAlertsHaveSections(t *testing.T) {
	page := must.Get(os.ReadFile("../docs/operate/runbook.md"))(t)
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
		for part, least := range map[string]int{"\n- **Means**: ": 0, "\n- **Look**: ": 1, "\n- **Do**: ": 1} {
			if n := strings.Count(sections[r.Alert], part); n < least || n > 1 {
				t.Errorf("runbook.md: the section %s has %d of %q", r.Alert, n, part)
			}
		}
		if want := "docs/operate/runbook.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		if s := r.Labels["severity"]; r.Annotations["summary"] == "" || s != "page" && s != "ticket" {
			t.Errorf("%s: no summary, or severity %q", r.Alert, s)
		}
	}
	for title := range sections {
		if !alerts[title] {
			t.Errorf("runbook.md has a section for %s, which is no alert", title)
		}
	}
}

// The chart's nodes and its verification have the name of the release, by which alerts are grouped.
func TestChartNamesItsDeployment(t *testing.T) {
	for _, name := range []string{"deployment", "verify"} {
		text, err := os.ReadFile("helm/spendgate/templates/" + name + ".yaml")
		if err != nil || !strings.Contains(string(text), "- {name: SPENDGATE_DEPLOYMENT, value: {{ .Release.Name | quote }}}\n") {
			t.Errorf("%s.yaml: its metrics are of no deployment, %v", name, err)
		}
	}
	monitor, err := os.ReadFile("helm/spendgate/templates/monitoring.yaml")
	if err != nil || !strings.Contains(string(monitor), "{targetLabel: deployment, replacement: {{ $.Release.Name | quote }}}") ||
		!strings.Contains(string(monitor), "honorLabels: true") {
		t.Errorf("monitoring.yaml: the metric up is of no deployment, %v", err)
	}
}

// Inhibition names only existing alerts and stays within a deployment: what is down in one cell
// hides nothing of another.
func TestInhibition(t *testing.T) {
	var file struct {
		Rules []struct {
			Source []string `yaml:"source_matchers"`
			Equal  []string
		} `yaml:"inhibit_rules"`
	}
	readYAML(t, "prometheus/alertmanager.yaml", &file)
	for _, r := range file.Rules {
		if !slices.Contains(r.Equal, "deployment") {
			t.Errorf("%q inhibits alerts of other deployments", r.Source)
		}
	}
	alerts := make(map[string]bool)
	for _, r := range allRules(t) {
		alerts[r.Alert] = true
	}
	content := must.Get(os.ReadFile("prometheus/alertmanager.yaml"))(t)
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
		c.Dir, c.Env = "prometheus", append(os.Environ(), "GOGC=800") // a quarter of its time is the collector's
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
	compose := must.Get(os.ReadFile("compose.yaml"))(t)
	for _, name := range configuration.RuleFiles {
		if !strings.Contains(string(compose), fmt.Sprintf("- ./prometheus/%s:/etc/prometheus/%[1]s:ro\n", name)) {
			t.Errorf("compose.yaml does not mount %s", name)
		}
	}
	if len(configuration.RuleFiles) == 0 {
		t.Error("no files of rules")
	}
}

// The command of metrics.md makes every runbook_url an address, and nothing else
// of the rules another.
func TestRunbookAddress(t *testing.T) {
	page := must.Get(os.ReadFile("../docs/operate/metrics.md"))(t)
	command := regexp.MustCompile(
		`(?m)^RUNBOOK=.*\nsed .* deploy/prometheus/rules\.yaml >rules\.yaml\nsed .* deploy/prometheus/dependencies\.yaml >dependencies\.yaml$`).
		FindString(string(page))
	if command == "" {
		t.Fatal("metrics.md has no command for it")
	}
	dir := t.TempDir()
	must.Do(t, os.CopyFS(filepath.Join(dir, "deploy/prometheus"), os.DirFS("prometheus")))
	shell := exec.CommandContext(t.Context(), "sh", "-c", command)
	shell.Dir = dir
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, path := range []string{nodeRules, dependencyRules} {
		var before, after any
		readYAML(t, path, &before)
		readYAML(t, filepath.Join(dir, filepath.Base(path)), &after)
		want := strings.ReplaceAll(fmt.Sprint(before), "runbook_url:docs/operate/", "runbook_url:https://wiki.example.com/spendgate/")
		if got := fmt.Sprint(after); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if !strings.Contains(want, "https://") {
			t.Errorf("no rule of %s has a runbook_url", path)
		}
	}
}
