package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/sqlite"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// feed is one in memory.
type feed struct {
	mu     sync.Mutex
	events []audit.Event
	floor  int64 // events up to it were removed
}

// add adds an event of each type.
func (f *feed) add(types ...audit.EventType) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range types {
		n := int64(2*len(f.events) + 2) // numbers may be missing
		f.events = append(f.events, audit.Event{Sequence: n, Type: t, ID: audit.EventID(t, audit.ChangeSource(n)), At: time.Now()})
	}
}

func (f *feed) read(ctx context.Context, q audit.EventQuery) (page audit.EventPage, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.After > 0 && q.After < f.floor {
		return page, &audit.EventsRemovedError{UpTo: f.floor}
	}
	page.Next, page.Floor = q.After, f.floor
	for _, e := range f.events {
		switch {
		case e.Sequence <= q.After:
		case len(page.Events) == q.Limit:
			page.More = true
			return page, ctx.Err()
		default:
			if page.Next = e.Sequence; q.Types == nil || slices.Contains(q.Types, e.Type) {
				page.Events = append(page.Events, e)
			}
		}
	}
	return page, ctx.Err()
}

// storage is the store of a single node, in virtual time, whose feed the test writes.
type storage struct {
	*sqlite.Store
	feed *feed
}

func newStorage(t *testing.T) *storage {
	t.Helper()
	s := must.Get(sqlite.Open(t.Context(), filepath.Join(fleet.MemoryDir(t), "webhooks.db"), slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(s.Close)
	return &storage{s, new(feed)}
}

// HoldWebhook has nothing tried again that was removed.
func (s *storage) HoldWebhook(
	ctx context.Context, holder, id spend.ID, seen audit.WebhookSeen, lease time.Duration,
) (*audit.WebhookTask, error) {
	task, err := s.Store.HoldWebhook(ctx, holder, id, seen, lease)
	if err == nil {
		s.feed.mu.Lock()
		defer s.feed.mu.Unlock()
		task.Retries = slices.DeleteFunc(task.Retries, func(r audit.WebhookRetry) bool { return r.Sequence <= s.feed.floor })
	}
	return task, err
}

func (s *storage) EventsHead(ctx context.Context) (int64, error) {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	if n := len(s.feed.events); n > 0 {
		return s.feed.events[n-1].Sequence, ctx.Err()
	}
	return 0, ctx.Err()
}

// received is an attempt as a receiver sees it.
type received struct {
	at     time.Time
	url    string
	header http.Header
	body   string
}

func (r *received) id() string { return r.header.Get("webhook-id") }

// receiver stands for all receivers: answer returns a status, or an error for none.
type receiver struct {
	t      *testing.T
	answer func(r *http.Request) (int, error)

	mu     sync.Mutex
	all    []received
	active map[string]int // by URL
	twice  bool           // something was delivered to one URL twice at once
	most   int            // at once, to one URL
}

// RoundTrip implements http.RoundTripper.
func (r *receiver) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	url := request.URL.String()
	r.mu.Lock()
	r.all = append(r.all, received{time.Now(), url, request.Header, string(body)})
	r.active[url]++
	r.twice = r.twice || r.active[url] > 1
	r.most = max(r.most, r.active[url])
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.active[url]--
	}()
	status, err := r.answer(request)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("thanks")), Request: request}, nil
}

// to returns what a URL received.
func (r *receiver) to(url string) (all []received) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.all {
		if one.url == url {
			all = append(all, one)
		}
	}
	return all
}

// bench is some nodes' workers over one store, one feed and all receivers.
type bench struct {
	t        *testing.T
	store    *storage
	receiver *receiver
	inFlight int               // of workers
	breaks   func(*link) Store // what they have in place of a link; nil: the link
	logger   *slog.Logger
	logged   bytes.Buffer // by workers; to be read once they have stopped
	running  sync.WaitGroup
}

const one, other = "https://one.example/hook?token=7", "https://other.example/"

func newBench(t *testing.T, answer func(*http.Request) (int, error)) *bench {
	t.Helper()
	b := &bench{t: t, inFlight: 1, store: newStorage(t), receiver: &receiver{t: t, answer: answer, active: make(map[string]int)}}
	b.logger = slog.New(slog.NewTextHandler(&b.logged, nil))
	t.Cleanup(b.running.Wait)
	return b
}

func status(code int) func(*http.Request) (int, error) {
	return func(*http.Request) (int, error) { return code, nil }
}

// node runs a worker until the function is called, or the test ends.
func (b *bench) node() (w *Worker, stop func()) {
	var store Store = &link{Store: b.store}
	if b.breaks != nil {
		store = b.breaks(&link{Store: b.store})
	}
	w = New(Options{
		InFlight: b.inFlight, Store: store, Events: b.store.feed.read,
		Logger: b.logger,
		Encode: func(dst []byte, e *audit.Event) []byte {
			return fmt.Appendf(dst, `{"id":%q,"type":%q,"sequence":%d,"data":{}}`, e.ID.Text(spend.PrefixEvent), e.Type, e.Sequence)
		},
	})
	w.client.Transport = b.receiver
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	b.running.Go(func() {
		defer close(done)
		w.Run(ctx)
	})
	stop = func() {
		cancel()
		<-done
	}
	b.t.Cleanup(cancel)
	return w, stop
}

// webhook makes one that begins at the head of the feed.
func (b *bench) webhook(url string, types ...audit.EventType) *audit.Webhook {
	b.t.Helper()
	if types == nil {
		types = audit.EventTypes()
	}
	w := &audit.Webhook{ID: spend.NewID(time.Now()), URL: url, EventTypes: types, Active: true, CreatedAt: time.Now()}
	head, err := b.store.EventsHead(b.t.Context())
	if err == nil {
		err = b.store.CreateWebhook(b.t.Context(), audit.Actor{}, w, NewSecret(), head)
	}
	must.Do(b.t, err)
	return w
}

func (b *bench) change(w *audit.Webhook, c audit.WebhookChange) {
	b.t.Helper()
	must.Get(b.store.UpdateWebhook(b.t.Context(), audit.Actor{}, w.ID, c))(b.t)
}

// log returns the attempts, oldest first.
func (b *bench) log(w *audit.Webhook) []audit.Delivery {
	b.t.Helper()
	page, _, err := b.store.Deliveries(b.t.Context(), audit.DeliveryQuery{WebhookID: w.ID, Limit: 1000})
	must.Do(b.t, err)
	slices.Reverse(page)
	return page
}

// ids returns the events that a URL received, in order.
func (b *bench) ids(url string) (ids []string) {
	for _, r := range b.receiver.to(url) {
		ids = append(ids, r.id())
	}
	return ids
}

// names returns the IDs of the feed's events of these types, or of all events if there are no
// types.
func (b *bench) names(types ...audit.EventType) (ids []string) {
	b.store.feed.mu.Lock()
	defer b.store.feed.mu.Unlock()
	for _, e := range b.store.feed.events {
		if types == nil || slices.Contains(types, e.Type) {
			ids = append(ids, e.ID.Text(spend.PrefixEvent))
		}
	}
	return ids
}

var (
	errRefused = errors.New("connection refused")
	errDead    = errors.New("the node is cut off")
)

// link is a node's way to the store, which may be cut.
type link struct {
	Store
	cut atomic.Bool
}

func (l *link) EventsHead(ctx context.Context) (int64, error) {
	if l.cut.Load() {
		return 0, errDead
	}
	return l.Store.EventsHead(ctx)
}

func (l *link) LeaseWebhooks(ctx context.Context, holder spend.ID, serving []spend.ID, lease time.Duration) (audit.WebhookLeases, error) {
	if l.cut.Load() {
		return audit.WebhookLeases{}, errDead
	}
	return l.Store.LeaseWebhooks(ctx, holder, serving, lease)
}

func (l *link) HoldWebhook(
	ctx context.Context, holder, id spend.ID, seen audit.WebhookSeen, lease time.Duration,
) (*audit.WebhookTask, error) {
	if l.cut.Load() {
		return nil, errDead
	}
	return l.Store.HoldWebhook(ctx, holder, id, seen, lease)
}

func (l *link) RecordDelivery(ctx context.Context, holder spend.ID, r audit.DeliveryResult) error {
	if l.cut.Load() {
		return errDead
	}
	return l.Store.RecordDelivery(ctx, holder, r)
}

func (l *link) ReleaseWebhooks(ctx context.Context, holder spend.ID) error {
	if l.cut.Load() {
		return errDead
	}
	return l.Store.ReleaseWebhooks(ctx, holder)
}
