package stack

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// Metrics are a node's counters and gauges by name and labels, as /metrics
// shows them.
type Metrics map[string]float64

// Metrics reads what the node counts.
func (n *Node) Metrics(ctx context.Context) (Metrics, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Ops+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("cannot read the node's metrics: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	m := make(Metrics)
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		line := lines.Text()
		space := strings.LastIndexByte(line, ' ')
		if space < 0 || line[0] == '#' {
			continue
		}
		if value, err := strconv.ParseFloat(line[space+1:], 64); err == nil {
			m[line[:space]] = value
		}
	}
	return m, lines.Err()
}

// Sum adds up a metric over its labels.
func (m Metrics) Sum(name string) float64 {
	var sum float64
	for key, value := range m {
		if key == name || strings.HasPrefix(key, name+"{") {
			sum += value
		}
	}
	return sum
}

// Since gives the increase of a metric.
func (m Metrics) Since(before Metrics, name string) float64 { return m.Sum(name) - before.Sum(name) }

// Resident is the memory of the server in bytes, as the kernel counts it.
func (s *Server) Resident() (int64, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID()) + "/statm")
	if err != nil {
		return 0, err
	}
	const resident = 1
	words := strings.Fields(string(content))
	if len(words) <= resident {
		return 0, fmt.Errorf("/proc/%d/statm is short", s.PID())
	}
	pages, err := strconv.ParseInt(words[resident], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
