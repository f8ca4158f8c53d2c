package embedded

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/bench/must"
)

// A laptop sleeps, or its clock is set: the server's time is the time of the wall
// clock, with which it would begin anew, and lives end by it. It never goes
// back, which could end a window early (F47).
func TestClockFollowsTheWall(t *testing.T) {
	var stepped atomic.Int64
	r := must.Get(start(func() time.Time { return time.Now().Add(time.Duration(stepped.Load())) }))(t)
	defer r.Close()
	o := r.Options()
	client := redis.NewUniversalClient(&o)
	defer client.Close() //nolint:errcheck // nothing to lose
	clock := func() time.Time {
		t.Helper()
		return must.Get(client.Time(t.Context()).Result())(t)
	}
	for name, life := range map[string]time.Duration{"short": 5 * time.Minute, "long": time.Hour} {
		must.Do(t, client.Set(t.Context(), name, "", life).Err())
	}

	// The clock's step counts at once, before the next tick: a claim made now lives from now on.
	stepped.Store(int64(10 * time.Minute))
	pipe := client.Pipeline()
	told, claimed := pipe.Time(t.Context()), pipe.Set(t.Context(), "claimed", "", 5*time.Minute)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err, claimed.Err())
	}
	if late := time.Until(told.Val()) - 10*time.Minute; late < -2*tick {
		t.Errorf("asked after a sleep, it tells a time %v ago", -late)
	}
	time.Sleep(3 * tick)
	if n := client.Exists(t.Context(), "claimed").Val(); n != 1 {
		t.Error("what was claimed after a sleep ended with it")
	}
	late := time.Until(clock()) - 10*time.Minute
	if late < -2*tick || late > 0 {
		t.Errorf("%v beside the wall clock after a sleep", late)
	}
	if n := client.Exists(t.Context(), "short").Val(); n != 0 {
		t.Error("what lived for five minutes is there after ten")
	}
	if n := client.Exists(t.Context(), "long").Val(); n != 1 {
		t.Error("what lived for an hour is gone after ten minutes")
	}

	before := clock()
	stepped.Store(0)
	time.Sleep(3 * tick)
	if now := clock(); now.Before(before) {
		t.Errorf("went back by %v", before.Sub(now))
	}
	r.Advance(time.Minute)
	if now := clock(); now.Before(before.Add(time.Minute)) {
		t.Errorf("advanced by %v of a minute", now.Sub(before))
	}
}

// Nobody outside the process reaches the server. The connections within it carry
// a pipeline that is larger than any buffer between its ends.
func TestOnlyThisProcess(t *testing.T) {
	r := must.Get(Start())(t)
	defer r.Close()
	if addr := r.server.Server().Addr(); addr != nil {
		t.Errorf("listens on %s", addr)
	}
	o := r.Options()
	client := redis.NewUniversalClient(&o)
	defer client.Close() //nolint:errcheck // nothing to lose
	pipe := client.Pipeline()
	for i := range 5000 {
		pipe.Set(t.Context(), strconv.Itoa(i), strings.Repeat("x", 200), time.Minute)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Error(err)
	}
}

// A pool dials in the background, also while the server is closed and after that.
func TestDialBesideClose(t *testing.T) {
	for range 20 {
		r := must.Get(Start())(t)
		var dialling sync.WaitGroup
		dial := func() error {
			c, err := r.dial(t.Context(), "", "")
			if err == nil {
				_ = c.Close() // nothing to lose
			}
			return err
		}
		for range 4 {
			dialling.Go(func() {
				for {
					if dial() != nil {
						return
					}
				}
			})
		}
		r.Close()
		dialling.Wait()
		if err := dial(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	}
}
