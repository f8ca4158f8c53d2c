package webhook

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"spendgate/audit"
	"spendgate/bench/must"
)

const (
	requested = audit.EventApprovalRequested
	changed   = audit.EventKeyChanged
)

// A webhook gets each event of its types after it was made, once, signed so that
// the reference library accepts it and nothing that was changed.
func TestDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, status(204))
		b.store.feed.add(requested, requested) // before it is made
		before := len(b.names(requested))
		w := &audit.Webhook{}
		secret := NewSecret()
		*w = *b.webhook(one, requested)
		b.change(w, audit.WebhookChange{Secret: secret})
		_, stop := b.node()
		defer stop()
		for range 30 { // more than a page
			b.store.feed.add(changed, requested)
		}
		time.Sleep(10 * time.Second)
		b.store.feed.add(requested)
		time.Sleep(10 * time.Second)
		if got, want := b.ids(one), b.names(requested)[before:]; !slices.Equal(got, want) {
			t.Fatalf("received %v, want %v", got, want)
		}
		verifier := must.Get(standard.NewWebhook(string(secret)))(t)
		for _, r := range b.receiver.to(one) {
			must.Check(t, verifier.Verify([]byte(r.body), r.header))
			if !strings.Contains(r.body, r.id()) || r.header.Get("Content-Type") != "application/json" {
				t.Errorf("received %+v", r)
			}
			if verifier.Verify([]byte(strings.Replace(r.body, "{}", "{} ", 1)), r.header) == nil {
				t.Error("another body has the same signature")
			}
		}
		for _, d := range b.log(w) {
			if d.Error != "" || d.StatusCode != http.StatusNoContent || d.Attempt != 1 || !d.NextAt.IsZero() || d.EventType != requested {
				t.Errorf("logged %+v", d)
			}
		}
	})
}

// For a day after a rotation both secrets verify, then the new one.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, status(200))
		w := b.webhook(one)
		secrets := []audit.Secret{NewSecret(), NewSecret()}
		_, stop := b.node()
		verifies := func(want ...bool) {
			t.Helper()
			b.store.feed.add(changed)
			time.Sleep(5 * time.Second)
			all := b.receiver.to(one)
			last := all[len(all)-1]
			for i, secret := range secrets {
				verifier := must.Get(standard.NewWebhook(string(secret)))(t)
				if err := verifier.Verify([]byte(last.body), last.header); (err == nil) != want[i] {
					t.Errorf("secret %d: %v", i, err)
				}
			}
		}
		verifies(false, false)
		b.change(w, audit.WebhookChange{Secret: secrets[0]})
		verifies(true, false)
		b.change(w, audit.WebhookChange{Secret: secrets[1]})
		verifies(true, true)
		stop()
		time.Sleep(audit.KeepPreviousSecret)
		_, stop = b.node()
		defer stop()
		verifies(false, true)
	})
}

// An event that is never taken is tried on the schedule of Standard Webhooks, up
// to a tenth late, then given up; others are delivered meanwhile.
// Nodes come and go meanwhile: there is one at each attempt, and in the waits below an hour.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var poison atomic.Value
		b := newBench(t, func(r *http.Request) (int, error) {
			if poison.CompareAndSwap(nil, r.Header.Get("webhook-id")) || poison.Load() == r.Header.Get("webhook-id") {
				return 500, nil
			}
			return 200, nil
		})
		w := b.webhook(one)
		worker, stop := b.node()
		b.store.feed.add(changed, requested)
		time.Sleep(time.Minute)
		if got := b.ids(one); !slices.Contains(got, b.names(requested)[0]) || worker.oldest() < 60 {
			t.Errorf("received %v, the oldest is %v s old", got, worker.oldest())
		}
		worker = b.attemptAll(w, &stop)
		var attempts []received
		for _, r := range b.receiver.to(one) {
			if r.id() == poison.Load() {
				attempts = append(attempts, r)
			}
		}
		if len(attempts) != 10 {
			t.Fatalf("%d attempts, want 10", len(attempts))
		}
		for i, wait := range schedule() {
			if d := attempts[i+1].at.Sub(attempts[i].at); d < wait || d > wait+wait/10+2*time.Second {
				t.Errorf("attempt %d came after %v, want %v", i+2, d, wait)
			}
		}
		log := b.log(w)
		if last := log[len(log)-1]; last.Attempt != 10 || last.Error != "status 500" || !last.NextAt.IsZero() || worker.oldest() != 0 {
			t.Errorf("logged %+v, the oldest is %v s old", last, worker.oldest())
		}
		// A replay is tried as often as a new event.
		must.Get(b.store.ReplayDelivery(t.Context(), w.ID, log[0].ID))(t)
		time.Sleep(lookEvery + time.Second)
		b.attemptAll(w, &stop)
		stop()
		if n := len(b.log(w)); n != len(log)+10 {
			t.Errorf("%d attempts after a replay, want 10", n-len(log))
		}
	})
}

// attemptAll waits until the webhook's last attempt is over. The node is stopped for the long waits, and
// another one goes on; the last one is returned.
func (b *bench) attemptAll(w *audit.Webhook, stop *func()) (last *Worker) {
	b.t.Helper()
	for {
		log := b.log(w)
		next := log[len(log)-1].NextAt
		if next.IsZero() {
			return last
		}
		if wait := time.Until(next) - time.Minute; wait > time.Hour {
			(*stop)()
			time.Sleep(wait)
			last, *stop = b.node()
		}
		time.Sleep(time.Until(next) + lookEvery + time.Second)
	}
}

// A replay is delivered soon, also when nothing else happens.
func TestReplaySoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, status(200))
		w := b.webhook(one)
		b.store.feed.add(audit.EventPolicyCreated)
		_, stop := b.node()
		time.Sleep(time.Minute)
		for range 3 {
			log := b.log(w)
			must.Get(b.store.ReplayDelivery(t.Context(), w.ID, log[0].ID))(t)
			time.Sleep(lookEvery + time.Second)
			if n := len(b.log(w)); n != len(log)+1 {
				t.Errorf("%d attempts after %d and a replay", n, len(log))
			}
		}
		stop()
	})
}

// A webhook that was disabled for longer than events are kept goes on with the oldest that
// there is, and tries nothing again that is no more.
func TestRemovedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var code atomic.Int64
		code.Store(500)
		b := newBench(t, func(*http.Request) (int, error) { return int(code.Load()), nil })
		w := b.webhook(one)
		b.store.feed.add(audit.EventPolicyCreated)
		_, stop := b.node()
		time.Sleep(2 * time.Second)
		for _, active := range []bool{false, true} {
			must.Get(b.store.UpdateWebhook(t.Context(), audit.Actor{}, w.ID, audit.WebhookChange{Active: &active}))(t)
			time.Sleep(time.Minute)
			b.store.feed.add(audit.EventPolicyCreated, audit.EventPolicyCreated)
			b.store.feed.mu.Lock()
			b.store.feed.floor = 6
			b.store.feed.mu.Unlock()
			code.Store(200)
		}
		time.Sleep(time.Hour)
		stop()
		var sent []int64
		for _, d := range b.log(w) {
			if d.Error == "" {
				sent = append(sent, d.Sequence)
			}
		}
		if slices.Sort(sent); !slices.Equal(sent, []int64{8, 10}) {
			t.Errorf("delivered %d", sent)
		}
	})
}

// The same of one that was made before the first event: reading from the beginning is not refused.
func TestRemovedFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for floor, warnings := range map[int64]int{0: 0, 2: 1} {
			b := newBench(t, status(200))
			w := b.webhook(one)
			b.store.feed.add(audit.EventPolicyCreated, audit.EventPolicyCreated)
			b.store.feed.events, b.store.feed.floor = b.store.feed.events[floor/2:], floor
			_, stop := b.node()
			time.Sleep(time.Minute)
			stop()
			if n := strings.Count(b.logged.String(), "events were removed that a webhook has not had"); n != warnings {
				t.Errorf("up to %d: %d warnings, want %d", floor, n, warnings)
			}
			first := int64(math.MaxInt64) // both may be in flight at once
			for _, d := range b.log(w) {
				first = min(first, d.Sequence)
			}
			if first != floor+2 {
				t.Errorf("up to %d: delivered %+v", floor, b.log(w))
			}
		}
	})
}

// An administrator's change counts from the next attempt on.
func TestChangesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, status(200))
		w := b.webhook(one, requested)
		_, stop := b.node()
		defer stop()
		b.store.feed.add(requested, changed)
		time.Sleep(5 * time.Second)
		b.change(w, audit.WebhookChange{EventTypes: []audit.EventType{changed}})
		b.store.feed.add(requested, changed)
		time.Sleep(5 * time.Second)
		b.change(w, audit.WebhookChange{URL: new(other)})
		b.store.feed.add(changed)
		time.Sleep(5 * time.Second)
		b.change(w, audit.WebhookChange{Active: new(false)})
		b.store.feed.add(changed)
		time.Sleep(time.Minute)
		all := b.names()
		if got, want := b.ids(one), []string{all[0], all[3]}; !slices.Equal(got, want) {
			t.Errorf("received %v, want %v", got, want)
		}
		if got, want := b.ids(other), all[4:5]; !slices.Equal(got, want) {
			t.Errorf("the new URL received %v, want %v", got, want)
		}
		b.change(w, audit.WebhookChange{Active: new(true)})
		time.Sleep(time.Minute)
		if got, want := b.ids(other), all[4:]; !slices.Equal(got, want) {
			t.Errorf("active again it received %v, want %v", got, want)
		}
		must.Do(t, b.store.DeleteWebhook(t.Context(), audit.Actor{}, w.ID))
		b.store.feed.add(changed)
		time.Sleep(time.Minute)
		if got := b.ids(other); len(got) != 2 {
			t.Errorf("deleted it received %v", got)
		}
	})
}

// Nodes that come and go, cleanly or not, deliver every event, and two nodes never deliver to one
// receiver at once.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Int64
		b := newBench(t, func(r *http.Request) (int, error) {
			select {
			case <-time.After(700 * time.Millisecond):
			case <-r.Context().Done():
				return 0, r.Context().Err()
			}
			if fails.Add(1)%5 == 0 {
				return 503, nil
			}
			return 200, nil
		})
		b.webhook(one)
		b.webhook(other)
		for range 40 {
			b.store.feed.add(changed)
		}
		for range 6 {
			_, first := b.node()
			killed, _ := b.node()
			time.Sleep(3 * time.Second)
			killed.Store.(*link).cut.Store(true) // it continues with the state in its memory
			first()
			time.Sleep(5 * time.Second)
		}
		_, stop := b.node()
		defer stop()
		time.Sleep(time.Hour)
		for _, url := range []string{one, other} {
			got := b.ids(url)
			for _, id := range b.names() {
				if !slices.Contains(got, id) {
					t.Errorf("%s did not receive %s", url, id)
				}
			}
		}
		if b.receiver.twice {
			t.Error("two nodes delivered to one receiver at once")
		}
	})
}

// A stop finishes the attempts in flight, and the next node continues at once.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(r *http.Request) (int, error) {
			wait := time.Second
			if r.URL.Host == "other.example" {
				wait = time.Hour
			}
			select {
			case <-time.After(wait):
				return 200, nil
			case <-r.Context().Done():
				return 0, r.Context().Err()
			}
		})
		quick, slow := b.webhook(one), b.webhook(other)
		_, stop := b.node()
		time.Sleep(5500 * time.Millisecond)
		b.store.feed.add(changed, changed)
		time.Sleep(1500 * time.Millisecond)
		began := time.Now()
		stop()
		if d := time.Since(began); d > finishIn {
			t.Errorf("the stop took %v", d)
		}
		if log := b.log(quick); len(log) == 0 || log[len(log)-1].Error != "" {
			t.Errorf("logged %+v, what was in flight is not delivered", log)
		}
		if log := b.log(slow); len(log) != 0 {
			t.Errorf("logged %+v of what the stop broke off", log)
		}
		b.store.feed.add(changed)
		_, stop = b.node()
		defer stop()
		time.Sleep(4 * time.Second)
		if got := b.ids(one); !slices.Equal(got, b.names()) {
			t.Errorf("received %v, want %v, each once", got, b.names())
		}
	})
}
