package guard

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/sqlite"
	"spendgate/hotpath/guard/embedded"
	"spendgate/hotpath/pipeline/resp"
	"spendgate/hotpath/spend"
	"spendgate/ratelimit"
)

func newGuard(t *testing.T) *Guard {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	g := New(Options{
		Redis: server.Options(), Embedded: true, Store: store,
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	t.Cleanup(func() {
		_ = g.Close()
		server.Close()
		store.Close()
	})
	return g
}

// newLoadable gives a guard that is in an epoch, and the server of its windows.
func newLoadable(t *testing.T) (*Guard, *redis.Client) {
	t.Helper()
	g := newGuard(t)
	if _, err := g.Ask(t.Context(), ratelimit.Charge{}); err != nil {
		t.Fatal(err)
	}
	server, err := g.conns.master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return g, server
}

// trips is how many pipelines were sent.
func (g *Guard) trips(t *testing.T) uint64 {
	t.Helper()
	var m dto.Metric
	if err := g.metrics.batchSize.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetHistogram().GetSampleCount()
}

// F6: an ask whose names were made for an epoch that is over by the time it is
// sent must not pass for one of the epoch in force.
func TestAskOfAnOlderEpochIsVoid(t *testing.T) {
	g := newGuard(t)
	if _, err := g.Ask(t.Context(), ratelimit.Charge{}); err != nil {
		t.Fatal(err)
	}
	current := ask{windows: *g.windows.Load()}
	older := ask{windows: marker{epoch: spend.NewID(time.Now()), server: "embedded", full: true}}
	if err := errors.Join(g.batch.do(&current), g.batch.do(&older)); err != nil {
		t.Fatal(err)
	}
	if current.reading.lost || !older.reading.lost {
		t.Errorf("lost: current %t, older %t", current.reading.lost, older.reading.lost)
	}
}

// What was lazy when the names were made stays lazy for the ask, even if the
// loader finished meanwhile: it may have come by before the claim.
func TestAskStaysLazy(t *testing.T) {
	g := newGuard(t)
	if _, err := g.Ask(t.Context(), ratelimit.Charge{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); !g.windows.Load().full; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("windows are never loaded")
		}
	}
	lazy := *g.windows.Load()
	lazy.full = false
	a := ask{windows: lazy}
	if err := g.batch.do(&a); err != nil || a.reading.lost || a.reading.windows.full {
		t.Errorf("lost %t, full %t, %v", a.reading.lost, a.reading.windows.full, err)
	}
}

// F33: the loader meets a stale claim under a live pass's name, which is
// released before the pass can take its place. The name is free, so the
// windows are not full yet.
func TestReleasedClaimIsContestedAgain(t *testing.T) {
	g, server := newLoadable(t)
	now := time.Now()
	pass := audit.LivePass{CheckID: spend.NewID(now), Pass: spend.Pass{ClaimedMS: now.UnixMilli(), UntilMS: now.Add(time.Hour).UnixMilli()}}
	stale := holder{pending, *g.node.Load(), spend.NewID(now), 1}.String()
	m := *g.windows.Load()
	name := fingerprintName(m.epoch, pass.Fingerprint)
	if settled, err := g.settleContested(t.Context(), server, m, pass, stale, now); err != nil || settled {
		t.Errorf("a free name: settled %t, %v", settled, err)
	}
	if err := server.Set(t.Context(), name, stale, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if settled, err := g.settleContested(t.Context(), server, m, pass, stale, now); err != nil || !settled {
		t.Errorf("a stale claim: settled %t, %v", settled, err)
	}
	if held := server.Get(t.Context(), name).Val(); held != passHolder(pass).String() {
		t.Errorf("the name holds %q", held)
	}
}

// F45: of two live passes of one fingerprint the newer one holds the name in the
// end, also if the older one came in while the newer one's name was contested.
func TestNewerPassHoldsTheName(t *testing.T) {
	g, server := newLoadable(t)
	m, now := *g.windows.Load(), time.Now()
	pass := func(ago time.Duration) audit.LivePass {
		at := now.Add(-ago)
		return audit.LivePass{CheckID: spend.NewID(at), Pass: spend.Pass{ClaimedMS: at.UnixMilli(), UntilMS: now.Add(time.Hour).UnixMilli()}}
	}
	older, newer := pass(time.Minute), pass(time.Second)
	for _, passes := range [][]audit.LivePass{{older, newer}, {newer, older}} {
		if err := server.Del(t.Context(), fingerprintName(m.epoch, newer.Fingerprint)).Err(); err != nil {
			t.Fatal(err)
		}
		for _, p := range passes {
			if left, err := g.loadPasses(t.Context(), server, m, []audit.LivePass{p}); err != nil || len(left) > 0 {
				t.Errorf("%v, %v", left, err)
			}
		}
		if held := server.Get(t.Context(), fingerprintName(m.epoch, newer.Fingerprint)).Val(); held != passHolder(newer).String() {
			t.Errorf("the name holds %q", held)
		}
	}
}

// F43: a name that is free answers the loader's SET with nil, which go-redis
// calls an error, and tells instead of the refusals behind it.
func TestRefusedWindowIsNotLoaded(t *testing.T) {
	g, server := newLoadable(t)
	m, now := *g.windows.Load(), time.Now()
	passes := make([]audit.LivePass, 2)
	for i := range passes {
		passes[i] = audit.LivePass{
			Fingerprint: spend.Hash{byte(i)}, CheckID: spend.NewID(now),
			Pass: spend.Pass{ClaimedMS: now.UnixMilli(), UntilMS: now.Add(time.Hour).UnixMilli()},
		}
	}
	if err := server.RPush(t.Context(), fingerprintName(m.epoch, passes[1].Fingerprint), "not a claim").Err(); err != nil {
		t.Fatal(err)
	}
	if left, err := g.loadPasses(t.Context(), server, m, passes); err == nil {
		t.Errorf("a window that Redis refused counts as loaded; contested: %v", left)
	}
}

// A check that Redis refused in part leaves no claim behind (G7).
func TestHalfRefusedCheckLeavesNoClaim(t *testing.T) {
	g, server := newLoadable(t)
	at := Attempt{Fingerprint: spend.Hash{1}, KeyHash: spend.Hash{2}, Window: time.Hour, Deadline: time.Now().Add(time.Second)}
	epoch := g.windows.Load().epoch
	if err := server.RPush(t.Context(), fingerprintName(epoch, at.Fingerprint), "not a claim").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Claim(t.Context(), &at); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("a refused claim: %v", err)
	}
	key := keyName(epoch, at.KeyHash)
	for deadline := time.Now().Add(staleAfter / 2); server.Exists(t.Context(), key).Val() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the idempotency key is still claimed: %s", server.Get(t.Context(), key).Val())
		}
	}
}

// F15: a request that this node knows to be over its limit asks for the
// generation alone. Each claim would have to be released again.
func TestRefusedFromMemoryClaimsNothing(t *testing.T) {
	g, server := newLoadable(t)
	charge := ratelimit.Charge{Key: "r:{0}:k", Limit: 1}
	for i, want := range []Kind{Pass, Limited, Limited} {
		at := Attempt{Fingerprint: spend.Hash{byte(i)}, Window: time.Hour, Charge: charge, Deadline: time.Now().Add(time.Second)}
		if out, err := g.Claim(t.Context(), &at); err != nil || out.Kind != want {
			t.Fatalf("claim %d: %v, not %v, %v", i, out.Kind, want, err)
		}
	}
	a := ask{windows: *g.windows.Load(), charge: charge, claims: [2]claim{{name: "k", value: "v", px: time.Hour}, {name: "f", value: "v", px: time.Hour}}}
	if err := g.batch.do(&a); err != nil || a.counted {
		t.Fatalf("counted %t, %v", a.counted, err)
	}
	if n := server.Exists(t.Context(), "k", "f").Val(); n > 0 {
		t.Errorf("%d claims of a request that is refused from memory", n)
	}
}

// S17: an age is that on Redis' clock, of which a slow trip tells only between
// which two moments it was read. What may be within the window is a duplicate.
func TestAgeIsNotGuessedTooHigh(t *testing.T) {
	g, server := newLoadable(t)
	at := Attempt{Fingerprint: spend.Hash{1}, Window: time.Minute, Deadline: time.Now().Add(time.Second)}
	told, now := time.Now(), time.Now()
	g.batch.clock.Store(&clockReading{redis: told, sent: now.Add(-500 * time.Millisecond), received: now})
	h := holder{committed, spend.NewID(now), spend.NewID(now), told.Add(-at.Window + 300*time.Millisecond).UnixMilli()}
	at.f.name = fingerprintName(g.windows.Load().epoch, at.Fingerprint)
	if err := server.Set(t.Context(), at.f.name, h.String(), time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if out, again, err := g.meetRecorded(t.Context(), &at, h); err != nil || again || out.Kind != Duplicate {
		t.Errorf("an action within the window: %+v, again %t, %v", out, again, err)
	}
	if ahead := g.batch.now().Sub(told); ahead < 500*time.Millisecond {
		t.Errorf("a claim made now may be stamped %v too early", 500*time.Millisecond-ahead)
	}
}

// A check whose client got a 500 is not recorded in the end. Its mark as an
// orphan may come to Redis before the release or after it (G7).
func TestMarkedClaimIsReleased(t *testing.T) {
	for _, late := range []bool{false, true} {
		g, server := newLoadable(t)
		h := holder{pending, spend.NewID(time.Now()), spend.NewID(time.Now()), time.Now().UnixMilli()}
		name := fingerprintName(g.windows.Load().epoch, spend.Hash{1})
		if err := server.Set(t.Context(), name, h.String(), time.Millisecond*900).Err(); err != nil {
			t.Fatal(err)
		}
		at := Attempt{f: held{mine: true, name: name, plain: h.String(), value: h.as(orphan).String()}}
		if late {
			g.Release(&at)
			g.batch.later(markOrphan(name, h))
		} else {
			g.batch.later(markOrphan(name, h))
			g.Release(&at)
		}
		if _, err := g.Ask(t.Context(), ratelimit.Charge{}); err != nil {
			t.Fatal(err)
		}
		if held := server.Get(t.Context(), name).Val(); held != "" {
			t.Errorf("marked late %t: still claimed: %s", late, held)
		}
	}
}

// A claim is swapped as well in the last millisecond of its life, of which
// nothing is left in Redis' unit.
func TestSwapInTheLastMillisecond(t *testing.T) {
	g, server := newLoadable(t)
	if err := server.Set(t.Context(), "name", "old", time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	a := &ask{swap: &swap{name: "name", old: "old", new: "new", px: time.Microsecond}}
	if err := g.batch.do(a); err != nil || !a.swap.done {
		t.Error("not swapped", err)
	}
}

func TestValuesRoundTrip(t *testing.T) {
	h := holder{pending, spend.NewID(time.Now()), spend.NewID(time.Now()), 1795226469123}
	if got, err := parseHolder(h.String()); err != nil || got != h {
		t.Errorf("%q: %+v, %v", h, got, err)
	}
	m := marker{deployment: h.check, epoch: h.node, server: "abc", full: true}
	if got, err := parseMarker(m.String()); got != m || err != nil {
		t.Errorf("%q: %+v, %v", m, got, err)
	}
	for _, text := range []string{"", "P", "P|", "X|" + h.String()[2:], h.String() + "|1", "P|a|b|c", "lazy", "a|b|lazy", "|||"} {
		if _, err := parseHolder(text); err == nil {
			t.Errorf("%q is a holder", text)
		}
		if m, err := parseMarker(text); m != (marker{}) || err != nil {
			t.Errorf("%q is a marker", text)
		}
	}
}

func FuzzParseHolder(f *testing.F) {
	f.Add("P|01a1fbd5194870db84b7e3f3081de164|01a1fbd5194870db84b7e3f3081de164|1795226469123")
	f.Add("C|00000000000000000000000000000000|01a1fbd5194870db84b7e3f3081de164|-1")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHolder(s)
		if err != nil {
			return
		}
		if again, err := parseHolder(h.String()); err != nil || again != h {
			t.Errorf("%q does not round-trip", s)
		}
	})
}

// A waiter is answered by a question that began after it asked.
func TestLookupAnswersAreFresh(t *testing.T) {
	asked, answer := make(chan []int), make(chan map[int]string)
	l := lookup[int, string]{load: func(_ context.Context, keys []int) (map[int]string, error) {
		asked <- keys
		return <-answer, nil
	}}
	get := func() chan string {
		got := make(chan string, 1)
		go func() {
			v, ok, err := l.get(t.Context(), 1)
			if !ok || err != nil {
				v = "absent"
			}
			got <- v
		}()
		return got
	}
	first := get()
	<-asked
	second := get() // while the first question is under way
	answer <- nil
	if v := <-first; v != "absent" {
		t.Errorf("first: %s", v)
	}
	<-asked
	answer <- map[int]string{1: "there"}
	if v := <-second; v != "there" {
		t.Errorf("second: %s", v)
	}
}

func TestSuitableServers(t *testing.T) {
	for info, ok := range map[string]bool{
		"redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n":  true,
		"redis_version:8.2.0\r\n":                                  true,
		"redis_version:6.2.0\r\nmaxmemory_policy:noeviction\r\n":   false,
		"redis_version:7.0.15\r\nmaxmemory_policy:allkeys-lru\r\n": false,
		"": false,
	} {
		if err := suitable(info); (err == nil) != ok {
			t.Errorf("%q: %v", info, err)
		}
	}
}

// Requests that are read from the network together share a round trip,
// although the batcher is idle when the first of them asks.
func TestReadyAsksShareATrip(t *testing.T) {
	g := newGuard(t)
	if _, err := g.Ask(t.Context(), ratelimit.Charge{}); err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // their order is then the scheduler's alone
	var n uint64
	for range 5 { // the scheduler may interrupt one of them
		if n = askTogether(t, g, 32); n == 1 {
			return
		}
	}
	t.Errorf("32 asks took %d round trips", n)
}

// G7: Redis hangs, and more asks wait than several pipelines take. None is
// refused later than 2 s. If only the one connection was dead, those that
// waited behind it are answered on the next.
func TestManyAsksOfAHungRedis(t *testing.T) {
	for name, alone := range map[string]bool{"server": false, "connection": true} {
		t.Run(name, func(t *testing.T) {
			g, _ := newLoadable(t)
			dial, hung := g.conns.hot.connect, make(chan struct{}, 16)
			g.conns.hot.connect = func(ctx context.Context) (*resp.Conn, error) {
				if alone && len(hung) > 0 {
					return dial(ctx)
				}
				hung <- struct{}{}
				time.Sleep(50 * time.Millisecond) // others come before the trip's time begins
				ours, _ := net.Pipe()             // nobody reads
				return resp.NewConn(ours), nil
			}
			g.conns.hot.suspect.Store(true)
			asks := make([]ask, 4*maxBatch)
			for i := range asks {
				asks[i].windows = *g.windows.Load()
			}
			started := time.Now()
			var wg sync.WaitGroup
			wg.Go(func() { _ = g.batch.do(&asks[0]) })
			for len(hung) == 0 {
				time.Sleep(time.Millisecond)
			}
			for i := range asks[1:] {
				wg.Go(func() { _ = g.batch.do(&asks[1+i]) })
			}
			wg.Wait()
			if took := time.Since(started); took > 2*time.Second {
				t.Errorf("the last was answered after %s", took)
			}
			for i := range asks {
				if answered := alone && i > 0; (asks[i].err == nil) != answered {
					t.Fatalf("ask %d: %v", i, asks[i].err)
				}
			}
		})
	}
}

// askTogether lets many goroutines ask at once and counts the round trips.
func askTogether(t *testing.T, g *Guard, n int) (trips uint64) {
	t.Helper()
	before := g.trips(t)
	asks := make([]ask, n)
	read := make(chan struct{})
	var waiting, done sync.WaitGroup
	for i := range asks {
		asks[i].windows = *g.windows.Load()
		waiting.Add(1)
		done.Go(func() {
			waiting.Done()
			<-read
			_ = g.batch.do(&asks[i])
		})
	}
	waiting.Wait()
	close(read)
	done.Wait()
	for i := range asks {
		if asks[i].err != nil {
			t.Fatal(asks[i].err)
		}
	}
	return g.trips(t) - before
}
