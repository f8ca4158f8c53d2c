package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// prometheus is a server that scrapes nodes, as job="spendgate", and a gateway, if there is one, with the alert rules of
// deploy/prometheus. It scrapes more often than in production, so that changes show soon.
type prometheus struct {
	*Process
	url string
}

func newPrometheus(dir, addr string, nodes []*Node, gateway string) (*prometheus, error) {
	root, err := ModuleRoot()
	if err != nil {
		return nil, err
	}
	path, err := findPrometheus()
	if err != nil {
		return nil, err
	}
	text := fmt.Appendf(nil, `global: {scrape_interval: 2s, evaluation_interval: 2s}
rule_files: [%s]
scrape_configs:
  - job_name: spendgate
    static_configs:
`, filepath.Join(root, "deploy", "prometheus", "rules.yaml"))
	for _, n := range nodes {
		text = fmt.Appendf(text, "      - {targets: [%q], labels: {instance: %s}}\n", strings.TrimPrefix(n.Ops, "http://"), n.Name)
	}
	if gateway != "" {
		text = fmt.Appendf(text, "  - job_name: spendgate-gateway\n    static_configs: [{targets: [%q]}]\n", gateway)
	}
	config := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return nil, fmt.Errorf("cannot configure prometheus: %w", err)
	}
	return &prometheus{url: "http://" + addr, Process: &Process{
		name: "prometheus", path: path, logPath: filepath.Join(dir, "prometheus.log"),
		args: []string{
			"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "prometheus"),
			"--web.listen-address=" + addr, "--log.level=warn",
		},
	}}, nil
}

// Start starts the server, again after its end, and waits until it answers.
func (p *prometheus) Start(ctx context.Context) error { return p.startServing(ctx, p.url+"/-/ready") }
