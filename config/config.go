package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Mode is what the process is started for; it decides which settings are required.
type Mode uint8

// The modes.
const (
	Serve   Mode = iota // a node of a fleet: needs Redis and PostgreSQL
	Dev                 // the embedded single node: needs and uses neither
	Migrate             // schema migration: needs PostgreSQL
	Audit               // the trail itself: needs PostgreSQL
)

// The defaults of settings that have one.
const (
	defaultListenAddr = ":8080"
	defaultOpsAddr    = ":9090"
	DefaultDataDir    = ".spendgate" // of mode Dev
	defaultAPIURL     = "http://127.0.0.1:8080"
)

const (
	// minSecret is the least length of an admin key or a token: 16 random hex digits
	// cannot be guessed over a network.
	minSecret = 16
	// defaultMaxRateLimit is the interface's, mostMaxRateLimit what a counter in
	// Redis can be relied on for.
	defaultMaxRateLimit = 10_000
	mostMaxRateLimit    = 1_000_000
	// defaultMaxPolicyBytes holds a thousand of the largest policies.
	defaultMaxPolicyBytes = 1 << 30
)

// Config holds the settings of a server process. It may be printed: its secrets
// are hidden.
type Config struct {
	ListenAddr     string
	OpsAddr        string // metrics, probes and pprof (S27)
	Redis          Redis  // zero unless the mode is Serve
	RedisKeyPrefix string // of every name in Redis, for deployments that share one
	DatabaseURL    Secret // postgres://...; empty in mode Dev
	AdminKeys      []Secret
	TrustedProxies []netip.Prefix
	Demo           bool // simulations without a key
	// ReleasesRequired is how many people must release a freeze.
	ReleasesRequired int
	MaxRateLimit     int   // requests a minute that an admin may give a key
	MaxPolicyBytes   int64 // of all versions of all policies
	// PrivateWebhooks lets events be delivered to private and loopback addresses.
	PrivateWebhooks bool
	// WebhooksInFlight is how many events are sent to a webhook at once, at most.
	WebhooksInFlight int
	// EventsRetention is for how long events are kept; 0 is for ever.
	EventsRetention time.Duration
	// PaymentsKeep is for how long payments that have ended are kept; 0 is for ever.
	PaymentsKeep time.Duration
	Console      bool   // the page for people at /console/
	ConsoleURL   string // where people reach it, without a slash at the end; empty when unknown
	OIDC         *OIDC  // with whom they sign in; nil when with nobody
	LogLevel     slog.Level
	Deployment   string // its name in metrics and logs; may be empty
	// UnsafeDurability lets Serve start on a database whose settings let a crash
	// of its machine lose answered checks and damage it.
	UnsafeDurability bool
	DataDir          string // empty unless set or the mode is Dev
	ArchiveDir       string // of the archives of days, for backtests; empty when they are not at hand
	PProf            bool
	Traces           Traces      // zero unless OTEL_... variables ask for them
	Checkpoints      Checkpoints // zero in mode Dev

	// Notices are remarks on legal settings that are perhaps not meant; the process should log them
	// when it starts.
	Notices []string
}

// Load reads the settings of a server from environ, which has the form of
// os.Environ. checkDatabase returns the database driver's error for a well-formed
// URL, without quoting anything secret. The error holds all faults, one a line.
func Load(environ []string, mode Mode, checkDatabase func(url string) error) (Config, error) {
	s := newSource(environ)
	c := Config{
		ListenAddr:       read(s, "LISTEN_ADDR", defaultListenAddr, parseAddr),
		OpsAddr:          read(s, "OPS_ADDR", defaultOpsAddr, parseAddr),
		AdminKeys:        read(s, "ADMIN_KEY", nil, parseAdminKeys),
		TrustedProxies:   read(s, "TRUSTED_PROXIES", nil, parsePrefixes),
		Demo:             read(s, "DEMO", true, parseBool),
		ReleasesRequired: read(s, "FREEZE_RELEASE_REQUIRED", 1, numberFrom(1, 5)),
		MaxRateLimit:     read(s, "MAX_RATE_LIMIT_RPM", defaultMaxRateLimit, numberFrom(defaultMaxRateLimit, mostMaxRateLimit)),
		MaxPolicyBytes:   read(s, "MAX_POLICY_BYTES", defaultMaxPolicyBytes, parseBytes),
		PrivateWebhooks:  read(s, "WEBHOOK_PRIVATE_ADDRESSES", false, parseBool),
		WebhooksInFlight: read(s, "WEBHOOK_IN_FLIGHT", defaultWebhooksInFlight, numberFrom(1, mostWebhooksInFlight)),
		EventsRetention:  read(s, "EVENTS_RETENTION", 0, parseEventsRetention),
		PaymentsKeep:     read(s, "PAYMENTS_KEEP_DAYS", 0, parsePaymentsKeep),
		Console:          read(s, "CONSOLE", mode == Dev, parseBool),
		ConsoleURL:       read(s, "CONSOLE_URL", "", parseAPIURL),
		OIDC:             readOIDC(s),
		LogLevel:         read(s, "LOG_LEVEL", slog.LevelInfo, parseLevel),
		Deployment:       read(s, "DEPLOYMENT", "", parseName),

		UnsafeDurability: read(s, "ALLOW_UNSAFE_DURABILITY", false, parseBool),

		DataDir: read(s, "DATA_DIR", defaultDataDir(mode), parseText),
		PProf:   read(s, "PPROF", false, parseBool),

		ArchiveDir: read(s, "ARCHIVE_DIR", "", parseText),
		Traces:     readTraces(environ, s),
	}
	if slices.ContainsFunc(c.AdminKeys, func(key Secret) bool { return len(key) < minSecret }) {
		s.fault("ADMIN_KEY", fmt.Sprintf("must have at least %d characters in each key", minSecret))
	}
	c.loadStores(s, mode, checkDatabase)
	if _, port, err := net.SplitHostPort(c.OpsAddr); err == nil && c.ListenAddr == c.OpsAddr && port != "0" {
		s.fault("OPS_ADDR", "must differ from "+prefix+"LISTEN_ADDR: operations have a listener of their own")
	}
	c.Notices = append(c.Notices, s.refuseUnknown()...)
	if err := errors.Join(s.faults...); err != nil {
		return Config{}, err
	}
	c.remark(mode)
	return c, nil
}

// loadStores reads where Redis and PostgreSQL are, as far as the mode uses
// them. Unused ones are not looked at: dev starts in the environment of serve.
func (c *Config) loadStores(s *source, mode Mode, checkDatabase func(string) error) {
	if mode == Dev {
		for _, name := range []string{"REDIS_URL", "REDIS_KEY_PREFIX", "DATABASE_URL"} {
			if s.given(name) {
				c.Notices = append(c.Notices, prefix+name+" is ignored: dev embeds its own")
			}
		}
		if s.given("MAX_POLICY_BYTES") {
			c.Notices = append(c.Notices, prefix+"MAX_POLICY_BYTES is ignored: dev has as many policies as its disk")
		}
		if s.given("CHECKPOINT_KEY") {
			c.Notices = append(c.Notices, prefix+"CHECKPOINT_KEY is ignored: dev signs no checkpoints")
		}
		return
	}
	c.Checkpoints = readCheckpoints(s, mode)
	if mode == Serve {
		c.Redis = read(s, "REDIS_URL", Redis{}, parseRedis)
		s.require("REDIS_URL", "redis://host:6379")
		c.RedisKeyPrefix = read(s, "REDIS_KEY_PREFIX", "", parseName)
	}
	c.DatabaseURL = read(s, "DATABASE_URL", "", func(url string) (Secret, error) { return parseDatabaseURL(url, checkDatabase) })
	s.require("DATABASE_URL", "postgres://user:password@host:5432/database")
}

// remark notes legal settings that are perhaps not meant. Dev makes an admin key of its own and
// Migrate needs none.
func (c *Config) remark(mode Mode) {
	if len(c.AdminKeys) == 0 && mode == Serve {
		c.Notices = append(c.Notices, prefix+"ADMIN_KEY is not set: admin requests are answered with 401")
	}
	if c.OIDC != nil && !c.Console && (mode == Serve || mode == Dev) {
		c.Notices = append(c.Notices, prefix+"CONSOLE is off: people can sign in, and have no page")
	}
}

func defaultDataDir(mode Mode) string {
	if mode == Dev {
		return DefaultDataDir
	}
	return ""
}

// Client is what the commands that talk to a running node need.
type Client struct {
	APIURL     string // without a slash at the end
	APIKey     Secret
	AdminKey   Secret // the first, when two are set
	Deployment string // its name in the metrics of a probe; may be empty
}

// LoadClient reads the settings of a client command. Absent settings are empty, except the address,
// whose default is a node on this machine.
func LoadClient(environ []string) (Client, error) {
	s := newSource(environ)
	c := Client{
		APIURL: read(s, "API_URL", defaultAPIURL, parseAPIURL),
		APIKey: read(s, "API_KEY", "", parseKey),

		Deployment: read(s, "DEPLOYMENT", "", parseName),
	}
	if keys := read(s, "ADMIN_KEY", nil, parseAdminKeys); len(keys) > 0 {
		c.AdminKey = keys[0]
	}
	return loaded(s, c)
}

// loaded returns the settings, or all faults of their source.
func loaded[T any](s *source, settings T) (T, error) {
	if err := errors.Join(s.faults...); err != nil {
		var none T
		return none, err
	}
	return settings, nil
}

// Tools is what the tool server for agents runs with.
type Tools struct {
	APIURL   string // without a slash at the end
	APIKey   Secret // empty when it is not set
	Token    Secret // that HTTP clients must send; empty for none
	LogLevel slog.Level
	Notices  []string // as in Config
}

// LoadTools reads the settings of the tool server. The address is required.
// Its error holds all faults, one a line.
func LoadTools(environ []string) (Tools, error) {
	s := newSource(environ)
	t := Tools{
		APIURL:   read(s, "API_URL", "", parseAPIURL),
		APIKey:   read(s, "API_KEY", "", parseKey),
		Token:    read(s, "MCP_TOKEN", "", ParseToken),
		LogLevel: read(s, "LOG_LEVEL", slog.LevelInfo, parseLevel),
	}
	s.require("API_URL", "http://127.0.0.1:8080")
	t.Notices = s.refuseUnknown()
	return loaded(s, t)
}

// Gateway are the settings of the gateway, each empty where its file says it.
type Gateway struct {
	URL        string // of the service
	APIKey     Secret
	Deployment string // its name in metrics; may be empty
	LogLevel   slog.Level
	Notices    []string // as in Config
}

// LoadGateway reads the settings of the gateway. Its error holds all faults, one a line.
func LoadGateway(environ []string) (Gateway, error) {
	s := newSource(environ)
	g := Gateway{
		URL:        read(s, "URL", "", parseAPIURL),
		APIKey:     read(s, "API_KEY", "", parseKey),
		Deployment: read(s, "DEPLOYMENT", "", parseName),
		LogLevel:   read(s, "LOG_LEVEL", slog.LevelInfo, parseLevel),
	}
	g.Notices = s.refuseUnknown()
	return loaded(s, g)
}

// LoadDeployment returns the name of the deployment, which may be empty.
func LoadDeployment(environ []string) (string, error) {
	s := newSource(environ)
	return loaded(s, read(s, "DEPLOYMENT", "", parseName))
}

// LoadOpsAddr returns where a node with this environment listens for operations.
func LoadOpsAddr(environ []string) (string, error) {
	s := newSource(environ)
	return loaded(s, read(s, "OPS_ADDR", defaultOpsAddr, parseAddr))
}
