// Command dashboard draws what the Grafana dashboard shows of a fleet at work:
// it puts three nodes behind HAProxy under load, empties their Redis and stops
// their PostgreSQL for a moment, has Prometheus watch, and asks it the
// dashboard's own queries.
//
//	make dashboard-picture
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/load/chart"
)

func main() {
	binary := flag.String("binary", ".bin/spendgate", "the service")
	dashboard := flag.String("dashboard", "deploy/grafana/spendgate.json", "whose panels to draw")
	out := flag.String("out", "bench/results/dashboard.svg", "the picture")
	duration := flag.Duration("duration", time.Minute, "how long there is load")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *binary, *dashboard, *out, *duration)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary, dashboard, out string, duration time.Duration) error {
	panels, err := readPanels(dashboard)
	if err != nil {
		return err
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return fmt.Errorf("cannot find the service: %w", err)
	}
	f, err := fleet.Start(ctx, fleet.Options{Binary: binary, Nodes: 3})
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	dir, err := os.MkdirTemp("", "spendgate-dashboard-")
	if err != nil {
		return fmt.Errorf("cannot make a folder: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	front, err := fleet.StartBalancer(ctx, dir, f.Nodes)
	if err != nil {
		return err
	}
	defer front.Kill() //nolint:errcheck // only read
	watch, err := fleet.StartPrometheus(ctx, dir, f.Nodes)
	if err != nil {
		return err
	}
	defer watch.Kill() //nolint:errcheck // only read
	story := &story{from: time.Now().Add(settling)}
	if err := story.play(ctx, f, front, duration); err != nil {
		return err
	}
	return story.draw(ctx, watch, panels, out)
}

// settling is until rates can be told.
const settling = 6 * time.Second

// story is what the picture tells.
type story struct {
	from, to time.Time
	marks    []time.Time // of the disturbances
}

// play lets agents loose and disturbs them: at a third of the time Redis is
// emptied, at two thirds PostgreSQL stops for a moment.
func (s *story) play(ctx context.Context, f *fleet.Fleet, front *fleet.Balancer, duration time.Duration) error {
	agents, err := newAgents(ctx, f, front)
	if err != nil {
		return err
	}
	working, stop := context.WithTimeout(ctx, settling+duration)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		agents.work(working)
	}()
	time.Sleep(settling)
	for _, disturb := range []func() error{
		func() error { return f.Redis.Client.FlushAll(ctx).Err() },
		func() error {
			if err := f.Postgres.Stop(); err != nil {
				return err
			}
			time.Sleep(stopped)
			return f.Postgres.Continue()
		},
	} {
		time.Sleep(duration / 3)
		s.marks = append(s.marks, time.Now())
		if err := disturb(); err != nil {
			return fmt.Errorf("cannot disturb the fleet: %w", err)
		}
	}
	<-done
	s.to = time.Now()
	return ctx.Err()
}

// stopped is for how long PostgreSQL is.
const stopped = 3 * time.Second

func (s *story) draw(ctx context.Context, watch *fleet.Prometheus, panels []panel, out string) error {
	after := func(i int) time.Duration { return s.marks[i].Sub(s.from).Round(time.Second) }
	picture := chart.Lines{
		Title: "The dashboard's panels: three nodes under load", Columns: 3, From: s.from, To: s.to, Marks: s.marks,
		Note: fmt.Sprintf("Redis is emptied after %s; PostgreSQL is stopped for %s after %s. A picture, not a measurement.", after(0), stopped, after(1)),
	}
	for _, p := range panels {
		drawn, err := p.draw(ctx, watch, s.from, s.to)
		if err != nil {
			return err
		}
		picture.Panels = append(picture.Panels, drawn)
	}
	file, err := os.Create(out)
	if err != nil {
		return fmt.Errorf("cannot write the picture: %w", err)
	}
	if err := picture.WriteSVG(file); err != nil {
		return fmt.Errorf("cannot write the picture: %w", err)
	}
	return file.Close()
}
