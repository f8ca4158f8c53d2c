package pipeline

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"spendgate/bench/must"
	"spendgate/hotpath/guard/embedded"
	"spendgate/hotpath/pipeline/resp"
)

// newClient returns a client that has sent a batch to a server in this process.
func newClient(t *testing.T) *Client {
	t.Helper()
	server := must.Get(embedded.Start())(t)
	c := New(Options{
		Redis: server.Options(), Embedded: true, Registerer: prometheus.NewRegistry(),
		First: Value{"first", 16}, Last: Value{"last", 16},
		Verify: func(string, string) bool { return true },
	})
	t.Cleanup(func() {
		_ = c.Close()
		server.Close()
	})
	must.Do(t, c.Do(&Request{}))
	return c
}

// roundTrips returns how many batches were sent.
func (c *Client) roundTrips(t *testing.T) uint64 {
	t.Helper()
	var m dto.Metric
	must.Do(t, c.metrics.batchSize.Write(&m))
	return m.GetHistogram().GetSampleCount()
}

// F5: the value that is read last decides whether a batch holds. A connection
// whose batch does not hold is given up.
func TestRefusedBatchIsVoid(t *testing.T) {
	c := newClient(t)
	valid := false
	c.o.Verify = func(string, string) bool { return valid }
	r := Request{Gets: []string{"name"}}
	if err := c.Do(&r); err != nil || !r.Void {
		t.Errorf("a refused batch: void %t, %v", r.Void, err)
	}
	valid = true
	dialled, dial := false, c.hot.connect
	c.hot.connect = func(ctx context.Context) (*resp.Conn, error) {
		dialled = true
		return dial(ctx)
	}
	r = Request{Gets: []string{"name"}}
	if err := c.Do(&r); err != nil || r.Void || !dialled {
		t.Errorf("the next batch: void %t, on a new connection %t, %v", r.Void, dialled, err)
	}
}

// S17: a window that begins is stamped with the latest time that Redis' clock may show, and its end
// is judged by the earliest (F49).
func TestClockOfASlowRoundTrip(t *testing.T) {
	c := newClient(t)
	told, now := time.Now(), time.Now()
	c.clock.Store(&clockReading{redis: told, sent: now.Add(-time.Hour), received: now.Add(-time.Minute)})
	if ahead := c.Latest().Sub(told); ahead < time.Hour {
		t.Errorf("what begins now may be stamped %v too early", time.Hour-ahead)
	}
	if ahead := c.Earliest().Sub(told); ahead < time.Minute || ahead > time.Hour/2 {
		t.Errorf("the earliest time is %v after the reading", ahead)
	}
}

// A value can be swapped even in the last millisecond of its life, when Redis reports no remaining
// time.
func TestSwapInTheLastMillisecond(t *testing.T) {
	c := newClient(t)
	server := must.Get(c.Master(t.Context()))(t)
	must.Do(t, server.Set(t.Context(), "name", "old", time.Second).Err())
	r := &Request{Swap: &Swap{Name: "name", Old: "old", New: "new", Life: time.Microsecond}}
	if err := c.Do(r); err != nil || !r.Swap.Done {
		t.Error("not swapped", err)
	}
}

// F18.
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

// F18: the server of a connection in use is checked again, and then refused like that of a new one.
func TestServerIsCheckedAgain(t *testing.T) {
	c := newClient(t)
	evicts, checks := errors.New("evicts"), 0
	c.hot.check = func(context.Context, *resp.Conn) error { checks++; return evicts }
	connect := c.hot.connect
	c.hot.connect = func(context.Context) (*resp.Conn, error) { return nil, evicts }
	c.hot.keep = time.Hour
	if err := c.Do(&Request{}); err != nil || checks > 0 {
		t.Errorf("a batch soon after the check: %v, %d checks", err, checks)
	}
	c.hot.checked = time.Now().Add(-2 * time.Hour)
	if err := c.Do(&Request{}); !errors.Is(err, evicts) || checks != 1 {
		t.Errorf("a server that is not fit any more: %v, %d checks", err, checks)
	}
	c.hot.connect = connect
	if err := c.Do(&Request{}); err != nil {
		t.Errorf("a server that is fit again: %v", err)
	}
}

// F18: what a server has evicted is part of its history.
func TestEvictedKeysNameTheServer(t *testing.T) {
	const info = "run_id:a\r\nmaster_replid:b\r\n"
	for told, want := range map[string]string{info: "a/b", info + "evicted_keys:0\r\n": "a/b", info + "evicted_keys:7\r\n": "a/b/7"} {
		if got := serverIn(told); got != want {
			t.Errorf("%q: %s, want %s", told, got, want)
		}
	}
}

// Requests read from the network together share a round trip, although the client is idle when the
// first of them arrives.
func TestReadyRequestsShareARoundTrip(t *testing.T) {
	c := newClient(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // their order is then the scheduler's alone
	var n uint64
	for range 5 { // the scheduler may separate them
		if n = doTogether(t, c, 32); n == 1 {
			return
		}
	}
	t.Errorf("32 requests took %d round trips", n)
}

// G7: Redis hangs, and more requests wait than several batches take. None is
// refused later than 2 s. If only the one connection was dead, those that
// waited behind it are answered on the next.
func TestManyRequestsOfAHungRedis(t *testing.T) {
	for name, alone := range map[string]bool{"server": false, "connection": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { manyRequestsOfAHungRedis(t, alone) }) })
	}
}

func manyRequestsOfAHungRedis(t *testing.T, alone bool) {
	c := newClient(t)
	dial, hung := c.hot.connect, make(chan struct{}, 16)
	c.hot.connect = func(ctx context.Context) (*resp.Conn, error) {
		if alone && len(hung) > 0 {
			return dial(ctx)
		}
		hung <- struct{}{}
		time.Sleep(50 * time.Millisecond) // others come before the round trip's time begins
		ours, _ := net.Pipe()             // nobody reads
		return resp.NewConn(ours), nil
	}
	c.hot.suspect.Store(true)
	requests := make([]Request, 4*maxBatch)
	started := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.Do(&requests[0]) })
	for len(hung) == 0 {
		time.Sleep(time.Millisecond)
	}
	for i := range requests[1:] {
		wg.Go(func() { _ = c.Do(&requests[1+i]) })
	}
	wg.Wait()
	if took := time.Since(started); took > 2*time.Second {
		t.Errorf("the last was answered after %s", took)
	}
	for i := range requests {
		if answered := alone && i > 0; (requests[i].err == nil) != answered {
			t.Fatalf("request %d: %v", i, requests[i].err)
		}
	}
}

// doTogether lets many goroutines send a request at once and counts the round
// trips.
func doTogether(t *testing.T, c *Client, n int) uint64 {
	t.Helper()
	before := c.roundTrips(t)
	requests := make([]Request, n)
	read := make(chan struct{})
	var waiting, done sync.WaitGroup
	for i := range requests {
		waiting.Add(1)
		done.Go(func() {
			waiting.Done()
			<-read
			_ = c.Do(&requests[i])
		})
	}
	waiting.Wait()
	close(read)
	done.Wait()
	for i := range requests {
		if requests[i].err != nil {
			t.Fatal(requests[i].err)
		}
	}
	return c.roundTrips(t) - before
}
