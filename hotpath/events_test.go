package hotpath

import (
	"context"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
)

// longFeed is a feed whose event i happened i tenths of a second after the Unix epoch,
// and has the number 3i+3. Every tenth is late by 3 s.
type longFeed struct {
	events []audit.Event
	asked  int
	floor  int64 // events up to it were removed
}

func newLongFeed(n int) *longFeed {
	f := new(longFeed)
	for i := range n {
		at := time.UnixMilli(int64(i) * 100)
		if i%10 == 0 {
			at = at.Add(-3 * time.Second)
		}
		f.events = append(f.events, audit.Event{Sequence: int64(3*i + 3), At: at})
	}
	return f
}

func (f *longFeed) Events(_ context.Context, q audit.EventQuery) (audit.EventPage, error) {
	f.asked++
	if q.After > 0 && q.After < f.floor {
		return audit.EventPage{}, &audit.EventsRemovedError{UpTo: f.floor}
	}
	q.After = max(q.After, f.floor)
	i, _ := slices.BinarySearchFunc(f.events, q.After+1, func(e audit.Event, n int64) int { return int(e.Sequence - n) })
	page := f.events[i:min(i+q.Limit, len(f.events))]
	return audit.EventPage{Events: page, More: i+q.Limit < len(f.events)}, nil
}

func (f *longFeed) EventsHead(context.Context) (int64, error) { return 3 * int64(len(f.events)), nil }

func (f *longFeed) KeepEvents(context.Context, time.Duration, time.Time) (time.Time, error) {
	return time.Time{}, nil
}

// The feed begins with the first event from a time on, found by few looks.
func TestEventsFrom(t *testing.T) {
	const n = 200_000
	f := newLongFeed(n)
	for _, from := range []time.Duration{
		-time.Hour, 0, 100 * time.Millisecond, time.Second, 1234567 * time.Millisecond, n * 100 * time.Millisecond / 3,
		(n - 1) * 100 * time.Millisecond, time.Duration(n) * time.Second,
	} {
		at := time.UnixMilli(0).Add(from)
		want := slices.IndexFunc(f.events, func(e audit.Event) bool { return !e.At.Before(at) })
		if want < 0 {
			want = n
		}
		f.asked = 0
		got, err := eventsFrom(t.Context(), f, at)
		if err != nil || want < n && (got >= f.events[want].Sequence || want > 0 && got < f.events[want-1].Sequence) || want == n && got != 3*n ||
			f.asked > 30 {
			t.Errorf("from %v: %d, %v, after %d looks; event %d is the first", from, got, err, f.asked, want)
		}
	}
	f.floor = f.events[n/2].Sequence
	for from, want := range map[time.Duration]int{time.Second: n / 2, n * 90 * time.Millisecond: n * 9 / 10} {
		got, err := eventsFrom(t.Context(), f, time.UnixMilli(0).Add(from))
		if err != nil || got < f.events[want-1].Sequence || got >= f.events[want+1].Sequence {
			t.Errorf("from %v, of which some is removed: %d, %v; event %d is the first", from, got, err, want)
		}
	}
	// With a cursor both hold, and a reader from whom events were taken that it asked for is told.
	late := time.UnixMilli(0).Add(n * 90 * time.Millisecond)
	early := time.UnixMilli(0).Add(time.Second)
	behind, _ := eventsFrom(t.Context(), f, late)
	for _, c := range []struct {
		from         time.Time
		cursor, want int64
	}{
		{late, 0, behind},
		{late, 1, behind},
		{late, behind + 30, behind + 30},
		{early, 0, f.floor},
		{early, 1, 1},
		{early, f.floor + 3, f.floor + 3},
	} {
		if got, err := eventsAfter(t.Context(), f, c.from, c.cursor); err != nil || got != c.want {
			t.Errorf("from %v after %d: %d, %v, want %d", c.from, c.cursor, got, err, c.want)
		}
	}
	if got, err := eventsFrom(t.Context(), new(longFeed), time.Now()); got != 0 || err != nil {
		t.Errorf("an empty feed: %d, %v", got, err)
	}
}
