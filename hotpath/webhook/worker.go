package webhook

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const (
	// leaseFor is how long the webhooks of a killed node are kept from other nodes.
	leaseFor = 45 * time.Second
	// holdEvery is how often a lease is renewed when there is no work.
	holdEvery = 10 * time.Second
	// lookEvery is how often a node looks for webhooks without a lease, and for replays.
	lookEvery = 2 * time.Second
	// pollEvery is how often a node with webhooks looks for new events.
	pollEvery = time.Second
	// storeTimeout bounds one question to the store.
	storeTimeout = 5 * time.Second
	// asksAtOnce is how many questions of the deliveries the store has at once, at
	// most: they share its connections with checks.
	asksAtOnce    = 2
	complainEvery = time.Minute
	// finishIn is how long an attempt may go on when the node stops.
	finishIn = 2 * time.Second
)

// Options configure a Worker. Store, Events and Encode are required.
type Options struct {
	Store Store
	// Events reads the feed, whole.
	Events func(ctx context.Context, q audit.EventQuery) (audit.EventPage, error)
	// Encode writes an event as the feed has it.
	Encode func(dst []byte, e *audit.Event) []byte
	// PrivateAddresses lets private and loopback addresses be dialled.
	PrivateAddresses bool
	InFlight         int // attempts at once for a webhook, at most; 1 to audit.MaxInFlight
	Logger           *slog.Logger
	Registerer       prometheus.Registerer // nil keeps the metrics to itself
}

// Store is the part of audit.Store that a Worker uses.
type Store interface {
	audit.Webhooks
	EventsHead(ctx context.Context) (int64, error)
}

// Worker delivers to the webhooks whose leases this node holds.
type Worker struct {
	Options
	holder  spend.ID // of this process
	client  *http.Client
	asks    chan struct{}
	metrics *metrics

	mu      sync.Mutex
	serving map[spend.ID]*endpoint
	running sync.WaitGroup
	head    atomic.Int64 // of the feed, when it was last asked for

	complained atomic.Int64 // when something was logged last, in Unix nanoseconds
}

// New makes a Worker; Run starts it.
func New(o Options) *Worker {
	w := &Worker{Options: o, holder: spend.NewID(time.Now()), asks: make(chan struct{}, asksAtOnce), serving: make(map[spend.ID]*endpoint)}
	w.client = &http.Client{
		Transport:     transport(newAddressFilter(o.PrivateAddresses), o.InFlight),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	w.metrics = newMetrics(o.Registerer, w.oldest, w.behind)
	return w
}

// transport dials only addresses that the filter allows, and uses no proxy, which would dial for it.
func transport(f *addressFilter, inFlight int) *http.Transport {
	dialer := &net.Dialer{ControlContext: f.control}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &askingConn{Conn: c, asked: make(chan struct{})}, nil
		},
		MaxIdleConns:           audit.MaxWebhooks * inFlight,
		MaxIdleConnsPerHost:    inFlight,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true,
	}
}

// Run delivers until the context ends, then finishes attempts in flight, for a while, and lets other
// nodes take over at once.
func (w *Worker) Run(ctx context.Context) {
	for {
		w.lease(ctx)
		for range lookEvery / pollEvery {
			select {
			case <-ctx.Done():
				w.stop()
				return
			case <-time.After(pollEvery):
				w.poll(ctx)
			}
		}
	}
}

// stop waits for attempts in flight and gives the leases back.
func (w *Worker) stop() {
	w.running.Wait()
	w.client.CloseIdleConnections()
	err := w.ask(context.Background(), func(ctx context.Context) error { return w.Store.ReleaseWebhooks(ctx, w.holder) })
	if err != nil {
		w.Logger.Warn("cannot release webhooks; other nodes wait for the leases", "error", err)
	}
}

// ask asks the store, in turn and for a bounded time.
func (w *Worker) ask(ctx context.Context, question func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	select {
	case w.asks <- struct{}{}:
		defer func() { <-w.asks }()
		return question(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lease takes the webhooks without a lease, and serves them.
func (w *Worker) lease(ctx context.Context) {
	var leases audit.WebhookLeases
	began := time.Now()
	err := w.ask(ctx, func(ctx context.Context) (err error) {
		leases, err = w.Store.LeaseWebhooks(ctx, w.holder, w.served(), leaseFor)
		return err
	})
	if err != nil {
		w.complain(ctx, "cannot take webhooks", err)
		return
	}
	w.metrics.count(leases)
	w.wake(func(id spend.ID) bool { return slices.Contains(leases.Due, id) })
	for _, id := range leases.Taken {
		e := &endpoint{Worker: w, id: id, wake: make(chan struct{}, 1), until: began.Add(leaseFor)}
		w.mu.Lock()
		w.serving[id] = e
		w.mu.Unlock()
		w.running.Go(func() {
			e.serve(ctx)
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.serving, id)
		})
	}
}

func (w *Worker) served() []spend.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.serving))
}

// poll wakes the endpoints when there are new events.
func (w *Worker) poll(ctx context.Context) {
	if len(w.served()) == 0 {
		return // nobody reads the feed
	}
	var head int64
	err := w.ask(ctx, func(ctx context.Context) (err error) {
		head, err = w.Store.EventsHead(ctx)
		return err
	})
	if err != nil {
		w.complain(ctx, "cannot look for new events", err)
		return
	}
	if w.head.Swap(head) == head {
		return
	}
	w.wake(func(spend.ID) bool { return true })
}

// wake makes waiting endpoints look for work.
func (w *Worker) wake(which func(spend.ID) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, e := range w.serving {
		if !which(id) {
			continue
		}
		select {
		case e.wake <- struct{}{}:
		default: // it is awake
		}
	}
}

// complain logs errors of work that will be tried again, at most now and then.
func (w *Worker) complain(ctx context.Context, doing string, err error) {
	now, last := time.Now().UnixNano(), w.complained.Load()
	if ctx.Err() == nil && now-last >= int64(complainEvery) && w.complained.CompareAndSwap(last, now) {
		w.Logger.Warn(doing, "error", err)
	}
}

// behind returns how many numbers of the feed come after the cursor of the webhook that is furthest
// behind, among those of this node.
func (w *Worker) behind() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	head, most := w.head.Load(), int64(0)
	for _, e := range w.serving {
		if at := e.cursor.Load(); at != 0 {
			most = max(most, head-at)
		}
	}
	return float64(most)
}

// oldest returns how long the event has waited that waits longest, for the webhooks of this node.
func (w *Worker) oldest() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var longest time.Duration
	for _, e := range w.serving {
		if at := e.oldest.Load(); at != 0 {
			longest = max(longest, time.Since(time.UnixMilli(at)))
		}
	}
	return longest.Seconds()
}
