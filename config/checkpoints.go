package config

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Checkpoints says how the heads of the audit trail's chains are signed.
type Checkpoints struct {
	Key      Secret // an Ed25519 seed, 32 bytes; empty for no checkpoints
	File     string
	Interval time.Duration
}

const (
	seedSize = 32
	// defaultCheckpointInterval is how much of a chain's end can be cut off
	// unseen, at most.
	defaultCheckpointInterval  = time.Minute
	shortestCheckpointInterval = time.Second
	// longestCheckpointInterval is half of what the alert SpendgateCheckpointsStop
	// takes for a node that has stopped.
	longestCheckpointInterval = 5 * time.Minute
)

// readCheckpoints adds a fault when a node has only one of key and file: either
// alone protects nothing. An audit needs the key alone to verify.
func readCheckpoints(s *source, mode Mode) Checkpoints {
	c := Checkpoints{
		Key:      read(s, "CHECKPOINT_KEY", "", parseSeed),
		File:     read(s, "CHECKPOINT_FILE", "", parseText),
		Interval: read(s, "CHECKPOINT_INTERVAL", defaultCheckpointInterval, parseCheckpointInterval),
	}
	if mode == Audit {
		return c
	}
	if s.given("CHECKPOINT_KEY") {
		s.require("CHECKPOINT_FILE", "/var/lib/spendgate/checkpoints.jsonl")
	} else if s.given("CHECKPOINT_FILE") {
		s.fault("CHECKPOINT_KEY", "is required with "+prefix+"CHECKPOINT_FILE: `spendgate audit keygen` makes one")
	}
	return c
}

func parseSeed(text string) (Secret, error) {
	seed, err := hex.DecodeString(text)
	if err != nil {
		seed, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil || len(seed) != seedSize {
		return "", errors.New("must be 32 bytes in base64 or hexadecimal, as `spendgate audit keygen` makes them")
	}
	return Secret(seed), nil
}

func parseCheckpointInterval(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < shortestCheckpointInterval || d > longestCheckpointInterval {
		return 0, fmt.Errorf("must be a duration from %v to %v, such as 1m, not %q", shortestCheckpointInterval, longestCheckpointInterval, text)
	}
	return d, nil
}
