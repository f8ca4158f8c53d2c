package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/pause"
	"spendgate/audit/spend"
	"spendgate/hotpath/pipeline"
)

const (
	loaderPage  = 2000
	loaderLease = 15 * time.Second
	loaderRetry = 3 * time.Second
)

// runLoader loads lazy windows, one node at a time, until the guard closes.
func (g *Guard) runLoader(ctx context.Context) {
	ticker := time.NewTicker(loaderRetry)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.load:
		case <-ticker.C:
		}
		m := *g.windows.Load()
		if m.full || m.epoch.IsZero() {
			continue
		}
		if err := g.loadWindows(ctx, m); err != nil && ctx.Err() == nil {
			g.mend(err, m)
			g.log.Warn("cannot load duplicate windows; they stay with the store for now", "error", err)
		}
	}
}

// loadWindows copies every live fingerprint into the epoch's names, newest
// first, and certifies the epoch as full: from then on a name that is free in
// Redis has no live window in the store.
func (g *Guard) loadWindows(ctx context.Context, m marker) error {
	server, err := g.redis.Master(ctx)
	if err != nil {
		return err
	}
	name := g.redis.Key(loaderName(m.epoch))
	lease, err := server.SetNX(ctx, name, g.node.Load().Text(""), loaderLease).Result()
	if err == nil && !lease {
		// One without an end is no node's: it would keep the windows lazy for ever.
		var left time.Duration
		if left, err = server.PTTL(ctx, name).Result(); err == nil && left == -1 {
			err = server.PExpire(ctx, name, loaderLease).Err()
		}
	}
	if redis.IsOOMError(err) { // the names of ended epochs may be what fills it
		_, ended := g.removeEnded(ctx, server, m)
		return errors.Join(err, ended)
	}
	if err != nil || !lease {
		return err
	}
	defer server.Del(context.WithoutCancel(ctx), name) // another node goes on
	l := loading{g: g, server: server, windows: m}
	started, loaded := time.Now(), 0
	removed, err := g.removeEnded(ctx, server, m)
	if err != nil {
		return err
	}
	var before spend.ID
	var contested []audit.LivePass
	for {
		passes, err := g.store.PagePasses(ctx, before, g.redis.Earliest().UnixMilli(), loaderPage)
		if err != nil {
			return fmt.Errorf("cannot read live windows: %w", err)
		}
		if len(passes) == 0 {
			break
		}
		left, err := l.loadPasses(ctx, passes)
		if err != nil {
			return err
		}
		contested = append(contested, left...)
		before = passes[len(passes)-1].CheckID
		loaded += len(passes)
		g.metrics.fingerprintsLoaded.Add(float64(len(passes)))
	}
	for len(contested) > 0 {
		if err := pause.For(ctx, pollMost); err != nil {
			return err
		}
		if contested, err = l.loadPasses(ctx, contested); err != nil {
			return err
		}
	}
	full := m
	full.full = true
	if swapped, err := g.swapMarker(ctx, server, m.String(), full.String()); err != nil || !swapped {
		return err // lost again meanwhile: whoever notices begins another epoch
	}
	if now := g.windows.Load(); *now == m {
		g.windows.CompareAndSwap(now, &full)
	}
	g.log.Info("duplicate windows are loaded", "fingerprints", loaded, "names_of_ended_epochs_removed", removed,
		"duration_ms", time.Since(started).Milliseconds())
	return nil
}

// loading is the loading of an epoch's windows into a server.
type loading struct {
	g       *Guard
	server  *redis.Client
	windows marker
}

// loadPasses writes recorded passes under names that are free. It returns the passes whose names are
// held by claims without a record: such a claim may be released later, and then the name must not be
// free.
func (l *loading) loadPasses(ctx context.Context, passes []audit.LivePass) (contested []audit.LivePass, err error) {
	pipe, names := l.server.Pipeline(), l.g.redis
	pipe.PExpire(ctx, names.Key(loaderName(l.windows.epoch)), loaderLease)
	now := names.Earliest()
	cmds := make([]*redis.StringCmd, len(passes))
	for i, p := range passes {
		if left := p.UntilMS - now.UnixMilli(); left > 0 {
			cmds[i] = redis.NewStringCmd(ctx, "set", names.Key(fingerprintName(l.windows.epoch, p.Fingerprint)),
				passHolder(p).String(), "nx", "get", "px", left)
			_ = pipe.Process(ctx, cmds[i])
		}
	}
	seen := pipe.GetRange(ctx, names.Key(markerKey), 0, maxMarker-1)
	if _, err := pipe.Exec(ctx); failed(err) {
		return nil, fmt.Errorf("cannot write windows: %w", foreignValue(err))
	}
	if found, _ := parseMarker(seen.Val()); !found.sameWindows(l.windows) {
		return nil, errEpochOver // what is written now would stay behind
	}
	for i, p := range passes {
		if cmds[i] == nil {
			continue // over by now
		}
		// Exec returns the first error only, and the error of a name that was free is
		// one, redis.Nil: so each reply is looked at.
		if err := cmds[i].Err(); failed(err) {
			return nil, fmt.Errorf("cannot write windows: %w", foreignValue(err))
		}
		if cmds[i].Val() == "" {
			continue
		}
		resolved, err := l.resolveContested(ctx, p, cmds[i].Val(), now)
		if err != nil {
			return nil, err
		}
		if !resolved {
			contested = append(contested, p)
		}
	}
	return contested, nil
}

func passHolder(p audit.LivePass) holder {
	return holder{state: committed, check: p.CheckID, claimedMS: p.ClaimedMS}
}

// resolveContested reports whether the value that holds the name of a live pass can no longer be
// released and is not an older pass: either its check is recorded, or the pass took its place.
func (l *loading) resolveContested(ctx context.Context, p audit.LivePass, value string, now time.Time) (bool, error) {
	h, err := parseHolder(value)
	if err != nil {
		return false, err
	}
	if h.state == committed {
		// An older pass may have come in while the name was free.
		if h.check.Compare(p.CheckID) >= 0 {
			return true, nil
		}
	} else if known, dead, err := l.g.outcome(ctx, h, now); err != nil || !dead {
		return known, err
	}
	// If the name has another value by now, or none, it is contested again.
	return l.g.redis.Swap(ctx, l.server, pipeline.Swap{
		Name: fingerprintName(l.windows.epoch, p.Fingerprint), Old: value, New: passHolder(p).String(),
		Life: time.UnixMilli(p.UntilMS).Sub(now), KeepLonger: true,
	})
}

// outcome reports whether a claim is recorded, and perhaps released since, or dead:
// never to be recorded.
// Neither is known of one that is young or of this process.
func (g *Guard) outcome(ctx context.Context, h holder, now time.Time) (known, dead bool, err error) {
	found, err := g.records.passOf(ctx, h.check)
	if err != nil || found != absent {
		return err == nil, false, err
	}
	if h.age(now) <= staleAfter || g.inFlight.find(h.check) != nil {
		return false, false, nil
	}
	if err := g.makeFinal(ctx, h.node); err != nil {
		return false, false, err
	}
	found, err = g.records.passOf(ctx, h.check)
	return err == nil && found != absent, err == nil && found == absent, err
}

// failed reports an error that is more than "no such key".
func failed(err error) bool { return err != nil && !errors.Is(err, redis.Nil) }
