package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// startDelay is the time between setting the clock and its beginning, in which every worker's
// thread gets ready.
const startDelay = 20 * time.Millisecond

// Run sends the load and returns what was measured. It fails when the server
// cannot be connected to or a process is gone; wrong answers are counted.
func Run(ctx context.Context, o Options) (Result, error) {
	if err := o.validate(); err != nil {
		return Result{}, err
	}
	workers, err := newWorkers(&o)
	defer func() {
		for _, w := range workers {
			w.close()
		}
	}()
	if err != nil {
		return Result{}, err
	}
	c := clock{start: time.Now().Add(startDelay), warmup: o.Warmup, end: o.Warmup + o.Duration, drain: o.Drain}
	if c.drain == 0 {
		c.drain = defaultDrain
	}
	failed := make([]error, len(workers))
	done := make(chan struct{})
	var working sync.WaitGroup
	for i, w := range workers {
		w.clock = c
		working.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread() // otherwise the thread would end, and with it the processes that it started
			time.Sleep(time.Until(c.start))
			failed[i] = w.run()
		})
	}
	go func() {
		working.Wait()
		close(done)
	}()
	cost, took, err := measure(ctx, c, o.Processes, done)
	<-done
	if err = errors.Join(errors.Join(failed...), err); err != nil {
		return Result{}, err
	}
	all, next := newTally(), uint64(0)
	for _, w := range workers {
		all.merge(w.tally)
		next = max(next, w.serial)
	}
	return newResult(&o, all, next, cost, took), nil
}

// measure samples the processes over the measured time, or until the workers are done, if that is
// earlier.
func measure(ctx context.Context, c clock, processes []Process, done <-chan struct{}) (
	cost map[string]time.Duration, took time.Duration, err error,
) {
	wait := func(until time.Duration) {
		select {
		case <-time.After(time.Until(c.start) + until):
		case <-done:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	wait(c.warmup)
	before, beforeErr := sample(processes)
	from := c.now()
	wait(c.end)
	after, afterErr := sample(processes)
	took = c.now() - from
	if err = errors.Join(err, beforeErr, afterErr); err != nil {
		return nil, 0, err
	}
	return after.since(before), took, nil
}

// newWorkers connects everything and distributes connections, rate and serials.
func newWorkers(o *Options) ([]*worker, error) {
	var servers []server
	for _, addr := range o.Addrs {
		s, err := resolve(addr)
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
	}
	n := max(o.Workers, 1)
	var workers []*worker
	for i := range n {
		w := &worker{
			target: o.Target(), workload: o.Workload, servers: servers,
			serial: o.FirstSerial + uint64(i), stride: uint64(n),
			tally: newTally(), limit: o.Requests / uint64(n), phase: float64(i) / float64(n),
		}
		if o.Rate > 0 {
			w.step = float64(time.Second) * float64(n) / o.Rate
		}
		workers = append(workers, w)
		share := o.Connections / n
		if i < o.Connections%n {
			share++
		}
		if err := w.open(share); err != nil {
			return workers, fmt.Errorf("worker %d: %w", i, err)
		}
	}
	return workers, nil
}
