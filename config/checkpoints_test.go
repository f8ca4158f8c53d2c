package config

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spendgate/bench/must"
)

// TestLongestCheckpointInterval: a node that misses no checkpoint sets off no alert.
func TestLongestCheckpointInterval(t *testing.T) {
	if c := mustLoad(t, Serve, redisURL, databaseURL, "SPENDGATE_CHECKPOINT_INTERVAL=5m"); c.Checkpoints.Interval !=
		longestCheckpointInterval {
		t.Errorf("got %v", c.Checkpoints.Interval)
	}
	rules := must.Get(os.ReadFile("../deploy/prometheus/rules.yaml"))(t)
	found := regexp.MustCompile(`spendgate_checkpoint_last_success_timestamp_seconds > (\d+)`).FindSubmatch(rules)
	if found == nil {
		t.Fatal("no such alert")
	}
	seconds, err := strconv.Atoi(string(found[1]))
	if patience := time.Duration(seconds) * time.Second; err != nil || patience < 2*longestCheckpointInterval {
		t.Errorf("the alert waits for %v, %v; nodes sign every %v", patience, err, longestCheckpointInterval)
	}
}

func TestCheckpoints(t *testing.T) {
	key := strings.Repeat("c4", 32)
	base := []string{redisURL, databaseURL}
	c := mustLoad(t, Serve, base...)
	if c.Checkpoints.Key != "" || c.Checkpoints.Interval != time.Minute {
		t.Errorf("without settings: %+v", c.Checkpoints)
	}
	for _, text := range []string{key, "xMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMQ="} {
		environ := append(slices.Clone(base), "SPENDGATE_CHECKPOINT_KEY_FILE="+writeFile(t, text+"\n"),
			"SPENDGATE_CHECKPOINT_FILE=/var/lib/checkpoints", "SPENDGATE_CHECKPOINT_INTERVAL=90s")
		c = mustLoad(t, Serve, environ...)
		if string(c.Checkpoints.Key) != strings.Repeat("\xc4", 32) || c.Checkpoints.File != "/var/lib/checkpoints" ||
			c.Checkpoints.Interval != 90*time.Second {
			t.Errorf("%s: %+v", text, c.Checkpoints)
		}
	}
	for setting, want := range map[string]string{
		"SPENDGATE_CHECKPOINT_KEY=" + key:        "SPENDGATE_CHECKPOINT_FILE: is required",
		"SPENDGATE_CHECKPOINT_FILE=x":            "SPENDGATE_CHECKPOINT_KEY: is required",
		"SPENDGATE_CHECKPOINT_KEY=" + key[:62]:   "SPENDGATE_CHECKPOINT_KEY: must be 32 bytes",
		"SPENDGATE_CHECKPOINT_KEY=hush":          "SPENDGATE_CHECKPOINT_KEY: must be 32 bytes",
		"SPENDGATE_CHECKPOINT_INTERVAL=10ms":     "SPENDGATE_CHECKPOINT_INTERVAL: must be a duration from 1s to 5m0s",
		"SPENDGATE_CHECKPOINT_INTERVAL=301s":     "SPENDGATE_CHECKPOINT_INTERVAL: must be a duration from 1s to 5m0s",
		"SPENDGATE_CHECKPOINT_INTERVAL=sometime": "SPENDGATE_CHECKPOINT_INTERVAL: must be",
		"SPENDGATE_CHECKPOINT=x":                 "SPENDGATE_CHECKPOINT: is no setting",
	} {
		got := strings.Join(faults(t, Serve, append(slices.Clone(base), setting)...), "\n")
		if !strings.Contains(got, want) || strings.Contains(got, "hush") {
			t.Errorf("%s: %s", setting, got)
		}
	}
	if c := mustLoad(t, Dev, "SPENDGATE_CHECKPOINT_KEY="+key); len(c.Notices) == 0 || c.Checkpoints.Key != "" {
		t.Errorf("dev: %+v", c)
	}
	if c := mustLoad(t, Audit, databaseURL); c.DatabaseURL == "" {
		t.Errorf("audit: %+v", c)
	}
	for _, alone := range []string{"SPENDGATE_CHECKPOINT_KEY=" + key, "SPENDGATE_CHECKPOINT_FILE=x"} {
		mustLoad(t, Audit, databaseURL, alone)
	}
	faults(t, Audit)
}
