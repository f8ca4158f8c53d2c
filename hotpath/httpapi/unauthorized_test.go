package httpapi

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"spendgate/hotpath"
	"spendgate/hotpath/trace"
)

// Nothing is parsed of a stranger's body, nor of a caller's who is over the
// demo's limit.
func TestStrangersBodiesAreNotParsed(t *testing.T) {
	records := make(chan trace.Record, 10)
	s := start(t, func(o *Options) {
		o.Trace = func(r *trace.Record) trace.ID { records <- *r; return trace.ID{} }
	})
	f := func(path, body, key string, parsed int) {
		t.Helper()
		a := s.do("POST", path, body, key)
		if r := <-records; len(r.Spans()) != parsed {
			t.Errorf("%s, %s: %d, stages %v, want %d of them", path, key, a.status, r.Spans(), parsed)
		}
	}
	f("/v1/checks", plainCheck, "X-API-Key: "+goodKey, 1)
	f("/v1/checks", plainCheck, "X-API-Key: svc_live_wrong", 0)
	f("/v1/checks", plainCheck, "X-API-Key: -", 0)
	f("/v1/simulate", simulationOf(1), "X-API-Key: -", 1)
	f("/v1/simulate", simulationOf(1), "X-API-Key: wrong", 0)
	s.fake.admitErr = hotpath.ErrRateLimited
	f("/v1/simulate", simulationOf(1), "X-API-Key: -", 0)
}

// Without the demo a simulation needs a key.
func TestNoDemo(t *testing.T) {
	s := start(t, func(o *Options) { o.NoDemo = true })
	s.do("POST", "/v1/simulate", simulationOf(1), "X-API-Key: -").is(t, "", 401, `"code":"`+codeUnauthorized+`"`)
	s.do("POST", "/v1/simulate", simulationOf(1)).is(t, "with a key", 200)
}

// An address that sent wrong admin keys (for IPv6, its network of 64 bits) gets the same refusal
// for a while, whatever it sends. Requests without a key are not counted, and no other address is
// barred.
func TestWrongAdminKeysAreCounted(t *testing.T) {
	s := start(t, func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	ask := func(from, key string) answer {
		t.Helper()
		return s.do("GET", "/v1/keys", "", "X-Forwarded-For: "+from, "X-Admin-Key: "+key)
	}
	for range 2 * maxAdminFailures {
		ask("2a00::1", "-")
	}
	var wrong answer
	for i := range maxAdminFailures {
		if a := ask("2a00::1", adminKey); a.status != 200 {
			t.Fatalf("after %d wrong keys: %d %s", i, a.status, a.body)
		}
		wrong = ask(fmt.Sprintf("2a00::%x", i+1), "wrong")
	}
	barred := ask("2a00::ffff:1", adminKey)
	if barred.status != 401 || barred.code(t) != wrong.code(t) || len(barred.body) != len(wrong.body) ||
		len(barred.header) != len(wrong.header) {
		t.Errorf("barred %d %s %v\nwrong %d %s %v", barred.status, barred.body, barred.header, wrong.status, wrong.body, wrong.header)
	}
	ask("2a00:0:0:1::1", adminKey).is(t, "from elsewhere", 200)
}

func TestAdminFailures(t *testing.T) {
	f := adminFailures{lockouts: newMetrics(nil, func() int64 { return 0 }).lockouts}
	now := time.Now()
	wrong, right := func() bool { return false }, func() bool { return true }
	for range maxAdminFailures {
		f.compare("a", now, wrong)
		now = now.Add(time.Second)
	}
	if f.compare("a", now, right) || !f.compare("b", now, right) {
		t.Error("the wrong address is barred")
	}
	if n := testutil.ToFloat64(f.lockouts); n != 1 {
		t.Errorf("%v lockouts are counted", n)
	}
	if now = now.Add(adminFailuresFor); !f.compare("a", now, right) {
		t.Error("barred for ever")
	}
	for i := range 3 * maxFailedClients {
		f.compare(fmt.Sprint(i), now, wrong)
	}
	if len(f.clients) > maxFailedClients {
		t.Errorf("%d addresses are remembered", len(f.clients))
	}
}

// 401s are counted by reason, and logged once a second for each.
func TestUnauthorizedIsCountedAndLoggedByReason(t *testing.T) {
	s := start(t, nil)
	const each = 20
	for range each {
		s.do("POST", "/v1/checks", plainCheck, "X-API-Key: -")
		s.do("POST", "/v1/checks", plainCheck, "X-API-Key: svc_live_wrong")
		s.do("GET", "/v1/keys", "", "X-Admin-Key: wrong")
		s.fake.admitErr = hotpath.ErrKeyInactive
		s.do("GET", "/v1/violations", "")
		s.fake.admitErr = hotpath.ErrSessionEnded
		s.do("GET", "/v1/violations", "")
		s.fake.admitErr = nil
	}
	logged := s.logged.String()
	for i, reason := range unauthorizedReasons {
		if n := testutil.ToFloat64(s.api.unauthorized[i].counter); n != each {
			t.Errorf("%s: %v are counted", reason, n)
		}
		if n := strings.Count(logged, "reason="+reason); n == 0 || n >= each {
			t.Errorf("%s: %d lines in %s", reason, n, logged)
		}
	}
	if lines := strings.Count(logged, "status=401"); lines != strings.Count(logged, "reason=") {
		t.Errorf("%d lines of 401s, also without a reason: %s", lines, logged)
	}
	if n, err := testutil.GatherAndCount(s.metrics, "spendgate_unauthorized_total"); n != len(unauthorizedReasons) || err != nil {
		t.Errorf("%d series, %v", n, err)
	}
	if !strings.Contains(logged, "client=127.0.0.1") {
		t.Errorf("the address of the failed admin is not in %s", logged)
	}
}

// An operator may allow more than the interface's 10,000.
func TestHighestRateLimit(t *testing.T) {
	admin := "X-Admin-Key: " + adminKey
	f := func(most, asked, status int) {
		t.Helper()
		s := start(t, func(o *Options) { o.MaxRateLimit = most })
		limit := fmt.Sprintf(`"rate_limit_rpm":%d}`, asked)
		if a := s.do("POST", "/v1/keys", `{"name":"n",`+limit, admin); a.status/100 != status/100 {
			t.Errorf("%d of %d: %d %s", asked, most, a.status, a.body)
		}
		if a := s.do("PATCH", "/v1/keys/key_01a1f958502270008001020304050607", `{`+limit, admin); a.status/100 != status/100 {
			t.Errorf("%d of %d: %d %s", asked, most, a.status, a.body)
		}
	}
	f(0, 10000, 200)
	f(0, 10001, 422)
	f(50000, 50000, 200)
	f(50000, 50001, 422)
}
