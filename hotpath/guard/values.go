package guard

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"spendgate/audit/spend"
	"spendgate/hotpath/pipeline"
)

// Every key of the service lies in one slot, so that a batch that ends with
// the marker proves something about all the claims before it, on a single
// Redis, behind Sentinel and on a Cluster alike.
const (
	markerKey     = "m:{0}"
	generationKey = "g:{0}"
	identityKey   = "i:{0}"

	keyPrefix         = "k:{0}:"
	fingerprintPrefix = "f:{0}:"
)

// keyName returns where an idempotency key is claimed in an epoch. The epoch in the
// name makes late writers of older epochs harmless (F6).
func keyName(epoch spend.ID, h spend.Hash) string { return claimName(keyPrefix, epoch, h) }

// fingerprintName returns where a fingerprint is claimed in an epoch.
func fingerprintName(epoch spend.ID, h spend.Hash) string {
	return claimName(fingerprintPrefix, epoch, h)
}

func claimName(prefix string, epoch spend.ID, h spend.Hash) string {
	b := append(epoch.Append(make([]byte, 0, 80), prefix), ':') // on the stack
	return string(append(b, h[:]...))
}

func loaderName(epoch spend.ID) string { return epoch.Text("l:{0}:") }

// state is the state of a fingerprint's holder.
type state byte

const (
	pending   state = 'P' // claimed; whether it is recorded, only the store knows
	committed state = 'C' // recorded
	orphan    state = 'O' // recorded, but its client was answered 500
)

// holder is the value of a claimed fingerprint, or of a claimed idempotency key, whose state stays
// pending: its outcome is in the store. Its check ID is new for every SET, so that no value is ever
// used twice (F8).
type holder struct {
	state     state
	node      spend.ID
	check     spend.ID
	claimedMS int64
	asks      bool // as the store says: its check asks for an approval
}

func (h holder) String() string {
	b := append(make([]byte, 0, 84), byte(h.state), '|')
	b = append(h.node.Append(b, ""), '|')
	b = append(h.check.Append(b, ""), '|')
	return string(strconv.AppendInt(b, h.claimedMS, 10))
}

// age returns how long the claim has stood at now, by Redis' clock.
func (h holder) age(now time.Time) time.Duration {
	return time.Duration(max(0, now.UnixMilli()-h.claimedMS)) * time.Millisecond
}

// as returns the same claim in another state.
func (h holder) as(s state) holder {
	h.state = s
	return h
}

var errForeignValue = errors.New("a claim in Redis has a value that no node writes")

// foreignValue marks the error of a command that met a value that no node writes.
func foreignValue(err error) error {
	if pipeline.WrongType(err) {
		return fmt.Errorf("%w: %w", errForeignValue, err)
	}
	return err
}

func parseHolder(s string) (h holder, err error) {
	if len(s) < 2 || s[1] != '|' || !strings.ContainsRune("PCO", rune(s[0])) {
		return h, errForeignValue
	}
	h.state = state(s[0])
	parts := strings.Split(s[2:], "|")
	if len(parts) != 3 {
		return h, errForeignValue
	}
	var nodeErr, checkErr, timeErr error
	h.node, nodeErr = spend.ParseID(parts[0], "")
	h.check, checkErr = spend.ParseID(parts[1], "")
	h.claimedMS, timeErr = strconv.ParseInt(parts[2], 10, 64)
	if nodeErr != nil || checkErr != nil || timeErr != nil {
		return holder{}, errForeignValue
	}
	return h, nil
}

// formatVersion is the version of all names and values in Redis. Claims, counters and the generation
// have no version of their own, since a node uses them only under a marker that it knows.
const formatVersion = 1

// maxMarker is longer than any marker, maxGeneration than any generation.
const (
	maxMarker     = 256
	maxGeneration = 64
)

// marker is the value that certifies Redis' windows: the deployment and the
// epoch they belong to, the server they were built on and whether they are all
// there.
type marker struct {
	deployment spend.ID
	epoch      spend.ID
	server     string
	full       bool // every live window was loaded; else fresh claims ask the store
}

func (m marker) String() string {
	if m.epoch.IsZero() {
		return ""
	}
	state := "lazy"
	if m.full {
		state = "full"
	}
	return strings.Join([]string{strconv.Itoa(formatVersion), m.deployment.Text(""), m.epoch.Text(""), m.server, state}, "|")
}

// parseMarker returns the zero marker for anything that no node wrote: it equals
// no epoch, so that the windows are taken for lost. A newer node's marker is
// errNewerFormat: its windows are not lost, but they are not to be read either.
func parseMarker(s string) (m marker, err error) {
	parts := strings.Split(s, "|")
	if version, err := strconv.ParseUint(parts[0], 10, 16); err == nil && version > formatVersion && len(parts) > 1 {
		return marker{}, fmt.Errorf("%w: %d, this node knows %d", errNewerFormat, version, formatVersion)
	}
	if len(parts) != 5 || parts[0] != strconv.Itoa(formatVersion) || parts[4] != "lazy" && parts[4] != "full" {
		return marker{}, nil
	}
	deployment, deploymentErr := spend.ParseID(parts[1], "")
	epoch, epochErr := spend.ParseID(parts[2], "")
	if deploymentErr == nil && epochErr == nil {
		m = marker{deployment: deployment, epoch: epoch, server: parts[3], full: parts[4] == "full"}
	}
	return m, nil
}

// sameWindows reports whether both certify the same windows, loaded or not.
func (m marker) sameWindows(o marker) bool {
	return m.deployment == o.deployment && m.epoch == o.epoch && m.server == o.server
}
