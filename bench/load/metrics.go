package load

import (
	"bytes"
	"strconv"
	"strings"
)

// Metrics are a node's counters and gauges by name and labels.
type Metrics map[string]float64

// ParseMetrics parses the text of a node's /metrics.
func ParseMetrics(text []byte) Metrics {
	m := make(Metrics)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		space := strings.LastIndexByte(line, ' ')
		if space < 0 || line[0] == '#' {
			continue
		}
		if value, err := strconv.ParseFloat(line[space+1:], 64); err == nil {
			m[line[:space]] = value
		}
	}
	return m
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

// Since returns the increase of a metric.
func (m Metrics) Since(before Metrics, name string) float64 { return m.Sum(name) - before.Sum(name) }

// CheckID returns the id in an answer to a check, in hexadecimal; "" without one.
func CheckID(body []byte) string {
	const prefix, length = `"check_id":"chk_`, 32
	i := bytes.Index(body, []byte(prefix))
	if i < 0 || len(body) < i+len(prefix)+length {
		return ""
	}
	return string(body[i+len(prefix):][:length])
}
