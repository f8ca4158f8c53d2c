package peers

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/load"
)

// comparison is the contenders and what was measured of them.
type comparison struct {
	load.Bench
	peers []string
	dir   string

	fleets     []*fleet.Fleet // the first serves spendgate and its peers
	contenders []contender
}

// report is what peers.json holds.
type report struct {
	load.Setting
	Agreed  uint64         `json:"answers_compared_first"`
	Summary []load.Summary `json:"summary"`
	Runs    []load.Result  `json:"runs"`
}

// compared is how many answers must be right before anything is measured.
const compared = 5000

func (c *comparison) run(ctx context.Context) error {
	r := report{Setting: c.Setting, Agreed: compared}
	if err := c.agree(ctx); err != nil {
		return err
	}
	for _, connections := range c.Connections {
		rounds := make([][]load.Result, len(c.contenders))
		for range c.Rounds {
			if err := c.round(ctx, connections, rounds); err != nil {
				return err
			}
		}
		r.Summary = append(r.Summary, load.Summarise(rounds[0], rounds[1:]...))
		for _, peer := range rounds[1:] {
			r.Summary = append(r.Summary, load.Summarise(peer))
		}
		for _, results := range rounds {
			r.Runs = append(r.Runs, results...)
		}
	}
	if err := load.WriteSummaries(c.Out, r.Summary); err != nil {
		return err
	}
	return load.WriteJSON(filepath.Join(c.Results, c.file()), r)
}

// file is the name of the file of results: a comparison with some of the peers
// does not replace the one with all.
func (c *comparison) file() string {
	if strings.Join(c.peers, " ") == allPeers {
		return "peers.json"
	}
	return "peers-" + strings.Join(c.peers, "-") + ".json"
}

// agree sends the same actions to every contender; every answer must be right.
func (c *comparison) agree(ctx context.Context) error {
	for _, contender := range c.contenders {
		o := c.options(contender, 8)
		o.Warmup, o.Duration, o.Requests = 0, time.Minute, compared
		result, err := load.Run(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", contender.name, err)
		}
		if result.Failures() > 0 || result.Right < compared {
			return fmt.Errorf("%s does not decide as it should: %d right answers, errors %v, for example %v",
				contender.name, result.Right, result.Errors, result.Examples)
		}
		c.Serial = max(c.Serial, result.NextSerial)
	}
	_, err := fmt.Fprintf(c.Out, "all contenders decide alike: %d answers compared\n", compared)
	return err
}

// round measures every contender once, on the same actions.
func (c *comparison) round(ctx context.Context, connections int, rounds [][]load.Result) error {
	first := c.Serial
	for i, contender := range c.contenders {
		o := c.options(contender, connections)
		o.FirstSerial = first
		r, err := c.Measure(ctx, fmt.Sprint(contender.name, " ", connections), o)
		if err != nil {
			return err
		}
		rounds[i] = append(rounds[i], r)
	}
	return nil
}

func (c *comparison) options(to contender, connections int) load.Options {
	return load.Options{
		Addrs: []string{to.addr}, Workload: c.Workload, Target: to.target,
		Connections: connections, Warmup: c.Warmup, Duration: c.Duration, Processes: to.processes,
	}
}
