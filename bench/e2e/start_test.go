package e2e_test

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// start is a node whose servers come, go and change.
type start struct {
	binary   string
	settings fleet.Settings
	redis    *fleet.Redis
	postgres *fleet.Postgres
	node     *fleet.Node
	key      string // the file of the admin key
}

const formerAdminKey = "admin-key-that-was-0123456789"

// testStart starts a node on a database without fsync. The node refuses unless the setting allows
// it, waits for its dependencies, and logs what it found.
func testStart(t *testing.T, binary string) {
	dir := t.TempDir()
	for _, folder := range []string{filepath.Dir(dir), dir} {
		must.Do(t, os.Chmod(folder, 0o711)) //nolint:gosec // another user runs PostgreSQL
	}
	redis := must.Get(fleet.StartRedis(t.Context(), filepath.Join(dir, "redis")))(t)
	t.Cleanup(func() { must.Do(t, redis.Close()) })
	postgres, err := fleet.StartPostgres(t.Context(), filepath.Join(dir, "postgres"), "fsync=off")
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, postgres.Close()) })
	s := &start{binary: binary, redis: redis, postgres: postgres, key: filepath.Join(dir, "key")}
	must.Do(t, os.WriteFile(s.key, []byte(formerAdminKey), 0o600))
	s.settings = fleet.Settings{
		"REDIS_URL": redis.URL, "DATABASE_URL": postgres.URL, "ADMIN_KEY_FILE": s.key, "ALLOW_UNSAFE_DURABILITY": "true",
	}
	s.node, err = fleet.NewNode(binary, "serve", "start", dir, s.settings)
	must.Do(t, err)
	s.node.Seen = documented(t)
	t.Cleanup(func() { must.Do(t, s.node.Kill()) })
	t.Run("refusals", s.refusals)
	t.Run("waiting", s.waiting)
	t.Run("durability", s.durability)
	t.Run("another Redis", s.otherRedis)
	t.Run("doctor", s.doctor)
	t.Run("SIGHUP", s.hangup)
	t.Run("a connection too few", s.connections)
	t.Run("outage", s.outage)
}

// run returns the output of a command that must end with the code.
func (s *start) run(t *testing.T, want int, with fleet.Settings, args ...string) string {
	t.Helper()
	settings := fleet.Settings{"OPS_ADDR": strings.TrimPrefix(s.node.Ops, "http://"), "LISTEN_ADDR": s.node.Addr}
	for _, all := range []fleet.Settings{s.settings, with} {
		maps.Copy(settings, all)
	}
	code, output, err := fleet.Run(limited(t, patience), s.binary, t.TempDir(), settings, args...)
	must.Do(t, err)
	if code != want {
		t.Errorf("%q exited with %d:\n%s", args, code, output)
	}
	return output
}

// Faults that waiting does not mend end the start, and -check reports the same.
func (s *start) refusals(t *testing.T) {
	wrong := func(text string) string {
		u := must.Get(url.Parse(text))(t)
		u.User = url.UserPassword(u.User.Username(), "no-such-password")
		return u.String()
	}
	for want, with := range map[string]fleet.Settings{
		"SPENDGATE_ALLOW_UNSAFE_DURABILITY=true": {"ALLOW_UNSAFE_DURABILITY": "false"},
		"password authentication failed":         {"DATABASE_URL": wrong(s.postgres.URL)},
		"WRONGPASS":                              {"REDIS_URL": wrong(s.redis.URL)},
		"run `spendgate migrate`":                {"DATABASE_URL": s.reader(t)},
	} {
		for _, args := range [][]string{{"serve"}, {"serve", "--check"}} {
			output := s.run(t, 1, with, args...)
			if !strings.Contains(output, want) || strings.Contains(output, "no-such-password") {
				t.Errorf("%q says\n%s", args, output)
			}
			if json := strings.HasPrefix(output, `{"time":`); json != (len(args) == 1) {
				t.Errorf("%q says it in another form:\n%s", args, output)
			}
		}
	}
	if said := s.run(t, 0, nil, "serve", "--check"); !strings.Contains(said, "can be used") {
		t.Errorf("--check says\n%s", said)
	}
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close() //nolint:errcheck // the test is over
	has(t, s.run(t, 1, fleet.Settings{
		"LISTEN_ADDR": taken.Addr().String(), "OPS_ADDR": "192.0.2.1:9090",
		"CHECKPOINT_KEY": strings.Repeat("0a", 32), "CHECKPOINT_FILE": filepath.Join(t.TempDir(), "none", "checkpoints"),
	}, "serve", "--check"),
		"SPENDGATE_LISTEN_ADDR: listen tcp ", "SPENDGATE_OPS_ADDR: listen tcp ", "SPENDGATE_CHECKPOINT_FILE: open ")
	later := fleet.Settings{"OF_LATER": "x", "IGNORE_UNKNOWN_SETTINGS": "true"}
	const ignored = "SPENDGATE_OF_LATER is no setting of this version, and is ignored"
	if said := s.run(t, 0, later, "serve", "--check"); !strings.Contains(said, ignored) {
		t.Errorf("--check says\n%s", said)
	}
	var tables int
	must.Do(t, s.postgres.Pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&tables))
	if tables > 0 {
		t.Errorf("--check made %d tables", tables)
	}
	s.run(t, 1, nil, "healthcheck")
}

// reader returns the URL of a role that may not make tables.
func (s *start) reader(t *testing.T) string {
	t.Helper()
	must.Get(s.postgres.Pool.Exec(t.Context(), "CREATE ROLE reader LOGIN PASSWORD 'read'"))(t)
	u := must.Get(url.Parse(s.postgres.URL))(t)
	u.User = url.UserPassword("reader", "read")
	return u.String()
}

func (s *start) waiting(t *testing.T) {
	must.Do(t, s.redis.Kill())
	must.Do(t, s.node.Launch())
	eventually(t, patience, "it says what it waits for", func() bool {
		return strings.Contains(s.node.Log(), `"msg":"waiting for a dependency","dependency":"redis"`)
	})
	live := &fleet.Client{Base: s.node.Ops, HTTP: http.DefaultClient}
	ok(t, must.Get(live.Do(t.Context(), http.MethodGet, "/livez", nil))(t), http.StatusOK)
	ok(t, must.Get(s.node.Ready(t.Context()))(t), http.StatusServiceUnavailable)
	if said := s.run(t, 1, nil, "healthcheck"); !strings.Contains(said, "connection refused") {
		t.Errorf("healthcheck says\n%s", said)
	}
	if said := s.run(t, 1, nil, "serve", "--check"); strings.Count(said, "\n") != 1 { // nothing of go-redis
		t.Errorf("--check says\n%s", said)
	}
	for line := range strings.Lines(s.node.Log()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("logged %q", line)
		}
	}
	must.Do(t, syscall.Kill(s.node.PID(), syscall.SIGHUP)) // must not end it
	must.Do(t, s.redis.Start(t.Context()))
	must.Do(t, s.node.WaitReady(limited(t, patience)))
	s.run(t, 0, nil, "healthcheck")
	logs(t, s.node, `"msg":"listening"`)
	named := regexp.MustCompile(`"msg":"listening".*"node":"(\S+?)"`).FindStringSubmatch(s.node.Log())
	if named == nil || metricsOf(t, s.node)[`spendgate_node_info{node="`+named[1]+`"}`] != "1" {
		t.Errorf("the node is %q in its log", named)
	}
}

// alter changes a setting of the running server.
func (s *start) alter(t *testing.T, setting string) {
	t.Helper()
	for _, statement := range []string{"ALTER SYSTEM " + setting, "SELECT pg_reload_conf()"} {
		must.Get(s.postgres.Pool.Exec(t.Context(), statement))(t)
	}
}

func (s *start) durability(t *testing.T) {
	if m := metricsOf(t, s.node); m["spendgate_durability_safe"] != "0" || m["spendgate_ready"] != "1" ||
		m[`spendgate_dependency_up{dependency="store"}`] != "1" {
		t.Errorf("metrics: %v", m)
	}
	if !strings.Contains(readyOf(t, s.node).Durability, "UNSAFE") {
		t.Error("/readyz does not say it")
	}
	logs(t, s.node, "a crash can lose answered checks")
	s.alter(t, "SET synchronous_standby_names = 'FIRST 1 (elsewhere)'")
	eventually(t, patience, "the absent standby is told", func() bool {
		return strings.Contains(readyOf(t, s.node).Durability, "1 of 1 not connected")
	})
	if m := metricsOf(t, s.node); m["spendgate_synchronous_standbys_missing"] != "1" {
		t.Error("the metric does not say it")
	}
	logs(t, s.node, "a synchronous standby is not connected")
	if said := s.run(t, 1, nil, "serve", "--check"); !strings.Contains(said, "commits would wait for a standby") {
		t.Errorf("--check says\n%s", said)
	}
	s.alter(t, "RESET synchronous_standby_names")
	eventually(t, patience, "no standby is missed any more", func() bool {
		return strings.HasSuffix(strings.Split(readyOf(t, s.node).Durability, " (")[0], "no synchronous standby")
	})
	// The sessions that there are keep what new ones raise it to.
	s.alter(t, "SET synchronous_commit = 'off'")
	eventually(t, patience, "the server has it", func() bool {
		var commit string
		must.Do(t, s.postgres.Pool.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&commit))
		return commit == "off"
	})
	for range 3 {
		if r := readyOf(t, s.node); !strings.Contains(r.Durability, "synchronous_commit on") {
			t.Errorf("a session lost its own setting: %+v", r)
		}
	}
	s.alter(t, "RESET synchronous_commit")
}

// A node that was given another Redis than the others does not start beside them, and
// --check finds the same.
func (s *start) otherRedis(t *testing.T) {
	other := must.Get(fleet.StartRedis(t.Context(), t.TempDir()))(t)
	t.Cleanup(func() { must.Do(t, other.Close()) })
	_, key, err := s.node.Admin(formerAdminKey).CreateKey(t.Context(), "at work", plenty)
	must.Do(t, err)
	client := s.node.Client(key)
	ok(t, must.Get(client.PostPolicy(t.Context(), standardPolicy()))(t), http.StatusCreated)
	check := func(ctx context.Context) (fleet.Answer, error) {
		return client.Check(ctx, fleet.Action{
			AgentID: "bot", PolicyID: standard, ActionType: "refund", Amount: "1", Currency: "USD", Counterparty: "c",
		})
	}
	ok(t, must.Get(check(t.Context()))(t), http.StatusOK)
	_, err = s.postgres.Pool.Exec(t.Context(), "CREATE DATABASE anew")
	must.Do(t, err)
	anew := fleet.Settings{"DATABASE_URL": strings.Replace(s.postgres.URL, "/postgres?", "/anew?", 1)}
	if said := s.run(t, 1, anew, "serve", "--check"); !strings.Contains(said, "redis holds the windows of another deployment") {
		t.Errorf("--check of a new database says\n%s", said)
	}
	elsewhere := fleet.Settings{"REDIS_URL": other.URL, "OPS_ADDR": "127.0.0.1:0", "LISTEN_ADDR": "127.0.0.1:0"}
	for _, args := range [][]string{{"serve"}, {"serve", "--check"}} { // in a quiet minute
		if said := s.run(t, 1, elsewhere, args...); !strings.Contains(said, "they use another redis; node ") {
			t.Errorf("%q says\n%s", args, said)
		}
	}
	ok(t, must.Get(check(t.Context()))(t), http.StatusOK)
	for _, emptied := range []bool{false, true} {
		if emptied {
			must.Do(t, s.redis.Client.FlushDB(t.Context()).Err())
		}
		if said := s.run(t, 0, nil, "serve", "--check"); !strings.Contains(said, "can be used") {
			t.Errorf("--check beside it, Redis emptied %t, says\n%s", emptied, said)
		}
	}
	s.parts(t)
}

// parts gives two nodes at work different Redis: each names the other in a metric, and the one that came later is not ready.
func (s *start) parts(t *testing.T) {
	const prefix = "elsewhere:"
	names := func(id string) { must.Do(t, s.redis.Client.Set(t.Context(), prefix+"i:{0}", id, 0).Err()) }
	id := must.Get(s.redis.Client.Get(t.Context(), "i:{0}").Result())(t)
	names(id)
	settings := maps.Clone(s.settings)
	settings["REDIS_KEY_PREFIX"] = prefix
	late := must.Get(fleet.NewNode(s.binary, "serve", "late", t.TempDir(), settings))(t)
	must.Do(t, late.Start(limited(t, patience)))
	defer func() { must.Do(t, late.Kill()) }()
	names("another")
	metric := regexp.MustCompile(`(?m)^spendgate_redis_differs\{host="[^"]+:\d+",node="[0-9a-f]{32}"\} 1$`)
	for _, n := range []*fleet.Node{s.node, late} {
		eventually(t, patience, n.Name+" names the other", func() bool { return metric.Match(must.Get(n.Metrics(t.Context()))(t).Body) })
	}
	if a := must.Get(late.Ready(t.Context()))(t); a.Status != http.StatusServiceUnavailable ||
		!strings.Contains(string(a.Body), `"other nodes are at work, and they use another redis"`) {
		t.Errorf("the node that came later: %s", a)
	}
	if r := readyOf(t, s.node); r.Status != "ready" {
		t.Errorf("the node that was there: %+v", r)
	}
}

// doctor finds a node at work well, and says of each part that is not what to do.
func (s *start) doctor(t *testing.T) {
	said := s.run(t, 0, nil, "doctor", "--balancer", s.node.API, "--gateway", s.node.Ops) // both have a /readyz
	has(t, said, "ok    redis\n", "ok    store\n", "ok    schema\n", "ok    rights of the role\n", "ok    a commit\n", "ok    time zones\n",
		"ok    nodes at work: 1\n", "ok    the same redis as the nodes at work\n", "ok    balancer, nodes that are ready: 1\n",
		"ok    gateway\n", "ok    port SPENDGATE_LISTEN_ADDR\n")
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close() //nolint:errcheck // the test is over
	said = s.run(t, 1, fleet.Settings{"LISTEN_ADDR": taken.Addr().String(), "REDIS_KEY_PREFIX": "none:"},
		"doctor", "--balancer", "http://127.0.0.1:1", "--gateway", "http://127.0.0.1:1", "--prometheus", "http://127.0.0.1:1")
	has(t, said,
		"FAIL  port SPENDGATE_LISTEN_ADDR: ", "FAIL  balancer, ", "FAIL  gateway: ", "FAIL  the rules: ", "ok    redis\n",
		"FAIL  the same redis as the nodes at work: ", "; node ", " Remedy: give this node their SPENDGATE_REDIS_URL")
}

func has(t *testing.T, said string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(said, part) {
			t.Errorf("no %q in\n%s", part, said)
		}
	}
}

// S25: an admin key is rotated: both are accepted while there are two, each alone before and after.
func (s *start) hangup(t *testing.T) {
	const former, next = formerAdminKey, "admin-key-to-be-0123456789"
	accepts := func(key string) bool {
		return must.Get(s.node.Admin(key).Do(t.Context(), http.MethodGet, "/v1/keys", nil))(t).Status == http.StatusOK
	}
	// The test waits for lines of the log instead of trying keys: a node counts wrong keys and
	// refuses all requests after some.
	set := func(setting string) {
		t.Helper()
		before := len(s.node.Log())
		must.Do(t, os.WriteFile(s.key, []byte(setting), 0o600))
		must.Do(t, syscall.Kill(s.node.PID(), syscall.SIGHUP))
		eventually(t, patience, "the setting is taken",
			func() bool { return strings.Contains(s.node.Log()[before:], "the settings were read again") })
	}
	if !accepts(former) || accepts(next) {
		t.Error("before: not the former key alone is accepted")
	}
	set(next + "," + former)
	if !accepts(former) || !accepts(next) || accepts(next+","+former) || accepts(former+"x") || accepts("") {
		t.Error("not both keys, and nothing else, are accepted")
	}
	set(next)
	must.Do(t, os.Remove(s.key))
	must.Do(t, syscall.Kill(s.node.PID(), syscall.SIGHUP))
	eventually(t, patience, "a fault is told",
		func() bool { return strings.Contains(s.node.Log(), "cannot read the settings again; nothing changed") })
	if !accepts(next) || accepts(former) {
		t.Error("after a fault: not the next key alone is accepted")
	}
	if strings.Contains(s.node.Log(), former) || strings.Contains(s.node.Log(), next) {
		t.Error("the log contains an admin key")
	}
}

// A node whose migration gets no connection, although the server answered, waits for one. Then it no longer says
// that the server refuses it, however long the migration takes.
func (s *start) connections(t *testing.T) {
	for _, statement := range []string{
		"CREATE ROLE single LOGIN PASSWORD 'single' CONNECTION LIMIT 1", "CREATE DATABASE single OWNER single",
	} {
		must.Get(s.postgres.Pool.Exec(t.Context(), statement))(t)
	}
	u := must.Get(url.Parse(s.postgres.URL))(t)
	u.User, u.Path = url.UserPassword("single", "single"), "/single"
	settings := maps.Clone(s.settings)
	delete(settings, "ADMIN_KEY_FILE") // it is gone
	maps.Copy(settings, fleet.Settings{"DATABASE_URL": u.String(), "REDIS_KEY_PREFIX": "single:"})
	node := must.Get(fleet.NewNode(s.binary, "serve", "single", t.TempDir(), settings))(t)
	t.Cleanup(func() { must.Do(t, node.Kill()) })
	must.Do(t, node.Launch())
	eventually(t, patience, "it says what it waits for", func() bool {
		return strings.Contains(node.Log(), `"msg":"waiting for a dependency","dependency":"store"`) || !node.Running()
	})
	other := s.postgres.Pool.Config().ConnConfig.Copy()
	other.Database = "single"
	migrating, err := pgx.ConnectConfig(t.Context(), other)
	must.Do(t, err)
	defer func() { _ = migrating.Close(context.Background()) }()
	_, err = migrating.Exec(t.Context(), "SELECT pg_advisory_lock(hashtext('migrations'), hashtext('public'))")
	must.Do(t, err)
	_, err = s.postgres.Pool.Exec(t.Context(), "ALTER ROLE single CONNECTION LIMIT -1")
	must.Do(t, err)
	eventually(t, patience, "/readyz knows, while it migrates, that the store can be used", func() bool {
		answer, err := node.Ready(t.Context())
		return err == nil && answer.Status == http.StatusServiceUnavailable &&
			strings.Contains(string(answer.Body), `{"name":"store","status":"ok"`)
	})
	must.Do(t, migrating.Close(t.Context()))
	must.Do(t, node.WaitReady(limited(t, patience)))
}

// While the database is down, /readyz names neither it nor its user.
func (s *start) outage(t *testing.T) {
	must.Do(t, s.postgres.Kill())
	var body string
	eventually(t, patience, "/readyz fails", func() bool {
		a := must.Get(s.node.Ready(context.Background()))(t)
		body = string(a.Body)
		return a.Status == http.StatusServiceUnavailable
	})
	for _, hidden := range []string{"127.0.0.1", "user=", "database=", "postgres"} {
		if strings.Contains(body, hidden) {
			t.Errorf("/readyz says %s", body)
		}
	}
	must.Do(t, os.WriteFile(s.key, []byte(formerAdminKey), 0o600))
	said := s.run(t, 1, nil, "doctor", "--balancer", s.node.API)
	has(t, said, "FAIL  store: ",
		"SKIP  durability, schema, rights of the role, a commit, nodes", "FAIL  balancer, nodes that are ready: 0: it answers")
	if m := metricsOf(t, s.node); m["spendgate_ready"] != "0" || m[`spendgate_dependency_up{dependency="store"}`] != "0" {
		t.Error("the metrics say that all is well")
	}
}
