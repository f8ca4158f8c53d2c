package e2e_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// testPooler: through a PgBouncer in transaction mode all guarantees hold if the URL is made for
// it; else `serve --check` and the start say what the URL lacks.
func testPooler(t *testing.T, binary string) {
	if os.Getenv("TEST_PGBOUNCER") == "" {
		t.Skip("needs PgBouncer: run it by make test, which installs it")
	}
	f := startFleet(t, fleet.Options{Binary: binary})
	pooler := must.Get(f.StartPooler(t.Context()))(t)
	s := &suite{Fleet: f, binary: binary}
	t.Run("without its mode", func(t *testing.T) { s.withoutItsMode(t, pooler) })
	through, err := pooler.Before(f.Postgres.URL, "default_query_exec_mode=cache_describe")
	must.Do(t, err)
	for range 2 {
		n := must.Get(f.AddNode(fleet.Settings{"DATABASE_URL": through}))(t)
		must.Do(t, n.Start(limited(t, patience)))
	}
	_, s.key = s.newKey(t, plenty)
	s.post(t, f.Nodes[0], standardPolicy())
	s.inOrder(t, []test{
		{"under load", func(t *testing.T) {
			s.underLoad(t, func() (from, back time.Time) { return time.Now(), time.Now() }, unharmed)
		}},
		{"G1 pooler killed", func(t *testing.T) {
			s.underLoad(t, func() (from, back time.Time) {
				from = time.Now()
				must.Do(t, pooler.Kill())
				time.Sleep(300 * time.Millisecond)
				must.Do(t, pooler.Start(t.Context()))
				return from, time.Now()
			}, outage)
		}},
		{"G1 postgres killed", s.postgresKilled},
		{"G8 the trail is proved", func(t *testing.T) {
			code, output, err := fleet.Run(limited(t, patience), binary, t.TempDir(), fleet.Settings{"DATABASE_URL": through}, "audit", "verify")
			if err != nil || code != 0 {
				t.Errorf("%d, %v\n%s", code, err, output)
			}
		}},
	})
}

// withoutItsMode: prepared statements are found by chance behind such a pooler.
func (s *suite) withoutItsMode(t *testing.T, pooler *fleet.Pooler) {
	through := must.Get(pooler.Before(s.Postgres.URL))(t)
	ops, err := fleet.FreeAddr()
	must.Do(t, err)
	settings := fleet.Settings{
		"REDIS_URL": s.Redis.URL, "DATABASE_URL": through, "ADMIN_KEY": s.AdminKey, "OPS_ADDR": ops, "LISTEN_ADDR": "127.0.0.1:0",
	}
	for _, args := range [][]string{{"serve", "--check"}, {"serve"}} {
		code, output, err := fleet.Run(limited(t, patience), s.binary, t.TempDir(), settings, args...)
		if err != nil || code != 1 || !strings.Contains(output, "default_query_exec_mode=cache_describe") {
			t.Errorf("%q: exit %d, %v\n%s", args, code, err, output)
		}
	}
}
