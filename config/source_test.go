package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// A setting that no test here gives is one whose reading nobody has seen.
func TestSettingsAreGiven(t *testing.T) {
	paths, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(text)
	}
	for _, name := range settings() {
		if !regexp.MustCompile(prefix + name + `\b`).MatchString(tests.String()) {
			t.Errorf("%s%s is in no test", prefix, name)
		}
	}
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
