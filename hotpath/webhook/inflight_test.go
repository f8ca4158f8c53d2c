package webhook

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// Several events are in flight at once to a receiver that takes them, and those that
// somebody waits for come before others; each is delivered once.
func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(*http.Request) (int, error) {
			time.Sleep(100 * time.Millisecond)
			return 200, nil
		})
		b.inFlight = 8
		b.webhook(one)
		for range 1000 {
			b.store.feed.add(audit.EventViolationRecorded)
		}
		b.store.feed.add(requested, changed, audit.EventApprovalDecided)
		_, stop := b.node() // one node sees all events at once
		defer stop()
		time.Sleep(25 * time.Second)
		got, want := b.ids(one), b.names()
		urgent := append(b.names(requested), b.names(audit.EventApprovalDecided)...)
		for _, id := range urgent {
			if i := slices.Index(got, id); i < 0 || i > 16 {
				t.Errorf("%s came as number %d", id, i)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || b.receiver.most != 8 {
			t.Errorf("received %d of %d events, %d at once", len(got), len(want), b.receiver.most)
		}
	})
}

// A receiver that fails is asked by one attempt at a time, and its first success has
// all that waits tried again.
func TestOutageIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		b := newBench(t, func(*http.Request) (int, error) {
			if well.Load() {
				return 200, nil
			}
			return 503, nil
		})
		b.inFlight = 8
		b.webhook(one)
		_, stop := b.node()
		defer stop()
		for range 20 {
			b.store.feed.add(changed)
		}
		time.Sleep(time.Hour)
		well.Store(true)
		b.store.feed.add(requested)
		before := len(b.ids(one))
		time.Sleep(70 * time.Second)
		got := b.ids(one)[before:]
		slices.Sort(got)
		want := b.names()
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%d events of %d were delivered within a minute", len(got), len(want))
		}
	})
}

// A node that is stopped during several attempts forgets none of them.
func TestStopInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		b := newBench(t, func(r *http.Request) (int, error) {
			if n.Add(1)%5 == 3 {
				<-r.Context().Done()
				return 0, r.Context().Err()
			}
			return 200, nil
		})
		b.inFlight = 8
		w := b.webhook(one)
		for range 40 {
			b.store.feed.add(changed)
		}
		for range 12 {
			_, stop := b.node()
			time.Sleep(3 * time.Second)
			stop()
		}
		b.receiver.answer = status(200)
		_, stop := b.node()
		defer stop()
		time.Sleep(time.Hour)
		var got []string
		for _, d := range b.log(w) {
			if d.Error == "" {
				got = append(got, d.EventID.Text("evt_"))
			}
		}
		slices.Sort(got)
		if n := len(slices.Compact(got)); n != 40 {
			t.Errorf("%d of 40 events were delivered", n)
		}
	})
}

// breaking is a link that is cut for most of a lease when the third attempt is to be recorded.
type breaking struct {
	*link
	attempts int
}

func (b *breaking) RecordDelivery(ctx context.Context, holder spend.ID, r audit.DeliveryResult) error {
	if b.attempts++; b.attempts == 3 {
		b.cut.Store(true)
		time.AfterFunc(leaseFor-attemptTimeout+1500*time.Millisecond, func() { b.cut.Store(false) })
	}
	return b.link.RecordDelivery(ctx, holder, r)
}

// A store that is away while events that were sent ahead are recorded keeps no later one of these from the receiver.
func TestLostWhileAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, status(200))
		b.inFlight, b.breaks = 8, func(l *link) Store { return &breaking{link: l} }
		b.webhook(one)
		for _, of := range []audit.EventType{audit.EventApprovalDecided, changed} {
			for range 12 {
				b.store.feed.add(of)
			}
		}
		_, stop := b.node()
		defer stop()
		time.Sleep(10 * time.Minute)
		got := b.ids(one)
		for i, id := range b.names() {
			if !slices.Contains(got, id) {
				t.Errorf("event %d was not delivered", i)
			}
		}
	})
}
