package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTraces(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318/"
	for _, test := range []struct {
		environ []string
		want    Traces
	}{
		{nil, Traces{}},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT= ", "OTEL_EXPORTER_OTLP_TIMEOUT=nonsense"}, Traces{}},
		{[]string{endpoint}, Traces{URL: "http://collector:4318/v1/traces", Timeout: 10 * time.Second}},
		{[]string{endpoint, "OTEL_SDK_DISABLED=TRUE"}, Traces{}},
		{[]string{endpoint, "OTEL_TRACES_EXPORTER=none"}, Traces{}},
		{
			[]string{
				endpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://other/path", "OTEL_EXPORTER_OTLP_HEADERS=a=1",
				"OTEL_EXPORTER_OTLP_TRACES_HEADERS=Authorization=Bearer%20x, b=2=3", "OTEL_EXPORTER_OTLP_TIMEOUT=250",
				"OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
			},
			Traces{
				URL: "https://other/path", Timeout: 250 * time.Millisecond, Gzip: true,
				Headers: map[string]Secret{"Authorization": "Bearer x", "b": "2=3"},
			},
		},
	} {
		c, err := Load(test.environ, Dev, driver)
		if got, want := fmt.Sprint(plainly(c.Traces)), fmt.Sprint(plainly(test.want)); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", test.environ, got, err, want)
		}
		if text := fmt.Sprintf("%+v %#v", c, c); strings.Contains(text, "Bearer") || strings.Contains(text, "collector") {
			t.Errorf("shown: %s", text)
		}
	}
	bad := []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318", endpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://hunter2@c",
		"OTEL_EXPORTER_OTLP_HEADERS=hunter2",
		"OTEL_EXPORTER_OTLP_TIMEOUT=0", "OTEL_EXPORTER_OTLP_COMPRESSION=zip", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
	}
	_, err := Load(bad, Dev, driver)
	for _, name := range []string{"HEADERS", "TIMEOUT", "COMPRESSION", "PROTOCOL"} {
		if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_"+name+": must be") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Load(bad[:1], Dev, driver); err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_ENDPOINT: must be the address") {
		t.Error(err)
	}
}

// Settings that the SDK reads by itself are checked, since the SDK ignores bad values or panics.
// Without a collector nothing is read.
func TestTracesOfTheSDK(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318"
	for _, good := range []string{
		"OTEL_BSP_SCHEDULE_DELAY=1", "OTEL_BSP_EXPORT_TIMEOUT=30000", "OTEL_BSP_MAX_QUEUE_SIZE=1000000", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=512",
		"OTEL_BSP_MAX_QUEUE_SIZE=", "OTEL_TRACES_SAMPLER=Always_Off", "OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=0",
		"OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=1", "OTEL_TRACES_SAMPLER=always_on OTEL_TRACES_SAMPLER_ARG=unused",
	} {
		if _, err := Load(append(strings.Fields(good), endpoint), Dev, driver); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"OTEL_BSP_SCHEDULE_DELAY=0", "OTEL_BSP_EXPORT_TIMEOUT=30s", "OTEL_BSP_MAX_QUEUE_SIZE=-1", "OTEL_BSP_MAX_QUEUE_SIZE=1000001",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE=-5", "OTEL_TRACES_SAMPLER=traceidration", "OTEL_TRACES_SAMPLER_ARG=1.1 OTEL_TRACES_SAMPLER=traceidratio",
		"OTEL_TRACES_SAMPLER_ARG=-0.1 OTEL_TRACES_SAMPLER=parentbased_traceidratio",
		"OTEL_TRACES_SAMPLER_ARG=NaN OTEL_TRACES_SAMPLER=traceidratio",
	} {
		name, _, _ := strings.Cut(bad, "=")
		if _, err := Load(append(strings.Fields(bad), endpoint), Dev, driver); err == nil || !strings.Contains(err.Error(), name+": must be ") {
			t.Errorf("%s: %v", bad, err)
		}
		if _, err := Load(strings.Fields(bad), Dev, driver); err != nil {
			t.Errorf("%s without a collector: %v", bad, err)
		}
	}
}

// plainly returns the fields with their secrets as strings.
func plainly(t Traces) []any {
	headers := make(map[string]string)
	for name, value := range t.Headers {
		headers[name] = string(value)
	}
	return []any{string(t.URL), headers, t.Timeout, t.Gzip}
}
