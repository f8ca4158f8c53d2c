package e2e_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// readiness is the body of /readyz.
type readiness struct {
	Status       string `json:"status"`
	Mode         string `json:"mode"`
	Durability   string `json:"durability"`
	Dependencies []struct {
		Name   string `json:"name"`
		Status string `json:"status"`
	} `json:"dependencies"`
}

func readyOf(t *testing.T, n *fleet.Node) (r readiness) {
	t.Helper()
	answer := ok(t, must.Get(n.Ready(t.Context()))(t), http.StatusOK)
	if err := json.Unmarshal(answer.Body, &r); err != nil {
		t.Fatalf("/readyz: %v: %s", err, answer)
	}
	return r
}

// S27, G1: /readyz reports each dependency and the durability in force; the probes
// are not on the public listener.
func (s *suite) operations(t *testing.T) {
	for _, n := range s.Nodes[:2] {
		r := readyOf(t, n)
		dependencies := make(map[string]string)
		for _, d := range r.Dependencies {
			dependencies[d.Name] = d.Status
		}
		if r.Status != "ready" || dependencies["redis"] != "ok" || dependencies["store"] != "ok" {
			t.Errorf("/readyz: %+v", r)
		}
		for _, setting := range []string{"fsync on", "synchronous_commit on", "no synchronous standby"} {
			if !strings.Contains(r.Durability, setting) {
				t.Errorf("/readyz does not say %q: %+v", setting, r)
			}
		}
		if strings.Contains(r.Mode, "embedded") {
			t.Errorf("a node of a fleet calls itself %q", r.Mode)
		}
		live := &fleet.Client{Base: n.Ops, HTTP: http.DefaultClient}
		ok(t, must.Get(live.Do(t.Context(), http.MethodGet, "/livez", nil))(t), http.StatusOK)
		for _, path := range []string{"/metrics", "/readyz", "/livez", "/debug/pprof/"} {
			if a := must.Get(n.Client(s.key).Do(t.Context(), http.MethodGet, path, nil))(t); a.Status != http.StatusNotFound {
				t.Errorf("%s on the public listener: %d", path, a.Status)
			}
		}
		ok(t, must.Get(live.Do(t.Context(), http.MethodGet, "/debug/pprof/", nil))(t), http.StatusNotFound)
	}
	n := s.Nodes[0]
	before := metricsOf(t, n)
	check(t, n.Client(s.key), s.action("1"))
	check(t, n.Client(s.key), s.action("900"))
	after := metricsOf(t, n)
	moved := 0
	for name, value := range after {
		if strings.HasPrefix(name, "spendgate_") && value != before[name] {
			moved++
		}
	}
	if moved == 0 {
		t.Errorf("two checks moved no metric of %q", slices.Sorted(maps.Keys(after)))
	}
	for _, name := range []string{"spendgate_build_info", "go_goroutines", "process_open_fds"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(after)), func(have string) bool { return strings.HasPrefix(have, name) }) {
			t.Errorf("there is no metric %s", name)
		}
	}
}

// S51: of a key that expires soon every node tells, in its metrics, and the feed once.
func (s *suite) keyExpires(t *testing.T) {
	soon := time.Now().Add(6 * 24 * time.Hour)
	ok(t, must.Get(s.Nodes[0].Admin(s.AdminKey).Do(t.Context(), http.MethodPost, "/v1/keys", map[string]any{
		"name": "expires", "rate_limit_rpm": 1, "expires_at": soon.UTC().Format(time.RFC3339),
	}))(t), http.StatusCreated)
	for _, n := range s.Nodes[:2] {
		check(t, n.Client(s.key), s.action("1")) // the node reads what changed
	}
	for _, n := range s.Nodes[:2] {
		eventually(t, time.Minute, n.Name+" tells that the key expires", func() bool {
			return metricsOf(t, n)["spendgate_keys_expiring"] == "1"
		})
	}
	feed := ok(t, must.Get(s.Nodes[1].Client(s.key).Do(t.Context(), http.MethodGet, "/v1/events?type=key.expiring", nil))(t), http.StatusOK)
	if n := strings.Count(string(feed.Body), `"type":"key.expiring"`); n != 1 {
		t.Errorf("the feed tells it %d times: %s", n, feed.Body)
	}
}

// metricsOf reads the samples of /metrics.
func metricsOf(t *testing.T, n *fleet.Node) map[string]string {
	t.Helper()
	answer := ok(t, must.Get(n.Metrics(t.Context()))(t), http.StatusOK)
	samples := make(map[string]string)
	for line := range strings.Lines(string(answer.Body)) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			samples[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	return samples
}

// S25: no key and no password is in a log, a metric or an error, also not
// those that were refused. The nodes log at debug, and have seen every fault.
func (s *suite) noSecrets(t *testing.T) {
	const wrong, wrongAdmin = "svc_live_00000000000000000000000000000bad", "an-admin-key-that-is-wrong"
	n := s.Nodes[0]
	refusals := []fleet.Answer{
		must.Get(n.Client(wrong).Check(t.Context(), s.action("1")))(t),
		must.Get(n.Admin(wrongAdmin).PatchKey(t.Context(), "key_nobody", map[string]any{"active": false}))(t),
	}
	secrets := append([]string{wrong, wrongAdmin, s.AdminKey}, s.issued...)
	for _, text := range []string{s.Redis.URL, s.Postgres.URL} {
		u := must.Get(url.Parse(text))(t)
		password, _ := u.User.Password()
		secrets = append(secrets, password)
	}
	outputs := make(map[string]string)
	for i, a := range refusals {
		if a.Status != http.StatusUnauthorized {
			t.Errorf("answered %s", a)
		}
		outputs["refusal "+string(rune('0'+i))] = a.String()
	}
	for _, n := range s.Nodes {
		outputs["the log of "+n.Name] = n.Log()
		if n.Running() {
			outputs["the metrics of "+n.Name] = string(must.Get(n.Metrics(t.Context()))(t).Body)
			outputs["the readiness of "+n.Name] = string(must.Get(n.Ready(t.Context()))(t).Body)
		}
	}
	for place, text := range outputs {
		if text == "" {
			t.Errorf("%s is empty", place)
		}
		for _, secret := range secrets {
			if len(secret) < 10 {
				t.Fatalf("a secret of %d bytes proves nothing", len(secret))
			}
			if strings.Contains(text, secret) {
				t.Errorf("%s contains a secret", place)
			}
		}
	}
}
