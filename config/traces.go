package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Traces says where traces go. It is read from the standard variables of
// OpenTelemetry; those that are about the traces themselves, such as
// OTEL_TRACES_SAMPLER, are read by its SDK and only checked here.
type Traces struct {
	URL     Secret // of the collector's path for traces; may hold a password; empty for no traces
	Headers map[string]Secret
	Timeout time.Duration
	Gzip    bool
}

const (
	otlpPrefix         = "OTEL_EXPORTER_OTLP_"
	otlpDefaultTimeout = 10 * time.Second
)

// readTraces reads the OTEL_... variables and adds faults to s, under their full
// names.
func readTraces(environ []string, s *source) Traces {
	env := make(map[string]string)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if value = strings.TrimSpace(value); strings.HasPrefix(name, "OTEL_") && value != "" {
			env[name] = value
		}
	}
	t := Traces{Timeout: otlpDefaultTimeout}
	if strings.EqualFold(env["OTEL_SDK_DISABLED"], "true") || env["OTEL_TRACES_EXPORTER"] == "none" {
		return Traces{}
	}
	s.readOTLP(env, "ENDPOINT", t.readBase)
	s.readOTLP(env, "TRACES_ENDPOINT", t.readURL)
	if t.URL == "" {
		return Traces{}
	}
	for _, v := range []struct {
		name string
		read func(string) error
	}{
		{"HEADERS", t.readHeaders}, {"TIMEOUT", t.readTimeout}, {"COMPRESSION", t.readCompression}, {"PROTOCOL", readProtocol},
	} {
		name := v.name
		if env[otlpPrefix+"TRACES_"+name] != "" { // the more specific one wins
			name = "TRACES_" + name
		}
		s.readOTLP(env, name, v.read)
	}
	checkSDK(env, s)
	return t
}

// checkSDK looks at what the SDK reads by itself: of bad values it would say
// nothing and take others, or panic.
func checkSDK(env map[string]string, s *source) {
	for _, name := range []string{"SCHEDULE_DELAY", "EXPORT_TIMEOUT", "MAX_QUEUE_SIZE", "MAX_EXPORT_BATCH_SIZE"} {
		const prefix, most = "OTEL_BSP_", 1_000_000
		if text := env[prefix+name]; text != "" {
			if n, err := strconv.Atoi(text); err != nil || n < 1 || n > most {
				s.faults = append(s.faults, fmt.Errorf("%s: must be a whole number from 1 to %d, not %q", prefix+name, most, text))
			}
		}
	}
	const sampler = "OTEL_TRACES_SAMPLER"
	known := []string{"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"}
	name := strings.ToLower(env[sampler])
	if name != "" && !slices.Contains(known, name) {
		s.faults = append(s.faults, fmt.Errorf("%s: must be one of %s, not %q", sampler, strings.Join(known, ", "), name))
	}
	if arg := env[sampler+"_ARG"]; arg != "" && strings.HasSuffix(name, "traceidratio") {
		if ratio, err := strconv.ParseFloat(arg, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
			s.faults = append(s.faults, fmt.Errorf("%s_ARG: must be a number from 0 to 1, not %q", sampler, arg))
		}
	}
}

func (s *source) readOTLP(env map[string]string, name string, read func(string) error) {
	if value := env[otlpPrefix+name]; value != "" {
		if err := read(value); err != nil {
			s.faults = append(s.faults, errors.New(otlpPrefix+name+": "+err.Error()))
		}
	}
}

// readBase takes the address that all signals have in common.
func (t *Traces) readBase(text string) error {
	return t.readURL(strings.TrimSuffix(text, "/") + "/v1/traces")
}

func (t *Traces) readURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("must be the address of a collector that takes OTLP over HTTP: http://collector:4318")
	}
	t.URL = Secret(text)
	return nil
}

// readHeaders takes name=value pairs, percent-encoded, separated by commas.
func (t *Traces) readHeaders(text string) error {
	t.Headers = make(map[string]Secret)
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil || strings.ContainsAny(name+value, "\r\n") {
			return errors.New("must be name=value, percent-encoded, separated by commas")
		}
		t.Headers[name] = Secret(value)
	}
	return nil
}

func (t *Traces) readTimeout(text string) error {
	ms, err := strconv.ParseUint(text, 10, 31)
	if err != nil || ms == 0 {
		return fmt.Errorf("must be milliseconds, not %q", text)
	}
	t.Timeout = time.Duration(ms) * time.Millisecond
	return nil
}

func (t *Traces) readCompression(text string) error {
	if text != "gzip" && text != "none" {
		return fmt.Errorf("must be gzip or none, not %q", text)
	}
	t.Gzip = text == "gzip"
	return nil
}

func readProtocol(text string) error {
	if text != "http/protobuf" {
		return fmt.Errorf("must be http/protobuf, the only supported protocol, not %q", text)
	}
	return nil
}
