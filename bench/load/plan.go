package load

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Plan is what the command lines of benchmarks have in common.
type Plan struct {
	Rounds      int           // of each run
	Warmup      time.Duration // of each run, not measured
	Duration    time.Duration // of each run, measured
	Connections []int         // of the closed loops
	Results     string        // folder
}

// Flags adds the plan's flags; what the plan says already is their default.
func (p *Plan) Flags(flags *flag.FlagSet) {
	flags.IntVar(&p.Rounds, "rounds", p.Rounds, "rounds of each closed loop")
	flags.DurationVar(&p.Warmup, "warmup", p.Warmup, "of each run, not measured")
	flags.DurationVar(&p.Duration, "duration", p.Duration, "of each run, measured")
	usage := "of the closed loops, separated by commas (default " + strings.Trim(fmt.Sprint(p.Connections), "[]") + ")"
	flags.Func("connections", usage, func(list string) error {
		p.Connections = nil
		for word := range strings.SplitSeq(list, ",") {
			n, err := strconv.Atoi(word)
			if err != nil {
				return err
			}
			p.Connections = append(p.Connections, n)
		}
		return nil
	})
}
