package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Prometheus is a server that scrapes nodes, as job="spendgate", each second.
type Prometheus struct {
	*Process
	base string
	http *http.Client
}

// StartPrometheus starts one, with its files in dir, and waits until it answers.
func StartPrometheus(ctx context.Context, dir string, nodes []*Node) (*Prometheus, error) {
	path, err := exec.LookPath(os.Getenv("TEST_PROMETHEUS"))
	if err != nil {
		if path, err = exec.LookPath("prometheus"); err != nil {
			return nil, errors.New("cannot find prometheus; install it or name it by TEST_PROMETHEUS")
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	targets := make([]string, len(nodes))
	for i, n := range nodes {
		targets[i] = strconv.Quote(strings.TrimPrefix(n.Ops, "http://"))
	}
	config := filepath.Join(dir, "prometheus.yaml")
	content := "global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: spendgate\n    static_configs: [{targets: [" +
		strings.Join(targets, ", ") + "]}]\n"
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		return nil, fmt.Errorf("cannot configure prometheus: %w", err)
	}
	p := &Prometheus{
		Process: &Process{
			name: "prometheus", path: path, logPath: filepath.Join(dir, "prometheus.log"),
			args: []string{
				"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "prometheus"),
				"--web.listen-address=" + loopback(port),
			},
		},
		base: "http://" + loopback(port), http: newHTTPClient(),
	}
	if err := p.start(); err != nil {
		return nil, err
	}
	if err := p.await(ctx, func(ctx context.Context) error {
		_, err := p.Range(ctx, "up", time.Now(), time.Now(), time.Second)
		return err
	}); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, p.Log()), p.Kill())
	}
	return p, nil
}

// Samples are the values of one series.
type Samples struct {
	Labels map[string]string
	Values []Sample
}

// Sample is a value at a time.
type Sample struct {
	At    time.Time
	Value float64
}

// Range evaluates an expression at each step of a span.
func (p *Prometheus) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Samples, error) {
	unix := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
	query := url.Values{"query": {expr}, "start": {unix(from)}, "end": {unix(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', 3, 64)}}
	client := Client{Base: p.base, HTTP: p.http}
	answer, err := client.Do(ctx, http.MethodGet, "/api/v1/query_range?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	var body struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	if err := json.Unmarshal(answer.Body, &body); err != nil || answer.Status != http.StatusOK {
		return nil, fmt.Errorf("prometheus answers %s to %s: %w", answer, expr, err)
	}
	var all []Samples
	for _, r := range body.Data.Result {
		s := Samples{Labels: r.Metric}
		for _, v := range r.Values {
			at, _ := v[0].(float64)
			text, _ := v[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("prometheus answers the value %q to %s: %w", text, expr, err)
			}
			s.Values = append(s.Values, Sample{time.UnixMilli(int64(at * 1000)), value})
		}
		all = append(all, s)
	}
	return all, nil
}
