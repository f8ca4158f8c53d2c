package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"spendgate/bench/must"
)

// TestCommandsAreShown: the metrics of probes and verifications that the dashboard and the rules use
// exist, with the labels that they use. Another test does this for the metrics of nodes, with a fleet.
func TestCommandsAreShown(t *testing.T) {
	labels := labelsOfCommands(t)
	for _, path := range []string{"../../deploy/grafana/spendgate.json", "../../deploy/prometheus/rules.yaml"} {
		text := must.Get(os.ReadFile(path))(t)
		asked := 0
		for _, expr := range regexp.MustCompile(`(?m)^\s*"?expr"?: .*`).FindAllString(string(text), -1) {
			for _, name := range regexp.MustCompile(`spendgate_(?:verify|probe)\w*`).FindAllString(expr, -1) {
				has, is := labels[name]
				if !is {
					t.Errorf("%s names %s, which no command has", path, name)
				}
				asked++
				for _, by := range regexp.MustCompile(`by \(([^)]*)\)|(\w+)[!=]~?\\?"`).FindAllStringSubmatch(expr, -1) {
					for label := range strings.SplitSeq(by[1]+by[2], ", ") {
						if !slices.Contains(append([]string{"job", "instance"}, has...), label) {
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

// labelsOfCommands returns the samples of a probe and of a verification, with their labels.
func labelsOfCommands(t *testing.T) map[string][]string {
	t.Helper()
	gatherer, registry := newRegistry("cell-1")
	newProbeMetrics(registry)
	families := must.Get(gatherer.Gather())(t)
	path := filepath.Join(t.TempDir(), "verify.prom")
	runWith(t, []string{"SPENDGATE_DEPLOYMENT=cell-1"}, "", "audit", "verify", "--data-dir", path, "--metrics-file", path).
		Check(t, 1, "", "--data-dir")
	file := must.Get(os.Open(path))(t)
	defer file.Close() //nolint:errcheck // it was only read
	parser := expfmt.NewTextParser(model.UTF8Validation)
	written := must.Get(parser.TextToMetricFamilies(file))(t)
	for _, f := range written {
		families = append(families, f)
	}
	labels := make(map[string][]string)
	for _, f := range families {
		var names []string
		for _, label := range f.GetMetric()[0].GetLabel() {
			names = append(names, label.GetName())
		}
		labels[f.GetName()] = names
		if f.GetMetric()[0].GetHistogram() != nil {
			labels[f.GetName()+"_bucket"] = append(names, "le")
		}
	}
	return labels
}
