package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/bench/must"
)

const (
	redisURL    = "SPENDGATE_REDIS_URL=redis://localhost"
	databaseURL = "SPENDGATE_DATABASE_URL=postgres://u:pw@db/spend"
)

// driver refuses every URL with the parameter speed.
func driver(url string) error {
	if strings.Contains(url, "?speed=") {
		return errors.New("unknown speed")
	}
	return nil
}

func mustLoad(t *testing.T, mode Mode, environ ...string) Config {
	t.Helper()
	return must.Get(Load(environ, mode, driver))(t)
}

// faults returns the lines of the error that Load must return.
func faults(t *testing.T, mode Mode, environ ...string) []string {
	t.Helper()
	_, err := Load(environ, mode, driver)
	if err == nil {
		t.Fatalf("no fault in %q", environ)
	}
	return strings.Split(err.Error(), "\n")
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "value")
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestDefaults(t *testing.T) {
	c := mustLoad(t, Serve, redisURL, databaseURL, "HOME=/root", "BROKEN", "=x")
	if c.ListenAddr != ":8080" || c.OpsAddr != ":9090" || c.LogLevel != slog.LevelInfo || c.PProf || c.UnsafeDurability || c.DataDir != "" {
		t.Errorf("got %+v", c)
	}
	if c.DatabaseURL != "postgres://u:pw@db/spend" || !slices.Equal(c.Redis.Addrs, []string{"localhost:6379"}) {
		t.Errorf("got %+v", c)
	}
	if len(c.Notices) != 1 || !strings.Contains(c.Notices[0], "SPENDGATE_ADMIN_KEY is not set") {
		t.Errorf("notices %q", c.Notices)
	}
}

func TestEverySetting(t *testing.T) {
	c := mustLoad(t, Serve, redisURL, databaseURL,
		"SPENDGATE_LISTEN_ADDR=127.0.0.1:80", "SPENDGATE_OPS_ADDR=[::1]:81", "SPENDGATE_LOG_LEVEL=WARN", "SPENDGATE_DEPLOYMENT=cell-1",
		"SPENDGATE_DATA_DIR=/var/lib/spendgate", "SPENDGATE_ARCHIVE_DIR=/var/lib/archives", "SPENDGATE_PPROF=true", "SPENDGATE_DEMO=false",
		"SPENDGATE_ALLOW_UNSAFE_DURABILITY=true", "SPENDGATE_MAX_RATE_LIMIT_RPM=1000000", "SPENDGATE_FREEZE_RELEASE_REQUIRED=2",
		"SPENDGATE_MAX_POLICY_BYTES=1048576",
		"SPENDGATE_WEBHOOK_PRIVATE_ADDRESSES=true", "SPENDGATE_WEBHOOK_IN_FLIGHT=64", "SPENDGATE_EVENTS_RETENTION=90d",
		"SPENDGATE_PAYMENTS_KEEP_DAYS=35", "SPENDGATE_CONSOLE=true",
		"SPENDGATE_CONSOLE_URL=https://spend.example/console/",
		"SPENDGATE_OIDC_ISSUER=acme=https://id.example/realm", "SPENDGATE_OIDC_CLIENT_ID=spend", "SPENDGATE_OIDC_CLIENT_SECRET=secret",
		"SPENDGATE_OIDC_ROLES=[]", "SPENDGATE_OIDC_GROUPS_CLAIM=realm_access.roles", "SPENDGATE_OIDC_EMAIL_CLAIM=upn",
		"SPENDGATE_OIDC_NAME_CLAIM=https://id.example/name",
		"SPENDGATE_OIDC_REDIRECT_URL=https://spend.example/console/callback",
		"SPENDGATE_ADMIN_KEY=0123456789abcdef, fedcba9876543210",
		"SPENDGATE_TRUSTED_PROXIES=10.1.2.3/8, 192.0.2.7,::ffff:192.0.2.8,2001:db8::/32,::1",
		"SPENDGATE_API_URL=http://x", "SPENDGATE_API_KEY=k")
	if c.ListenAddr != "127.0.0.1:80" || c.OpsAddr != "[::1]:81" || c.LogLevel != slog.LevelWarn || c.Deployment != "cell-1" ||
		c.DataDir != "/var/lib/spendgate" || c.ArchiveDir != "/var/lib/archives" || !c.PProf || !c.UnsafeDurability || c.Demo ||
		c.MaxRateLimit != 1_000_000 || c.ReleasesRequired != 2 || c.MaxPolicyBytes != 1<<20 ||
		!c.PrivateWebhooks || c.WebhooksInFlight != 64 || !c.Console ||
		c.EventsRetention != 90*24*time.Hour || c.PaymentsKeep != 35*24*time.Hour || c.ConsoleURL != "https://spend.example/console" {
		t.Errorf("got %+v", c)
	}
	if want := (OIDC{
		"acme", "https://id.example/realm", "spend", "secret", "https://spend.example/console/callback", "[]",
		"realm_access.roles", "upn", "https://id.example/name",
	}); c.OIDC == nil || *c.OIDC != want {
		t.Errorf("sign-in %+v", c.OIDC)
	}
	if !slices.Equal(c.AdminKeys, []Secret{"0123456789abcdef", "fedcba9876543210"}) {
		t.Errorf("admin keys %#v", []string{string(c.AdminKeys[0])})
	}
	var want []netip.Prefix
	for _, p := range []string{"10.0.0.0/8", "192.0.2.7/32", "192.0.2.8/32", "2001:db8::/32", "::1/128"} {
		want = append(want, netip.MustParsePrefix(p))
	}
	if !slices.Equal(c.TrustedProxies, want) {
		t.Errorf("proxies %v", c.TrustedProxies)
	}
	if len(c.Notices) != 0 {
		t.Errorf("notices %q", c.Notices)
	}
}

func TestModes(t *testing.T) {
	if got := faults(t, Serve); len(got) != 2 ||
		!strings.HasPrefix(got[0], "SPENDGATE_REDIS_URL: is required") ||
		!strings.HasPrefix(got[1], "SPENDGATE_DATABASE_URL: is required") {
		t.Errorf("serve: %q", got)
	}
	if got := faults(t, Migrate); len(got) != 1 || !strings.HasPrefix(got[0], "SPENDGATE_DATABASE_URL: is required") {
		t.Errorf("migrate: %q", got)
	}
	if c := mustLoad(t, Migrate, databaseURL, redisURL); c.DatabaseURL == "" || c.Redis.Addrs != nil {
		t.Errorf("migrate: %+v", c)
	}
	c := mustLoad(t, Dev)
	if c.DataDir != ".spendgate" || len(c.Notices) != 0 || !c.Console || mustLoad(t, Serve, databaseURL, redisURL).Console {
		t.Errorf("dev: %+v", c)
	}
}

func TestDevIgnoresServersAndSaysSo(t *testing.T) {
	c := mustLoad(t, Dev, "SPENDGATE_REDIS_URL=nonsense", "SPENDGATE_DATABASE_URL_FILE=/none", "SPENDGATE_MAX_POLICY_BYTES=1048576")
	if c.Redis.Addrs != nil || c.DatabaseURL != "" {
		t.Errorf("got %+v", c)
	}
	all := strings.Join(c.Notices, "\n")
	for _, want := range []string{"REDIS_URL is ignored", "DATABASE_URL is ignored", "MAX_POLICY_BYTES is ignored"} {
		if !strings.Contains(all, want) {
			t.Errorf("no notice %q in %q", want, all)
		}
	}
}

func TestFiles(t *testing.T) {
	c := mustLoad(t, Serve,
		"SPENDGATE_REDIS_URL_FILE="+writeFile(t, "redis://:pw@cache:7000/2\r\n"),
		"SPENDGATE_DATABASE_URL_FILE="+writeFile(t, "postgres://db/spend\n\n"),
		"SPENDGATE_ADMIN_KEY_FILE="+writeFile(t, "0123456789abcdef"),
		"SPENDGATE_LOG_LEVEL_FILE="+writeFile(t, "debug\n"))
	if c.Redis.Password != "pw" || c.Redis.DB != 2 || c.DatabaseURL != "postgres://db/spend" ||
		!slices.Equal(c.AdminKeys, []Secret{"0123456789abcdef"}) || c.LogLevel != slog.LevelDebug {
		t.Errorf("got %+v", c)
	}
}

func TestFileFaults(t *testing.T) {
	tests := map[string]struct {
		environ []string
		want    string
	}{
		"both": {
			[]string{"SPENDGATE_ADMIN_KEY=hunter2", "SPENDGATE_ADMIN_KEY_FILE=hunter2"},
			"SPENDGATE_ADMIN_KEY: is given twice, also as SPENDGATE_ADMIN_KEY_FILE",
		},
		"absent": {
			[]string{"SPENDGATE_ADMIN_KEY_FILE=hunter2"},
			"SPENDGATE_ADMIN_KEY_FILE: cannot read the file that it names: no such file or directory",
		},
		"folder": {
			[]string{"SPENDGATE_ADMIN_KEY_FILE=" + t.TempDir()},
			"SPENDGATE_ADMIN_KEY_FILE: cannot read the file that it names: is a directory",
		},
		"empty": {
			[]string{"SPENDGATE_ADMIN_KEY_FILE=" + writeFile(t, "\n")},
			"SPENDGATE_ADMIN_KEY_FILE: the file that it names is empty",
		},
		"endless": {
			[]string{"SPENDGATE_ADMIN_KEY_FILE=/dev/zero"},
			"SPENDGATE_ADMIN_KEY_FILE: the file that it names is longer than 64 KiB",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := faults(t, Dev, test.environ...); len(got) != 1 || got[0] != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

// A blank variable is how compose files and shells leave one out.
func TestBlankIsAbsent(t *testing.T) {
	c := mustLoad(t, Dev, "SPENDGATE_LISTEN_ADDR=", "SPENDGATE_LOG_LEVEL=  ", "SPENDGATE_ADMIN_KEY_FILE=", "SPENDGATE_TYPO=")
	if c.ListenAddr != ":8080" || c.LogLevel != slog.LevelInfo {
		t.Errorf("got %+v", c)
	}
	if got := faults(t, Serve, "SPENDGATE_REDIS_URL=", databaseURL); len(got) != 1 || !strings.Contains(got[0], "is required") {
		t.Errorf("got %q", got)
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	got := faults(t, Serve,
		"SPENDGATE_LISTEN_ADDR=8080", "SPENDGATE_OPS_ADDR=:http", "SPENDGATE_REDIS_URL=localhost:6379",
		"SPENDGATE_DATABASE_URL=host=db user=u", "SPENDGATE_ADMIN_KEY=a,b,c", "SPENDGATE_TRUSTED_PROXIES=10.0.0.0/8,elsewhere",
		"SPENDGATE_LOG_LEVEL=loud", "SPENDGATE_PPROF=maybe", "SPENDGATE_LOGLEVEL=info")
	want := []string{
		"LISTEN_ADDR: must be host:port", "OPS_ADDR: must be host:port", "ADMIN_KEY: must be one key, or two",
		`TRUSTED_PROXIES: must be networks or addresses separated by commas (10.0.0.0/8,192.0.2.7), not "elsewhere"`,
		"LOG_LEVEL: must be debug, info, warn or error", "PPROF: must be true or false",
		"REDIS_URL: must start with redis://", "DATABASE_URL: must start with postgres://", "LOGLEVEL: is no setting",
	}
	if len(got) != len(want) {
		t.Fatalf("%d faults, not %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], "SPENDGATE_"+want[i]) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}

func TestBadValues(t *testing.T) {
	for _, setting := range []string{
		"LISTEN_ADDR=:65536", "LISTEN_ADDR=:", "OPS_ADDR=:8080", "LISTEN_ADDR=1.2.3.4",
		"ADMIN_KEY=a,", "ADMIN_KEY=,", "ADMIN_KEY=with space", "ADMIN_KEY=caf\u00e9",
		"TRUSTED_PROXIES=10.0.0.0/33", "TRUSTED_PROXIES=10.0.0.0/8,", "TRUSTED_PROXIES=::ffff:10.0.0.0/104",
		"PPROF=2", "LOG_LEVEL=warning", "DEMO=off", "DEPLOYMENT=two words", "DEPLOYMENT=" + strings.Repeat("x", 65),
		"ADMIN_KEY=fifteen-letters", "ADMIN_KEY=0123456789abcdef,fifteen-letters", "ADMIN_KEY=fifteen-letters,fifteen-letters",
		"FREEZE_RELEASE_REQUIRED=0", "FREEZE_RELEASE_REQUIRED=6", "MAX_RATE_LIMIT_RPM=9999",
		"MAX_RATE_LIMIT_RPM=1000001", "MAX_RATE_LIMIT_RPM=1e5",
		"MAX_POLICY_BYTES=1048575", "MAX_POLICY_BYTES=1GiB",
	} {
		if got := faults(t, Dev, "SPENDGATE_"+setting); len(got) != 1 {
			t.Errorf("%s: %q", setting, got)
		}
	}
}

func TestSamePortIsFineWhenChosenByTheSystem(t *testing.T) {
	mustLoad(t, Dev, "SPENDGATE_LISTEN_ADDR=127.0.0.1:0", "SPENDGATE_OPS_ADDR=127.0.0.1:0")
}

// After a rollback to a version that lacks a setting, the node starts and logs what it ignores.
func TestUnknownVariablesIgnored(t *testing.T) {
	c := mustLoad(t, Dev, "SPENDGATE_IGNORE_UNKNOWN_SETTINGS=true", "SPENDGATE_OF_LATER=secret", "SPENDGATE_LATER_FILE=/x")
	want := []string{
		"SPENDGATE_LATER_FILE is no setting of this version, and is ignored", "SPENDGATE_OF_LATER is no setting of this version, and is ignored",
	}
	if !slices.Equal(c.Notices, want) {
		t.Errorf("%q, want %q", c.Notices, want)
	}
	environ := []string{"SPENDGATE_API_URL=http://x", "SPENDGATE_IGNORE_UNKNOWN_SETTINGS=true", "SPENDGATE_OF_LATER=x"}
	tools, err := LoadTools(environ)
	gateway, failed := LoadGateway(environ)
	if err != nil || failed != nil || !slices.Equal(tools.Notices, want[1:]) || !slices.Equal(gateway.Notices, want[1:]) {
		t.Errorf("%+v, %v; %+v, %v", tools, err, gateway, failed)
	}
	for _, value := range []string{"false", "perhaps"} {
		if got := faults(t, Dev, "SPENDGATE_IGNORE_UNKNOWN_SETTINGS="+value, "SPENDGATE_OF_LATER=x"); !strings.Contains(strings.Join(got, " "),
			"OF_LATER: is no setting") {
			t.Errorf("%s: %q", value, got)
		}
	}
}

func TestUnknownVariables(t *testing.T) {
	for _, name := range []string{"REDIS", "LISTEN_ADDRESS", "PORT", "ADMIN_KEYS_FILE", "", "redis_url", "DATABASE_URL_FILE_FILE"} {
		if got := faults(t, Dev, "SPENDGATE_"+name+"=8080"); len(got) != 1 || !strings.Contains(got[0], "is no setting") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestKubernetesServiceLinks(t *testing.T) {
	mustLoad(t, Dev,
		"SPENDGATE_SERVICE_HOST=10.0.0.1", "SPENDGATE_SERVICE_PORT=80", "SPENDGATE_SERVICE_PORT_HTTP=80",
		"SPENDGATE_PORT=tcp://10.0.0.1:80", "SPENDGATE_PORT_80_TCP=tcp://10.0.0.1:80",
		"SPENDGATE_PORT_80_TCP_PROTO=tcp", "SPENDGATE_PORT_80_TCP_PORT=80", "SPENDGATE_PORT_80_TCP_ADDR=10.0.0.1",
		"SPENDGATE_OPS_SERVICE_HOST=10.0.0.2", "SPENDGATE_OPS_PORT=tcp://10.0.0.2:90", "SPENDGATE_OPS_PORT_90_TCP_ADDR=10.0.0.2")
}

func TestDatabaseURL(t *testing.T) {
	for _, s := range []string{
		"postgres://db", "postgresql://u:p%40ss@h1:5432,h2:5432/spend?target_session_attrs=read-write",
		"postgres:///spend?host=/var/run/postgresql",
	} {
		if c := mustLoad(t, Migrate, "SPENDGATE_DATABASE_URL="+s); string(c.DatabaseURL) != s {
			t.Errorf("got %q", string(c.DatabaseURL))
		}
	}
	for _, s := range []string{"db", "mysql://db", "postgres://", "postgres:///spend", "postgres://h1:5432,h2/x"} {
		faults(t, Migrate, "SPENDGATE_DATABASE_URL="+s)
	}
	got := faults(t, Migrate, "SPENDGATE_LOG_LEVEL=loud", "SPENDGATE_DATABASE_URL=postgres://u:pw@db/spend?speed=high")
	if len(got) != 2 || got[1] != "SPENDGATE_DATABASE_URL: cannot be used: unknown speed" {
		t.Errorf("what the driver refuses is none of the faults: %q", got)
	}
}

// Whatever is wrong with a secret, and at whichever place, no part of it is repeated.
func TestFaultsHideSecrets(t *testing.T) {
	for _, environ := range [][]string{
		{"SPENDGATE_DATABASE_URL=postgres://u:hunter2%zz@db/x", redisURL},
		{"SPENDGATE_DATABASE_URL=postgres://u:hun/hunter2@db/x", redisURL},
		{"SPENDGATE_DATABASE_URL=postgres://u:hunter2@db:5432,db2/x", redisURL},
		{"SPENDGATE_DATABASE_URL=hunter2", redisURL},
		{databaseURL, "SPENDGATE_REDIS_URL=redis://:hunter2%zz@h"},
		{databaseURL, "SPENDGATE_REDIS_URL=redis://:x/hunter2@h"},
		{databaseURL, "SPENDGATE_REDIS_URL=redis://:x?hunter2@h"},
		{databaseURL, "SPENDGATE_REDIS_URL=redis://hunter2"},
		{databaseURL, "SPENDGATE_REDIS_URL=redis://hunter2:hunter2"},
		{databaseURL, "SPENDGATE_REDIS_URL=redis://hunter2@h"},
		{databaseURL, redisURL, "SPENDGATE_ADMIN_KEY=hunter2,hunter2,hunter2"},
		{databaseURL, redisURL, "SPENDGATE_ADMIN_KEY=hunter2\u00e9"},
		{databaseURL, redisURL, "SPENDGATE_ADMIN_KEY=hunter2"},
		{databaseURL, redisURL, "SPENDGATE_ADMIN_KEY_FILE=hunter2"},
		{databaseURL, redisURL, "SPENDGATE_ADMINKEY=hunter2"},
	} {
		_, err := Load(environ, Serve, driver)
		if err == nil {
			// redis://hunter2 is a host name.
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", environ, err)
		}
	}
}

func TestConfigPrintsWithoutSecrets(t *testing.T) {
	c := mustLoad(t, Serve, "SPENDGATE_DATABASE_URL=postgres://u:hunter2@db/x", "SPENDGATE_ADMIN_KEY=hunter2hunter2hunter2",
		"SPENDGATE_REDIS_URL=redis://:hunter2@h?master=m&sentinel_password=hunter2")
	encoded := must.Get(json.Marshal(c))(t)
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("start", "config", c, "url", c.DatabaseURL)
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v %s", c, c, c.DatabaseURL), string(encoded), logged.String()} {
		if strings.Contains(s, "hunter2") {
			t.Errorf("shows a secret: %s", s)
		}
		if !strings.Contains(s, "(secret)") {
			t.Errorf("does not say that there is a secret: %s", s)
		}
	}
	if Secret("").String() != "" {
		t.Error("an absent secret looks like one")
	}
}

func TestLoadClient(t *testing.T) {
	c, err := LoadClient([]string{"SPENDGATE_ANYTHING=1"})
	if err != nil || c != (Client{APIURL: "http://127.0.0.1:8080"}) {
		t.Errorf("got %+v, %v", c, err)
	}
	c, err = LoadClient([]string{
		"SPENDGATE_API_URL=https://gate.example/base/", "SPENDGATE_API_KEY_FILE=" + writeFile(t, "svc_live_1\n"),
		"SPENDGATE_ADMIN_KEY=new,old", "SPENDGATE_DEPLOYMENT=cell-1",
	})
	if err != nil || c != (Client{APIURL: "https://gate.example/base", APIKey: "svc_live_1", AdminKey: "new", Deployment: "cell-1"}) {
		t.Errorf("got %+v, %v", c, err)
	}
	for _, s := range []string{"gate.example", "ftp://x", "http://", "http://u:hunter2@x", "http://x?y", "http://hunter2%zz", "http://x/v1/"} {
		if _, err := LoadClient([]string{"SPENDGATE_API_URL=" + s}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestLoadTools(t *testing.T) {
	got, err := LoadTools([]string{
		"SPENDGATE_API_URL=https://gate.example/", "SPENDGATE_API_KEY_FILE=" + writeFile(t, "svc_live_1\n"),
		"SPENDGATE_MCP_TOKEN=0123456789abcdef", "SPENDGATE_LOG_LEVEL=warn",
	})
	want := Tools{APIURL: "https://gate.example", APIKey: "svc_live_1", Token: "0123456789abcdef", LogLevel: slog.LevelWarn}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for fault, environ := range map[string][]string{
		"SPENDGATE_API_URL: is required":       {"SPENDGATE_API_KEY=svc_live_1"},
		"SPENDGATE_API_URL: must be http://":   {"SPENDGATE_API_URL=gate"},
		"SPENDGATE_API_KEY: is given twice":    {"SPENDGATE_API_URL=http://gate", "SPENDGATE_API_KEY=a", "SPENDGATE_API_KEY_FILE=b"},
		"SPENDGATE_MCP_TOKEN: has a key with":  {"SPENDGATE_API_URL=http://gate", "SPENDGATE_MCP_TOKEN=a b"},
		"SPENDGATE_MCP_TOKEN: must have at":    {"SPENDGATE_API_URL=http://gate", "SPENDGATE_MCP_TOKEN=0123456789abcde"},
		"SPENDGATE_API_KAY: is no setting":     {"SPENDGATE_API_URL=http://gate", "SPENDGATE_API_KAY=a"},
		"SPENDGATE_LOG_LEVEL: must be debug, ": {"SPENDGATE_API_URL=http://gate", "SPENDGATE_LOG_LEVEL=loud"},
	} {
		if _, err := LoadTools(environ); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%v: %v", environ, err)
		}
	}
}
