package deploy_test

import (
	"regexp"
	"strings"
	"testing"
)

// The version is the one in VERSION wherever it is written. That the binary of
// a release has it is tested beside what makes it, in deploy/release.
func TestVersion(t *testing.T) {
	version := strings.TrimSpace(readFile(t, "VERSION"))
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(version) {
		t.Fatalf("VERSION has %q", version)
	}
	for file, pattern := range map[string]string{
		"deploy/helm/spendgate/Chart.yaml": `(?m)^version: (.*)\nappVersion: v(.*)$`,
		"CHANGELOG.md":                     `(?m)^(?:Version (\S+), the first|## \[(\d\S+)\])`,

		"deploy/clients/typescript/package.json": `(?m)^  "version": "(.*)",$`,
		"deploy/clients/typescript/README.md":    `makes spendgate-(.*)\.tgz`,
	} {
		found := regexp.MustCompile(pattern).FindStringSubmatch(readFile(t, file))
		if found == nil {
			t.Errorf("%s has no version as %s", file, pattern)
			continue
		}
		for _, stated := range found[1:] {
			if stated != "" && stated != version {
				t.Errorf("%s has version %s, VERSION %s", file, stated, version)
			}
		}
	}
}
