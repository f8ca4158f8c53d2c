package capacity

import (
	"math"
	"os"
	"strings"
	"testing"

	"spendgate/bench/must"
)

func TestFitFindsTheCost(t *testing.T) {
	want := cost{check: 20, batch: 300}
	var points []point
	for _, size := range []float64{1, 8, 32, 110} {
		points = append(points, point{size, want.at(size)})
	}
	if got := fit(points); math.Abs(got.check-want.check) > 1e-6 || math.Abs(got.batch-want.batch) > 1e-6 {
		t.Errorf("fitted %+v, want %+v", got, want)
	}
}

// example returns costs close to the measured ones.
func example() components {
	return components{node: cost{26, 280}, redis: cost{4.4, 42}, postgres: cost{15.5, 300}}
}

// A plan keeps its bounds, and would not with one node less.
func TestPlanKeepsItsBounds(t *testing.T) {
	d := production()
	for _, rate := range []float64{1, 1_000, 20_000, 200_000, 1_000_000} {
		p := example().plan(rate, d)
		working := p.nodes - d.spareNodes
		busy := func(nodes int) bool {
			perNode := rate / float64(nodes)
			return perNode*example().postgres.check/second <= d.atMost && p.nodeCores <= float64(nodes)*d.nodeCores*d.atMost
		}
		if !busy(working) || working > 1 && busy(working-1) {
			t.Errorf("%.0f checks/s: %d working nodes", rate, working)
		}
		if in := rate / float64(working) * p.commitMS / 1000; p.batch > 1 && math.Abs(in-p.batch) > 1e-6*in {
			t.Errorf("%.0f checks/s: %.2f checks arrive during a commit of %.2f", rate, in, p.batch)
		}
	}
}

// More nodes make smaller batches, which cost more.
func TestMoreNodesCarryLessOnOneMachine(t *testing.T) {
	one, batchOne := example().saturated(1, 256, 1.5, 6)
	four, batchFour := example().saturated(4, 256, 1.5, 6)
	if four >= one || batchFour != batchOne/4 {
		t.Errorf("1 node: %.0f/s in batches of %.0f; 4 nodes: %.0f/s in batches of %.0f", one, batchOne, four, batchFour)
	}
}

// The page shows what the command prints on the results beside it.
func TestPageShowsTheResults(t *testing.T) {
	var printed strings.Builder
	must.Do(t, run(&printed, "../../results"))
	page := must.Get(os.ReadFile("../../../docs/operate/capacity.md"))(t)
	if !strings.Contains(string(page), "```text\n"+printed.String()+"```\n") {
		t.Errorf("docs/operate/capacity.md does not show what go run ./bench/measure capacity prints:\n%s", printed.String())
	}
}
