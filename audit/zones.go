package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Zones is which release of the time zones the nodes of a deployment have.
type Zones interface {
	// ChangeZones records a change of kind ZonesChanged: release is in force, in place of seen. It records
	// nothing if seen is not in force any more. A release in place of itself ends the overlap.
	ChangeZones(ctx context.Context, by Actor, seen, release string) error
}

// ZonesSubject is the subject of changes of kind ZonesChanged: no policy_id begins so.
const ZonesSubject = "/time_zones"

const (
	// ZonesOverlap is how long after a change nodes with the release before are nodes of the deployment: a
	// rolling upgrade restarts some, and may be undone.
	ZonesOverlap = 24 * time.Hour
	// zonesUnused is how long after a change no node of its release has ended the overlap: there is none.
	zonesUnused = ZonesOverlap + time.Hour
)

// ZonesInForce is what the newest change of kind ZonesChanged says, zero without one.
type ZonesInForce struct {
	Release  string
	Replaces string // the release before; empty for the first
	At       time.Time
}

// ReadZones returns which time zones are in force.
func ReadZones(ctx context.Context, of Changes) (z ZonesInForce, err error) {
	const atOnce = 100
	var after int64
	for {
		changes, err := of.Changes(ctx, ChangeQuery{KeyID: ZonesSubject, After: after, Limit: atOnce}) // whatever is no policy's
		if err != nil {
			return z, err
		}
		if len(changes) > 0 {
			last := &changes[len(changes)-1]
			after = last.Seq
			if z, err = parseZones(last); err != nil {
				return z, err
			}
		}
		if len(changes) < atOnce {
			return z, nil
		}
	}
}

func parseZones(c *Change) (ZonesInForce, error) {
	z := ZonesInForce{At: c.At}
	var said map[string]json.RawMessage // by names as they are: a struct would take those in other letters
	err := json.Unmarshal([]byte(c.Details), &said)
	if err == nil {
		err = errors.Join(json.Unmarshal(said["release"], &z.Release), json.Unmarshal(said["replaces"], &z.Replaces))
	}
	if err != nil {
		return z, fmt.Errorf("cannot read which time zones are in force: %w", err)
	}
	return z, nil
}

// ChangeOfZones returns the record of a change, without its head. PostgreSQL makes its own (change_zones).
func ChangeOfZones(by Actor, seen, release string, at time.Time) Change {
	details := map[string]any{"release": release, "replaces": seen}
	return newChange(Change{Kind: ZonesChanged, Subject: ZonesSubject, By: by, At: at}, details)
}

// Admits reports whether a node with the release is a node of the deployment. One that was so stays so until
// a node of the release in force ends the overlap.
func (z *ZonesInForce) Admits(release string, was bool, now time.Time) bool {
	return release == z.Release || z.overlaps() && (was || release == z.Replaces && now.Before(z.At.Add(ZonesOverlap)))
}

func (z *ZonesInForce) overlaps() bool { return z.Replaces != "" && z.Replaces != z.Release }

// Due reports whether a running node with the release brings it into force: to end the overlap, or since
// no node of the release in force did so, as after an upgrade that was undone.
func (z *ZonesInForce) Due(release string, now time.Time) bool {
	after := zonesUnused
	if release == z.Release {
		after = ZonesOverlap
	}
	return z.overlaps() && !now.Before(z.At.Add(after))
}

// OlderThan reports whether a node with the release brings it into force.
func (z *ZonesInForce) OlderThan(release string) bool {
	newest, _, _ := strings.Cut(z.Release, "-")
	own, _, _ := strings.Cut(release, "-") // the digits behind it have no order
	return newest < own
}
