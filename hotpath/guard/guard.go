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
	"spendgate/audit/pause"
	"spendgate/audit/spend"
	"spendgate/hotpath/pipeline"
	"spendgate/ratelimit"
)

// ErrUnavailable means that Redis or the store could not be asked, so that
// nothing is known and nothing was decided (G7).
var ErrUnavailable = errors.New("a dependency cannot be reached")

var errEpochsChange = errors.New("epochs keep changing")

// Store is the part of audit.Store that a Guard uses: recorded passes and keys, and the fences. It
// commits no checks.
type Store interface {
	audit.Fences
	PassStates(ctx context.Context, ids []spend.ID) (map[spend.ID]audit.PassState, error)
	LivePasses(
		ctx context.Context, fingerprints []spend.Hash, before spend.ID, nowMS int64, upTo spend.Effect,
	) (map[spend.Hash]audit.LivePass, error)
	PagePasses(ctx context.Context, before spend.ID, nowMS int64, limit int) ([]audit.LivePass, error)
	ExpireApprovals(ctx context.Context) (oldest time.Time, err error)
	Checks(ctx context.Context, ids []spend.ID) ([]*spend.Check, error)
	CheckIDsByKey(ctx context.Context, keyHashes []spend.Hash) (map[spend.Hash]spend.ID, error)
	ListChecks(ctx context.Context, q audit.CheckQuery) (audit.CheckPage, error)
}

// Options configure a Guard.
type Options struct {
	Redis      redis.UniversalOptions // addresses and credentials; timeouts and retries are the pipeline's
	KeyPrefix  string                 // of every name in Redis, without braces: they choose a cluster's slot
	Embedded   bool                   // an in-process Redis that dies with the process
	Store      Store
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Guard claims idempotency keys and fingerprints. It is safe for concurrent
// use; close it after the last check has ended.
type Guard struct {
	redis    *pipeline.Client
	embedded bool // as in Options
	store    Store
	log      *slog.Logger
	metrics  *metrics
	records  *records
	inFlight *inFlight

	snapshots   snapshots
	failoverLag time.Duration // how long another node may read from the server of an older epoch
	foreign     atomic.Bool   // a batch met a foreign server since the last renewal

	windows atomic.Pointer[marker]   // of this node's next claims; zero before the first renewal
	entered atomic.Pointer[entry]    // the latest epoch that is known
	node    atomic.Pointer[spend.ID] // this incarnation
	fencing fencing

	deployment atomic.Pointer[spend.ID] // nil until the store returned it

	mu         sync.Mutex // renewing, endedEpoch, and changes of node
	renewing   *renewal   // in progress
	superseded superseded // belongs to the renewal in progress
	refused    string     // belongs to it, too: the error last logged by notOurs
	endedEpoch time.Time  // when this node last ended an epoch

	load chan struct{} // nudges the loader
	stop context.CancelFunc
	done sync.WaitGroup
}

// New connects to Redis and starts the guard. Redis need not be there yet.
func New(o Options) *Guard {
	ctx, stop := context.WithCancel(context.Background())
	g := &Guard{
		embedded: o.Embedded, store: o.Store, log: o.Logger,
		inFlight: newInFlight(), load: make(chan struct{}, 1), stop: stop,
	}
	g.windows.Store(&marker{})
	g.metrics = newMetrics(o.Registerer, &g.windows)
	g.newIncarnation()
	options := redisOptions(o)
	options.Verify, options.Vet = g.verify, g.vet
	g.redis = pipeline.New(options)
	g.failoverLag = g.redis.FailoverLag()
	g.records = newRecords(o.Store, g.redis.Earliest)
	g.done.Go(func() { g.runLoader(ctx) })
	return g
}

// Close sends the releases that wait and disconnects.
func (g *Guard) Close() error {
	g.stop()
	g.done.Wait()
	return g.redis.Close()
}

// Clock returns Redis' time.
func (g *Guard) Clock(ctx context.Context) (now time.Time, err error) {
	err = g.redis.OnMaster(ctx, func(server *redis.Client) error {
		now, err = server.Time(ctx).Result()
		return err
	})
	return now, err
}

// newIncarnation gives the node a new identifier for new work; the old one may be fenced.
func (g *Guard) newIncarnation() {
	id := spend.NewID(time.Now())
	g.fencing.own(id)
	g.node.Store(&id)
}

// Node returns the identifier of this process's incarnation. It changes after the incarnation was
// fenced.
func (g *Guard) Node() spend.ID { return *g.node.Load() }

// raisePause is how long a change waits before it asks for the master again: after a failover, a server of
// the cluster may still name the old one for a moment, when checks are answered again.
const raisePause = 50 * time.Millisecond

// RaiseGeneration makes every node notice that the configuration changed. Checks that start after it
// returned see the change (G4, G5). The value is random and never reused, so that the loss of Redis
// cannot bring an old one back (F12).
func (g *Guard) RaiseGeneration(ctx context.Context) error {
	began, failed := time.Now(), errEpochsChange
	for range renewAttempts {
		known := *g.windows.Load()
		epoch, inForce, err := g.raise(ctx)
		switch {
		case err == nil && inForce:
			return g.awaitEpoch(ctx, epoch)
		case err == nil:
			if err := g.renew(ctx, known); err != nil {
				return err
			}
			continue
		}
		if failed = err; ctx.Err() != nil || time.Since(began) > renewTimeout/2 {
			break
		}
		time.Sleep(raisePause)
	}
	return fmt.Errorf("%w: cannot raise the generation: %w", ErrUnavailable, failed)
}

// awaitEpoch waits until no node reads the generation from the server of an older epoch, where it is
// unchanged. The wait counts from when this node entered the epoch or first saw it: by the clock of
// the node that began it, the epoch may seem older than it is.
func (g *Guard) awaitEpoch(ctx context.Context, epoch spend.ID) error {
	seen := g.entered.Load()
	if seen == nil || seen.epoch != epoch {
		seen = &entry{epoch, time.Now()}
		g.entered.Store(seen)
	}
	left := g.failoverLag - time.Since(seen.at)
	if left <= 0 {
		return nil
	}
	if err := pause.For(ctx, left); err != nil {
		return fmt.Errorf("%w: cannot raise the generation: %w", ErrUnavailable, err)
	}
	return nil
}

// raise changes the generation on the server that is believed to be the master, and returns the epoch
// in force. inForce is false if that server has another epoch: then no node that may commit reads it.
// It is also false on a promoted replica, which still has the old master's marker: until a claim
// notices, other nodes commit what they claim on the old master.
func (g *Guard) raise(ctx context.Context) (epoch spend.ID, inForce bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	var where windowsOf
	err = g.redis.OnMaster(ctx, func(server *redis.Client) (err error) {
		if _, err := g.inspect(ctx, server); err != nil {
			return err // the generation of another deployment stays as it is
		}
		if err := server.Set(ctx, g.redis.Key(generationKey), rand.Text(), 0).Err(); err != nil {
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

// Reading is the result of one round trip for a request that claims nothing.
type Reading struct {
	Generation string // compare with the one that the configuration was loaded under
	Place      ratelimit.Place
	Counted    bool // the place was taken now, not remembered from a refusal
	Now        time.Time
}

// Ask counts a request and reads the generation.
func (g *Guard) Ask(ctx context.Context, hit ratelimit.Hit) (Reading, error) {
	var r request
	if err := g.roundTrip(ctx, &r, func(r *request, _ marker) { r.Hit = hit }); err != nil {
		return Reading{}, err
	}
	return Reading{r.reading.generation, r.Place, r.Counted, r.reading.now}, nil
}

// Refuse takes a refused request off its window again and remembers the
// refusal until the window ends.
func (g *Guard) Refuse(hit ratelimit.Hit, r Reading) {
	if r.Counted {
		g.redis.Refuse(hit, r.Place)
	}
}

// Ping fails if a check would fail because of Redis: it cannot be reached, is not fit for claims,
// holds another deployment's windows, refuses a command that claims need, or its windows are lost and
// no epoch can be begun.
func (g *Guard) Ping(ctx context.Context) error {
	err := g.redis.OnMaster(ctx, func(server *redis.Client) error {
		if _, err := g.inspect(ctx, server); err != nil {
			return err // before anything is written
		}
		return probe(ctx, &g.redis.Servers, server)
	})
	if err != nil {
		return err
	}
	_, err = g.Ask(ctx, ratelimit.Hit{})
	return err
}

// Probe fails when Redis cannot be reached, is not fit for claims or refuses a
// command that they need, and returns its time. It needs no Guard, and no store.
func Probe(ctx context.Context, o Options) (now time.Time, err error) {
	s := pipeline.NewServers(redisOptions(o))
	defer func() { err = errors.Join(err, s.Disconnect()) }()
	err = s.OnMaster(ctx, func(server *redis.Client) error {
		if _, err := s.ServerName(ctx, server); err != nil {
			return err
		}
		if err := probe(ctx, s, server); err != nil {
			return err
		}
		now, err = server.Time(ctx).Result()
		return err
	})
	return now, err
}

// probe sends each command that the guard sends: on names of its own, which expire, and on other names
// only commands that change nothing.
func probe(ctx context.Context, s *pipeline.Servers, server *redis.Client) error {
	lease := s.Key("l:{0}:probe:" + rand.Text())
	swap := func(name string) []any { // another value than any that is there
		return []any{"eval", swapMarkerScript, 1, s.Key(name), rand.Text(), ""}
	}
	return s.Probe(ctx, server, []string{keyPrefix + "probe:", fingerprintPrefix + "probe:"}, [][]any{
		{"set", lease, 1, "nx", "px", 1000}, {"del", lease}, swap(markerKey), swap(generationKey), {"scan", 0, "count", 1},
	})
}

// redisOptions returns the options without hooks.
func redisOptions(o Options) pipeline.Options {
	return pipeline.Options{
		Redis: o.Redis, KeyPrefix: o.KeyPrefix, Embedded: o.Embedded, Registerer: o.Registerer,
		First: pipeline.Value{Name: generationKey, Length: maxGeneration}, Last: pipeline.Value{Name: markerKey, Length: maxMarker},
	}
}
