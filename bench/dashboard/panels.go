package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/load/chart"
)

// drawn are the titles of the panels in the picture, in its order.
func drawn() []string {
	return []string{
		"Decisions a second", "Why not allowed", "Replays, duplicates and refusals",
		"Check", "Check by stage", "Redis and PostgreSQL",
		"Answers a second that are not 2xx", "Redis' windows", "Batch sizes",
	}
}

// panel is one of the dashboard's.
type panel struct {
	Type, Title string
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct{ Defaults struct{ Unit string } }
}

// readPanels gives the panels to draw of a Grafana dashboard.
func readPanels(path string) ([]panel, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the dashboard: %w", err)
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(content, &dashboard); err != nil {
		return nil, fmt.Errorf("cannot read the dashboard: %w", err)
	}
	var panels []panel
	for _, title := range drawn() {
		i := slices.IndexFunc(dashboard.Panels, func(p panel) bool { return p.Title == title && p.Type == "timeseries" })
		if i < 0 {
			return nil, fmt.Errorf("the dashboard has no panel %q", title)
		}
		panels = append(panels, dashboard.Panels[i])
	}
	return panels, nil
}

const step = time.Second

// draw asks the panel's queries, with a short interval for rates: the picture's
// span is short, too.
func (p panel) draw(ctx context.Context, watch *fleet.Prometheus, from, to time.Time) (chart.LinePanel, error) {
	drawn := chart.LinePanel{Title: p.Title}
	if p.FieldConfig.Defaults.Unit == "s" {
		drawn.Unit = chart.Seconds
	}
	variables := strings.NewReplacer("$job", "spendgate", "$instance", ".*", "$__rate_interval", "5s")
	for _, target := range p.Targets {
		all, err := watch.Range(ctx, variables.Replace(target.Expr), from, to, step)
		if err != nil {
			return chart.LinePanel{}, fmt.Errorf("panel %q: %w", p.Title, err)
		}
		for _, samples := range all {
			line := chart.Line{Name: legend(target.LegendFormat, samples.Labels), Step: step}
			for _, v := range samples.Values {
				line.Points = append(line.Points, chart.Point{At: v.At, Value: v.Value})
			}
			drawn.Lines = append(drawn.Lines, line)
		}
	}
	slices.SortStableFunc(drawn.Lines, func(a, b chart.Line) int { return cmp.Compare(a.Name, b.Name) })
	return drawn, nil
}

// legend is a line's name, as Grafana makes it of the labels.
func legend(format string, labels map[string]string) string {
	label := regexp.MustCompile(`\{\{(\w+)\}\}`)
	return label.ReplaceAllStringFunc(format, func(field string) string { return labels[strings.Trim(field, "{}")] })
}
