package webhook

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spendgate/audit"
	"spendgate/bench/must"
)

// New events are sent to a dead receiver less and less often. Once it is back it gets all of them,
// and other receivers do not notice.
func TestDeadReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var alive atomic.Bool
		b := newBench(t, func(r *http.Request) (int, error) {
			if r.URL.Host == "one.example" && !alive.Load() {
				return 0, errRefused
			}
			return 200, nil
		})
		w := b.webhook(one)
		b.webhook(other)
		_, stop := b.node()
		for range 100 {
			b.store.feed.add(changed)
		}
		time.Sleep(30 * time.Second)
		if got := b.ids(other); !slices.Equal(got, b.names()) {
			t.Errorf("the other received %d events", len(got))
		}
		tried := make(map[string]bool)
		for _, id := range b.ids(one) {
			tried[id] = true
		}
		if len(tried) > 10 || len(tried) < 3 {
			t.Errorf("%d events were tried at a dead receiver in half a minute", len(tried))
		}
		if log := b.log(w); log[0].StatusCode != 0 || log[0].Error != errRefused.Error() || log[0].NextAt.IsZero() {
			t.Errorf("logged %+v", log[0])
		}
		time.Sleep(time.Hour)
		alive.Store(true)
		before := len(b.ids(one))
		time.Sleep(time.Hour)
		stop()
		time.Sleep(23 * time.Hour)
		_, stop = b.node()
		defer stop()
		time.Sleep(time.Minute)
		delivered := make(map[string]int)
		for _, id := range b.ids(one)[before:] {
			delivered[id]++
		}
		for _, id := range b.names() {
			if delivered[id] != 1 {
				t.Errorf("%s was delivered %d times", id, delivered[id])
			}
		}
	})
}

// A receiver that takes its time holds nobody else up, and is tried for 15 s.
func TestSlowReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(r *http.Request) (int, error) {
			if r.URL.Host == "one.example" {
				<-r.Context().Done()
				return 0, r.Context().Err()
			}
			return 200, nil
		})
		w := b.webhook(one)
		b.webhook(other)
		_, stop := b.node()
		defer stop()
		time.Sleep(5 * time.Second)
		for range 50 {
			b.store.feed.add(changed)
		}
		time.Sleep(5 * time.Second)
		if got := b.ids(other); !slices.Equal(got, b.names()) {
			t.Errorf("the other received %d events of 50", len(got))
		}
		time.Sleep(15 * time.Second)
		if log := b.log(w); log[0].Error != "no complete response within 15s" || log[0].Duration != attemptTimeout {
			t.Errorf("logged %+v", log[0])
		}
	})
}

// 410 disables a webhook, which is recorded as a change; its event is not lost.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var code atomic.Int64
		code.Store(410)
		b := newBench(t, func(*http.Request) (int, error) { return int(code.Load()), nil })
		w := b.webhook(one)
		_, stop := b.node()
		defer stop()
		b.store.feed.add(changed, changed)
		time.Sleep(time.Hour)
		if got := b.ids(one); len(got) != 1 {
			t.Errorf("%d attempts at what is gone", len(got))
		}
		now, err := b.store.Webhook(t.Context(), w.ID)
		if err != nil || now.Active {
			t.Errorf("the webhook is %+v, %v", now, err)
		}
		changes := must.Get(b.store.Changes(t.Context(), audit.ChangeQuery{Limit: 100}))(t)
		if last := changes[len(changes)-1]; last.Kind != audit.WebhookChanged || last.By.Kind() != "system" ||
			last.By.Principal != "webhook delivery" {
			t.Errorf("recorded %+v", last)
		}
		code.Store(200)
		b.change(w, audit.WebhookChange{Active: new(true)})
		time.Sleep(time.Minute)
		if got, want := b.ids(one)[1:], b.names(); !slices.Equal(got, want) {
			t.Errorf("received %v, want %v", got, want)
		}
	})
}
