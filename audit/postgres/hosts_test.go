package postgres

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"spendgate/bench/must"
)

// The host that took writes last is tried first, with both of its ways to
// connect; the others follow in the order of the URL.
func TestHostThatTookWritesIsFirst(t *testing.T) {
	const url = "postgres://u:p@one:5432,two:5433,three:5434/db?sslmode=prefer"
	config := must.Get(pgconn.ParseConfig(url))(t)
	config.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"192.0.2.2"}, nil }
	config.AfterConnect = func(context.Context, *pgconn.PgConn) error { return nil }
	var h hosts
	h.learn(config)
	tried := func() (order string) {
		c := config.Copy()
		h.order(c)
		order = fmt.Sprintf("%s:%d %t", c.Host, c.Port, c.TLSConfig != nil)
		for _, f := range c.Fallbacks {
			order += fmt.Sprintf(", %s:%d %t", f.Host, f.Port, f.TLSConfig != nil)
		}
		return order
	}
	const asGiven = "one:5432 true, one:5432 false, two:5433 true, two:5433 false, three:5434 true, three:5434 false"
	if got := tried(); got != asGiven {
		t.Errorf("before any: %s", got)
	}
	h.tookWrites(&net.TCPAddr{IP: net.ParseIP("192.0.2.2"), Port: 5433})
	if got := tried(); got != asGiven {
		t.Errorf("an address that nobody looked up: %s", got)
	}
	must.Get(config.LookupFunc(t.Context(), "two"))(t)
	h.tookWrites(&net.TCPAddr{IP: net.ParseIP("192.0.2.2"), Port: 5433})
	want := "two:5433 true, two:5433 false, one:5432 true, one:5432 false, three:5434 true, three:5434 false"
	if got := tried(); got != want {
		t.Errorf("after two took writes: %s", got)
	}
}

// Faults of a URL that only the driver knows are found without connecting, and reported without the
// secrets in the URL.
func TestCheckURL(t *testing.T) {
	for _, url := range []string{
		"postgres://u:hunter2@one:5432,two:5433/db?target_session_attrs=read-write&pool_max_conns=7&default_query_exec_mode=cache_describe",
		"postgres:///db?host=/var/run/postgresql&connect_timeout=1",
	} {
		if err := CheckURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for parameter, want := range map[string]string{
		"sslmode=maybe": "sslmode is invalid", "sslrootcert=/none": "/none", "target_session_attrs=fast": "fast",
		"pool_max_conns=many": "pool_max_conns", "default_query_exec_mode=cached": "cached", "connect_timeout=x": "connect_timeout",
		"password=hunter2&sslmode=maybe": "sslmode is invalid",
	} {
		err := CheckURL("postgres://u:hunter2@db/spend?" + parameter)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") ||
			strings.Contains(err.Error(), "spend") {
			t.Errorf("%s: %v", parameter, err)
		}
	}
}
