package guard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"spendgate/hotpath/pipeline"
	"spendgate/ratelimit"
)

// errForeignServer: the marker on a newly connected server was written on
// another one, so this is a promoted replica or a restart from an old copy and
// its windows may lack the last claims (F4).
var errForeignServer = errors.New("redis server is not the one its windows were built on")

// request is a request to Redis whose names belong to an epoch.
type request struct {
	pipeline.Request
	reading reading
}

// reading is what a round trip read about the epoch.
type reading struct {
	now        time.Time // by Redis' clock
	generation string    // of the configuration, within the epoch
	windows    marker    // known before the round trip and still there after it
}

// snapshot is the generation and the marker as a batch read them.
type snapshot struct {
	nonce, text string
	marker      marker
	generation  string // the label of the marker's epoch and nonce
}

// snapshots parses what batches read, which hardly ever changes.
type snapshots struct{ last atomic.Pointer[snapshot] }

func (s *snapshots) parse(nonce, text string) *snapshot {
	if last := s.last.Load(); last != nil && last.nonce == nonce && last.text == text {
		return last
	}
	m, _ := parseMarker(text) // a newer one is not of this node
	// A nonce alone could come back after Redis was lost; no epoch comes back (F12).
	next := &snapshot{nonce: nonce, text: text, marker: m, generation: m.epoch.Text("") + "/" + nonce}
	s.last.Store(next)
	return next
}

// verify reports whether a batch found the windows that this node is in: their
// marker was read last, and certifies everything before it (F5).
func (g *Guard) verify(nonce, text string) bool {
	known, found := g.windows.Load(), g.snapshots.parse(nonce, text)
	if known.epoch.IsZero() || !found.marker.sameWindows(*known) || nonce == "" {
		return false
	}
	if found.marker != *known {
		g.windows.CompareAndSwap(known, &found.marker)
	}
	return true
}

// vet refuses a server other than the one that windows were built on.
func (g *Guard) vet(server, text string) error {
	if m, _ := parseMarker(text); text != "" && m.server != server {
		g.foreign.Store(true)
		return errForeignServer
	}
	return nil
}

// send sends a request whose names are of the known windows. It reports whether the windows have
// changed: then no reply is valid, refusals included.
func (g *Guard) send(r *request, known marker) (lost bool, err error) {
	err = g.redis.Do(&r.Request)
	if !r.Now.IsZero() {
		found := g.snapshots.parse(r.First, r.Last)
		if r.Void || !found.marker.sameWindows(known) {
			return true, nil
		}
		r.reading = reading{now: r.Now, generation: found.generation, windows: known}
		r.reading.windows.full = known.full && found.marker.full // windows that were lazy before are lazy for the request
	}
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return false, nil
}

// roundTrip sends a request within the epoch in force, which it renews as often as necessary. build
// makes the request for an epoch, again before each try.
func (g *Guard) roundTrip(ctx context.Context, r *request, build func(*request, marker)) error {
	counted, place := false, ratelimit.Place{} // a request is counted once, however often it is sent
	for range renewAttempts {
		known := *g.windows.Load()
		if known.epoch.IsZero() {
			if err := g.renew(ctx, known); err != nil {
				return err
			}
			continue
		}
		*r = request{}
		build(r, known)
		if counted {
			r.Hit = ratelimit.Hit{}
		}
		lost, err := g.send(r, known)
		if err != nil && !errors.Is(err, errForeignServer) {
			g.mend(err, known)
			return err
		}
		if err == nil && !counted && r.Counted {
			counted, place = true, r.Place
		}
		if err == nil && !lost {
			if counted {
				r.Place, r.Counted = place, true
			}
			return nil
		}
		if lost {
			g.redis.Undo(&r.Request) // void, but perhaps under names that stay
		}
		if err := g.renew(ctx, known); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, errEpochsChange)
}

// mend ends the epoch if the error is about a name with a value that no node writes, so that the next
// request for it uses another name.
func (g *Guard) mend(err error, m marker) {
	if errors.Is(err, errForeignValue) || errors.Is(err, pipeline.ErrWrongType) {
		go g.endEpoch(m)
	}
}
