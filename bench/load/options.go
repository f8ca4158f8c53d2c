package load

import (
	"errors"
	"fmt"
	"time"
)

// Options describe one run.
type Options struct {
	Addrs    []string // host:port of each server; connections are shared out evenly
	Workload Workload
	// FirstSerial is where the run begins in the workload. Runs against one
	// deployment must not overlap: Result.NextSerial is where the next may begin.
	FirstSerial uint64
	// Target makes the target of one worker.
	Target func() Target

	Connections int
	Workers     int           // threads; 0 means 1
	Rate        float64       // requests a second of an open loop; 0 means a closed loop
	Warmup      time.Duration // not measured
	Duration    time.Duration // measured
	Drain       time.Duration // how long late answers are waited for; 0 means 5 s
	Requests    uint64        // ends the run early, once about so many were measured; 0 means no limit

	// Processes are those whose processor time is reported. The generator is added to them.
	Processes []Process
}

// defaultDrain is far more than a server needs that keeps up.
const defaultDrain = 5 * time.Second

func (o *Options) validate() error {
	var faults []error
	fault := func(wrong bool, text string) {
		if wrong {
			faults = append(faults, errors.New(text))
		}
	}
	faults = append(faults, o.Workload.Validate())
	fault(len(o.Addrs) == 0, "the server's address is missing")
	fault(o.Target == nil, "a target is missing")
	fault(o.Connections < 1, "at least one connection is needed")
	fault(o.Workers < 0 || o.Workers > max(o.Connections, 0), "there must be as many connections as workers")
	fault(o.Rate < 0, "the rate must not be negative")
	fault(o.Duration <= 0, "the duration must be positive")
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("cannot run this load: %w", err)
	}
	return nil
}

// Tally counts results of one worker, or of all. Right and Latency include only right answers to
// requests that were due in the measured time.
type Tally struct {
	Right   uint64
	InTime  uint64 // of Right, those answered before the measured time ended
	Latency Histogram
	Refused Histogram         // of Errors, the answers that say when to try again
	Errors  map[string]uint64 // by kind
	Example map[string]string // the first answer of each kind
}

func newTally() *Tally {
	return &Tally{Errors: make(map[string]uint64), Example: make(map[string]string)}
}

func (t *Tally) fail(kind string, n uint64, answer []byte) {
	if _, seen := t.Example[kind]; !seen {
		t.Example[kind] = string(answer[:min(len(answer), maxExample)])
	}
	t.Errors[kind] += n
}

// maxExample bounds the kept part of an answer.
const maxExample = 600

func (t *Tally) merge(other *Tally) {
	t.Right += other.Right
	t.InTime += other.InTime
	t.Latency.Merge(&other.Latency)
	t.Refused.Merge(&other.Refused)
	for kind, n := range other.Errors {
		t.fail(kind, n, []byte(other.Example[kind]))
	}
}
