package guard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/hotpath/spend"
	"spendgate/ratelimit"
)

// ErrUnavailable means that Redis or the store could not be asked, so that
// nothing is known and nothing was decided (G7).
var ErrUnavailable = errors.New("a dependency cannot be reached")

var errEpochsChange = errors.New("epochs keep changing")

// Options are what a Guard is made of.
type Options struct {
	Redis      redis.UniversalOptions // addresses and credentials; timeouts and retries are the guard's
	KeyPrefix  string                 // of every name in Redis, without braces: they choose a cluster's slot
	Embedded   bool                   // an in-process Redis that dies with the process
	Store      audit.Store
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Guard claims idempotency keys and fingerprints. It is safe for concurrent
// use; close it after the last check is settled.
type Guard struct {
	conns   *connections
	store   audit.Store
	log     *slog.Logger
	metrics *metrics
	batch   *batcher
	records *records
	flights *flights

	windows atomic.Pointer[marker]   // of this node's next claims; zero before the first renewal
	entered atomic.Pointer[entry]    // the latest epoch that is known
	node    atomic.Pointer[spend.ID] // this incarnation
	fencing fencing

	deployment atomic.Pointer[spend.ID] // nil until the store told it

	mu         sync.Mutex // renewing, abandoned, and changes of node
	renewing   *renewal   // under way
	superseded superseded // belongs to the renewal under way
	refused    string     // likewise: the error last logged by notOurs
	abandoned  time.Time  // when this node last ended an epoch

	load chan struct{} // nudges the loader
	stop context.CancelFunc
	done sync.WaitGroup
}

// New connects to Redis and starts the guard. Redis need not be there yet.
func New(o Options) *Guard {
	ctx, stop := context.WithCancel(context.Background())
	g := &Guard{
		conns: connect(o.Redis, o.KeyPrefix, o.Embedded), store: o.Store, log: o.Logger,
		flights: newFlights(), load: make(chan struct{}, 1), stop: stop,
	}
	g.windows.Store(&marker{})
	g.metrics = newMetrics(o.Registerer, &g.windows)
	g.newIncarnation()
	g.batch = newBatcher(g.conns, &g.windows, g.metrics)
	g.records = newRecords(o.Store, g.batch.reached)
	g.done.Go(g.batch.run)
	g.done.Go(func() { g.runLoader(ctx) })
	return g
}

// Close sends the releases that wait and disconnects.
func (g *Guard) Close() error {
	g.stop()
	g.batch.close()
	g.done.Wait()
	return g.conns.close()
}

// Clock is Redis' time.
func (g *Guard) Clock(ctx context.Context) (now time.Time, err error) {
	err = g.conns.onMaster(ctx, func(server *redis.Client) error {
		now, err = server.Time(ctx).Result()
		return err
	})
	return now, err
}

// newIncarnation gives the node another name for new work; the old one may be
// fenced.
func (g *Guard) newIncarnation() {
	id := spend.NewID(time.Now())
	g.fencing.own(id)
	g.node.Store(&id)
}

// Node returns the identifier of this process among those that claim. It is
// another after the process was fenced.
func (g *Guard) Node() spend.ID { return *g.node.Load() }

// RaiseGeneration tells every node that the configuration changed. Checks that
// start after it returned see the change (G4, G5). The value is random and
// never used before, so that a lost Redis cannot bring an old one back (F12).
func (g *Guard) RaiseGeneration(ctx context.Context) error {
	for range renewAttempts {
		known := *g.windows.Load()
		epoch, inForce, err := g.raise(ctx)
		if err != nil {
			return fmt.Errorf("%w: cannot raise the generation: %w", ErrUnavailable, err)
		}
		if inForce {
			return g.settled(ctx, epoch)
		}
		if err := g.renew(ctx, known); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, errEpochsChange)
}

// settled waits until no node reads from the server of an older epoch, where
// the generation is as it was. It counts from when this node entered the epoch
// or first saw it: by the clock of the node that began it, it may seem older
// than it is.
func (g *Guard) settled(ctx context.Context, epoch spend.ID) error {
	seen := g.entered.Load()
	if seen == nil || seen.epoch != epoch {
		seen = &entry{epoch, time.Now()}
		g.entered.Store(seen)
	}
	left := g.conns.settleIn - time.Since(seen.at)
	if left <= 0 {
		return nil
	}
	select {
	case <-time.After(left):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: cannot raise the generation: %w", ErrUnavailable, ctx.Err())
	}
}

// raise changes the generation on the server that is taken for the master, and
// gives the epoch in force. Unless inForce, that server has another: then
// nobody who may commit reads it. Nor on a promoted replica, whose marker is
// still the old master's: until a claim meets it, others commit what they claim
// on the old master.
func (g *Guard) raise(ctx context.Context) (epoch spend.ID, inForce bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	var where windowsOf
	err = g.conns.onMaster(ctx, func(server *redis.Client) (err error) {
		if _, err := g.inspect(ctx, server); err != nil {
			return err // another's generation stays as it is
		}
		if err := server.Set(ctx, g.conns.key(generationKey), rand.Text(), 0).Err(); err != nil {
			return err
		}
		where, err = g.inspect(ctx, server)
		return err
	})
	if err != nil {
		return epoch, false, err
	}
	epoch, err = g.store.Epoch(ctx)
	return epoch, err == nil && where.marker.epoch == epoch && where.marker.server == where.server, err
}

// Reading is what one round trip told a request that claims nothing.
type Reading struct {
	Generation string // compare with the one that the configuration was loaded under
	Place      ratelimit.Place
	Counted    bool // the place was taken now, not remembered from a refusal
	Now        time.Time
}

// Ask counts a request and reads the generation.
func (g *Guard) Ask(ctx context.Context, charge ratelimit.Charge) (Reading, error) {
	var a ask
	if err := g.trip(ctx, &a, func(a *ask, _ marker) { a.charge = charge }); err != nil {
		return Reading{}, err
	}
	return Reading{a.reading.generation, a.place, a.counted, a.reading.now}, nil
}

// Refuse takes a refused request off its window again and remembers the
// refusal until the window ends.
func (g *Guard) Refuse(charge ratelimit.Charge, r Reading) {
	if r.Counted {
		g.batch.refuse(charge, r.Place)
	}
}

// mend ends the epoch if the error is of a name that holds what no node writes,
// so that the next request for it finds another name.
func (g *Guard) mend(err error, m marker) {
	if errors.Is(err, errForeignValue) {
		go g.abandon(m)
	}
}

// trip makes one round trip within the epoch in force, renewing it as often as
// it takes. build makes the ask for an epoch, anew before each try.
func (g *Guard) trip(ctx context.Context, a *ask, build func(*ask, marker)) error {
	counted, place := false, ratelimit.Place{} // a request is counted once, however often it is sent
	for range renewAttempts {
		known := *g.windows.Load()
		if known.epoch.IsZero() {
			if err := g.renew(ctx, known); err != nil {
				return err
			}
			continue
		}
		*a = ask{windows: known}
		build(a, known)
		if counted {
			a.charge = ratelimit.Charge{}
		}
		err := g.batch.do(a)
		if a.reading.lost {
			err = nil // what its commands were answered is void, refusals too
		}
		if err != nil && !errors.Is(err, errForeignServer) {
			g.mend(err, known)
			return err
		}
		if err == nil && !counted && a.counted {
			counted, place = true, a.place
		}
		if err == nil && !a.reading.lost {
			if counted {
				a.place, a.counted = place, true
			}
			return nil
		}
		if err == nil {
			g.batch.later(a.releases()...) // void, but perhaps under names that stay
		}
		if err := g.renew(ctx, known); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, errEpochsChange)
}
