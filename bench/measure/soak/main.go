// Package soak runs two nodes for hours under an open loop of checks, while it kills nodes and servers by a fixed
// schedule, and looks once a minute at what must not grow.
//
//	measure soak -duration 8h -rate 300
//	measure soak -read .bin/soak/samples.jsonl    the state so far, of a run in progress too
//
// Every answer is judged, and every check that was answered is looked up in the record. The first node is never
// killed, so that what it keeps is seen. The servers' data are in the folder that TEST_SERVERS_DIR names.
package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/load"
)

// soak is a run.
type soak struct {
	*fleet.Fleet
	traffic *traffic
	out     io.Writer
	samples *os.File
}

type settings struct {
	duration, faults, every time.Duration
	rate                    float64
	dir                     string
}

// Run runs a soak, or reads the samples of one.
func Run(ctx context.Context, c *load.Call) error {
	var s settings
	c.Flags.DurationVar(&s.duration, "duration", 8*time.Hour, "how long checks are sent")
	c.Flags.Float64Var(&s.rate, "rate", 300, "checks a second")
	c.Flags.DurationVar(&s.faults, "faults", 10*time.Minute, "between two faults")
	c.Flags.DurationVar(&s.every, "samples", time.Minute, "between two samples")
	c.Flags.StringVar(&s.dir, "dir", ".bin/soak", "folder of the samples and the binary")
	read := c.Flags.String("read", "", "only print the table of these samples")
	if err := c.Parse(); err != nil {
		return err
	}
	if *read != "" {
		return summarise(c.Out, *read)
	}
	if err := fleet.Install(ctx, os.Stderr, "redis-server", "postgresql"); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return fmt.Errorf("cannot keep samples: %w", err)
	}
	path, err := filepath.Abs(s.dir)
	if err != nil {
		return fmt.Errorf("cannot keep samples: %w", err)
	}
	binary, err := fleet.Build(ctx, path, fleet.BuildOptions{Version: c.Version}) // its own, which no later build replaces
	if err != nil {
		return err
	}
	samples := filepath.Join(path, "samples.jsonl")
	verified, err := run(ctx, c.Out, s, binary, samples)
	if err == nil {
		_, err = fmt.Fprintln(c.Out, verified)
	}
	return errors.Join(err, summarise(c.Out, samples))
}

// run sends checks until the time is over or ctx ends, and returns what verifying the trail says.
func run(ctx context.Context, out io.Writer, set settings, binary, samples string) (verified string, err error) {
	// The servers outlive an interrupt, so that the trail is verified.
	lasting, going := context.WithoutCancel(ctx), ctx
	s := &soak{out: out}
	s.Fleet, err = fleet.Start(lasting, fleet.Options{
		Binary: binary, Nodes: 2, Settings: fleet.Settings{"PPROF": "true", "LOG_LEVEL": "warn", "WEBHOOK_PRIVATE_ADDRESSES": "true"},
		Postgres: []string{"shared_buffers=512MB", "max_wal_size=2GB"},
	})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.End()) }()
	if s.samples, err = os.Create(samples); err != nil { //nolint:gosec // the caller's path
		return "", fmt.Errorf("cannot keep samples: %w", err)
	}
	defer s.samples.Close() //nolint:errcheck // each line is written at once
	if s.traffic, err = prepare(lasting, s.Fleet); err != nil {
		return "", err
	}
	receiver := httptest.NewServer(http.HandlerFunc(s.traffic.receive))
	defer receiver.Close()
	a, err := s.Nodes[0].Admin(s.AdminKey).Do(lasting, http.MethodPost, "/v1/webhooks",
		map[string]any{"url": receiver.URL, "event_types": []string{"violation.recorded"}})
	if err == nil && a.Status != http.StatusCreated {
		err = errors.New(a.String())
	}
	if err != nil {
		return "", fmt.Errorf("cannot make a webhook: %w", err)
	}
	going, end := context.WithTimeout(going, set.duration)
	defer end()
	failed := make(chan error, 2)
	go func() { failed <- s.injectAll(going, lasting, set.faults) }()
	go func() { failed <- s.sampleAll(going, lasting, set.every) }()
	go func() {
		s.traffic.run(going, set.rate)
		end()
	}()
	err = <-failed
	end()
	if err = errors.Join(err, <-failed); err != nil {
		return "", err
	}
	if err := s.sample(lasting); err != nil {
		return "", err
	}
	return s.verify(lasting, binary, filepath.Dir(samples))
}

// repeat calls do after each interval, until it fails or going ends.
func repeat(going context.Context, every time.Duration, do func() error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-going.Done():
			return nil
		case <-tick.C:
		}
		if err := do(); err != nil {
			return err
		}
	}
}

// verify verifies the trail and says how long that took.
func (s *soak) verify(ctx context.Context, binary, dir string) (string, error) {
	begun := time.Now()
	code, text, err := fleet.Run(ctx, binary, dir, fleet.Settings{"DATABASE_URL": s.Postgres.URL}, "audit", "verify")
	if err == nil && code != 0 {
		err = errors.New("the trail is wrong")
	}
	return fmt.Sprintf("audit verify ended with %d after %s\n%s", code, time.Since(begun).Round(time.Second), text), err
}
