package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/audit/spend"
	"spendgate/hotpath/pipeline"
)

// Errors for markers that this node must neither replace nor use. The windows are another
// deployment's: two deployments that both consider them lost would replace each other's marker for
// ever.
var (
	errOtherDeployment = errors.New("redis holds the windows of another deployment")
	errNewerFormat     = errors.New("redis holds windows of a newer format")
)

// windowsOf describes the windows of a server.
type windowsOf struct {
	server string // the server's name, as in markers
	marker marker // zero if there is none, or one that no node wrote
	text   string // the marker's text
}

// inspect reads a server's name and marker. It fails if the server is not fit for claims, or its
// windows are another deployment's.
func (g *Guard) inspect(ctx context.Context, server *redis.Client) (w windowsOf, err error) {
	if w, err = g.readMarker(ctx, server); err != nil || w.marker.epoch.IsZero() {
		return w, err
	}
	own, err := g.Deployment(ctx)
	if err == nil && w.marker.deployment != own {
		err = fmt.Errorf("%s: %w: %s, this is %s; give one of them SPENDGATE_REDIS_KEY_PREFIX, or delete the key if that one is gone",
			g.redis.Key(markerKey), errOtherDeployment, w.marker.deployment.Text(""), own.Text(""))
	}
	return w, err
}

// readMarker reads a server's name and marker, of any deployment.
func (g *Guard) readMarker(ctx context.Context, server *redis.Client) (w windowsOf, err error) {
	if w.server, err = g.redis.ServerName(ctx, server); err != nil {
		return w, err
	}
	key := g.redis.Key(markerKey)
	w.text, err = server.GetRange(ctx, key, 0, maxMarker-1).Result()
	if pipeline.WrongType(err) {
		w.text, err = pipeline.NotText, nil
	}
	if err != nil {
		return w, fmt.Errorf("cannot read the marker: %w", err)
	}
	if w.marker, err = parseMarker(w.text); err != nil {
		return w, fmt.Errorf("%s: %w", key, err)
	}
	return w, nil
}

// Deployment returns the ID of this deployment. It asks the store once: the ID never changes while nodes run.
func (g *Guard) Deployment(ctx context.Context) (spend.ID, error) {
	if id := g.deployment.Load(); id != nil {
		return *id, nil
	}
	id, err := g.store.Deployment(ctx)
	if err != nil {
		return id, err
	}
	g.deployment.Store(&id)
	return id, nil
}

// swapMarkerScript compares with "" for a marker that is not there, and with
// pipeline.NotText for one of another type. It compares as much as is read of a marker.
const swapMarkerScript = `local seen = redis.pcall('GETRANGE', KEYS[1], 0, 255)
if type(seen) == 'table' then seen = '?' end
if seen ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1`

func (g *Guard) swapMarker(ctx context.Context, server *redis.Client, seen, next string) (bool, error) {
	n, err := server.Eval(ctx, swapMarkerScript, []string{g.redis.Key(markerKey)}, seen, next).Int()
	return n == 1, err
}

// endEpochEvery bounds how often a node ends an epoch by itself.
const endEpochEvery = 5 * time.Second

// endEpoch ends the epoch of windows in which a name has a value that no node writes. A claim may have
// been there: its holder is no longer known, and could still be recorded. The next epoch refuses the
// holder, whichever it is, and has other names.
func (g *Guard) endEpoch(m marker) {
	g.mu.Lock()
	early := !g.endedEpoch.IsZero() && time.Since(g.endedEpoch) < endEpochEvery
	if !early {
		g.endedEpoch = time.Now()
	}
	g.mu.Unlock()
	now := *g.windows.Load() // it may be full meanwhile
	if early || !now.sameWindows(m) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
	defer cancel()
	err := g.redis.OnMaster(ctx, func(server *redis.Client) error {
		_, err := g.swapMarker(ctx, server, now.String(), "")
		return err
	})
	g.log.Error("a name in redis holds what no node writes; who can write there? A new epoch begins, "+
		"and duplicates are looked up in the store",
		"epoch", m.epoch.Text(""), "error", err)
}
