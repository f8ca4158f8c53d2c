package config

import (
	"slices"
	"strings"
	"testing"
)

func TestSignInSettings(t *testing.T) {
	good := []string{
		"SPENDGATE_OIDC_ISSUER=https://Login.example", "SPENDGATE_OIDC_CLIENT_ID=spend", "SPENDGATE_OIDC_CLIENT_SECRET_FILE=" +
			writeFile(t, "secret\n"),
		"SPENDGATE_OIDC_REDIRECT_URL=http://127.0.0.1:8080/console/callback", "SPENDGATE_OIDC_ROLES=[]",
	}
	with := func(setting string) []string {
		name, _, _ := strings.Cut(setting, "=")
		all := slices.DeleteFunc(slices.Clone(good), func(s string) bool { return strings.HasPrefix(s, name) })
		return append(all, setting)
	}
	if got := faults(t, Dev, "SPENDGATE_OIDC_NAME_CLAIM=upn"); len(got) != 5 {
		t.Errorf("a claim alone: %q", got)
	}
	if got := faults(t, Dev, good[0]); len(got) != 5 { // four are missing, and the host is not as browsers write it
		t.Errorf("one alone: %q", got)
	}
	c := mustLoad(t, Dev, with("SPENDGATE_OIDC_ISSUER=https://login.example:8443/a")...)
	if c.OIDC.Label != "login.example" || c.OIDC.Issuer != "https://login.example:8443/a" || c.OIDC.ClientSecret != "secret" ||
		c.OIDC.GroupsClaim != "groups" || c.OIDC.EmailClaim != "email" || c.OIDC.NameClaim != "name" {
		t.Errorf("got %+v", c.OIDC)
	}
	if c := mustLoad(t, Dev); c.OIDC != nil {
		t.Errorf("without: %+v", c.OIDC)
	}
	good[0] = "SPENDGATE_OIDC_ISSUER=http://localhost:3000"
	if c := mustLoad(t, Serve, append(with(good[0]), redisURL, databaseURL)...); !strings.Contains(strings.Join(c.Notices, "\n"),
		"CONSOLE is off") {
		t.Errorf("notices %q", c.Notices)
	}
	for _, path := range []string{"/callback", "/oidc/callback", "/console/oidc/callback", "/console/back"} {
		mustLoad(t, Dev, with("SPENDGATE_OIDC_REDIRECT_URL=https://spend.example"+path)...)
	}
	for _, wrong := range []string{
		"SPENDGATE_OIDC_ISSUER=http://id.example", "SPENDGATE_OIDC_ISSUER=id.example", "SPENDGATE_OIDC_ISSUER=https://id.example?x",
		"SPENDGATE_OIDC_ISSUER=A b=https://id.example",
		"SPENDGATE_OIDC_ISSUER=a=http://id.example", "SPENDGATE_OIDC_REDIRECT_URL=http://spend.example/console/callback",
		"SPENDGATE_OIDC_REDIRECT_URL=https://spend.example", "SPENDGATE_OIDC_REDIRECT_URL=https://spend.example/",
		"SPENDGATE_OIDC_REDIRECT_URL=https://spend.example/console", "SPENDGATE_OIDC_REDIRECT_URL=https://spend.example/console/",
		"SPENDGATE_OIDC_REDIRECT_URL=https://spend.example/console/sign-out",
		"SPENDGATE_OIDC_REDIRECT_URL=https://spend.example/console/take-over",
		"SPENDGATE_OIDC_REDIRECT_URL=https://spend.example/console/assets",
		"SPENDGATE_OIDC_REDIRECT_URL=https://spend.example/console/assets/app",
		"SPENDGATE_OIDC_REDIRECT_URL=https://spend.example/v1/checks", "SPENDGATE_OIDC_REDIRECT_URL=https://spend.example/v1/{x}",
		"SPENDGATE_OIDC_REDIRECT_URL=https://spend.example/health", "SPENDGATE_OIDC_REDIRECT_URL=https://spend.example/openapi.json",
		"SPENDGATE_OIDC_REDIRECT_URL=https://spend.example/console/callback#x",
		"SPENDGATE_OIDC_REDIRECT_URL=https://u:p@spend.example/console/callback", "SPENDGATE_OIDC_CLIENT_SECRET=two words",
	} {
		got := faults(t, Dev, with(wrong)...)
		if name, _, _ := strings.Cut(wrong, "="); len(got) != 1 || !strings.HasPrefix(got[0], name) || strings.Contains(got[0], "two words") {
			t.Errorf("%s: %q", wrong, got)
		}
	}
}
