package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// A setting that no test here gives is one whose reading nobody has seen.
func TestSettingsAreGiven(t *testing.T) {
	tests := textOf(t, ".", true)
	for _, name := range settings() {
		if !regexp.MustCompile(prefix + name + `\b`).MatchString(tests) {
			t.Errorf("%s%s is in no test", prefix, name)
		}
	}
}

// TestSettingsAreUsed finds a field that no command reads. Commands have their settings in a variable c.
func TestSettingsAreUsed(t *testing.T) {
	commands := textOf(t, "../cmd/spendgate", false) + textOf(t, "../cmd/spendgate/*", false)
	for _, of := range []any{Config{}, Tools{}, Gateway{}, Client{}} {
		for field := range reflect.TypeOf(of).Fields() {
			if !regexp.MustCompile(`\bc\.` + field.Name + `\b`).MatchString(commands) {
				t.Errorf("no command reads %s of %T", field.Name, of)
			}
		}
	}
}

// textOf returns the text of a package: its tests, or all but its tests.
func textOf(t *testing.T, dir string, tests bool) string {
	t.Helper()
	paths := must.Get(filepath.Glob(filepath.Join(dir, "*.go")))(t)
	var all strings.Builder
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") != tests {
			continue
		}
		text := must.Get(os.ReadFile(path))(t)
		all.Write(text)
	}
	return all.String()
}

func TestLoadGateway(t *testing.T) {
	got, err := LoadGateway([]string{"SPENDGATE_URL=https://gate.example/", "SPENDGATE_API_KEY=svc_live_1", "SPENDGATE_DEPLOYMENT=cell-1"})
	if err != nil || !reflect.DeepEqual(got, Gateway{URL: "https://gate.example", APIKey: "svc_live_1", Deployment: "cell-1"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := LoadGateway([]string{"SPENDGATE_URL=gate"}); err == nil || !strings.Contains(err.Error(), "SPENDGATE_URL: must be http://") {
		t.Error(err)
	}
}
