package httpapi

import (
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/wire"
)

const (
	// maxBuckets is how many steps one answer has: 31 days of minutes.
	maxBuckets = 31 * 24 * 60
	// maxCounted is how many checks are read for one response where the numbers by policy are not
	// enough.
	maxCounted = 100_000
	// bucketBytes is one of an answer, with numbers of some digits.
	bucketBytes = 80
)

var statsSteps = map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

// getStats answers GET /v1/stats (S55).
func (a *API) getStats(x *exchange) error {
	query, step, err := queryStats(x.query())
	if err != nil {
		return err
	}
	query.Bounds = x.access.Bounds()
	counts, err := a.Store.CheckCounts(x.readContext(), query)
	if err != nil {
		return err
	}
	x.out = slices.Grow(x.out, int(query.Until.Sub(query.From)/query.Step)*bucketBytes)
	return respond(x, 200, statsOf(&query, step, counts))
}

// queryStats reads the query of GET /v1/stats: the steps that from and to lie in are
// counted whole.
func queryStats(query []byte) (q audit.CountQuery, step string, err error) {
	var faults spend.Faults
	values := parameters(query, &faults, "from", "to", "step", "policy_id", "agent_id")
	q.AgentID, q.PolicyID, _ = queryWhat(values, &faults)
	q.Examine = maxCounted
	for _, name := range []string{"from", "to", "step"} {
		if _, given := values[name]; !given {
			faults.Add(name, "is required")
		}
	}
	first, last := periodRange(values, &faults)
	step = values["step"]
	var known bool
	if q.Step, known = statsSteps[step]; !known && step != "" {
		faults.Add("step", "must be minute, hour or day")
	}
	if err := faults.Err(); err != nil {
		return q, step, err
	}
	q.From, q.Until = first.Truncate(q.Step), last.Truncate(q.Step).Add(q.Step)
	if q.Until.Sub(q.From)/q.Step > maxBuckets {
		faults.Add("from", "must be nearer to to, or step longer: an answer has at most 44640 buckets")
	}
	return q, step, faults.Err()
}

// statsOf returns every step of the range, also those without checks.
func statsOf(q *audit.CountQuery, step string, counts []audit.CheckCount) wire.Stats {
	var total audit.CheckCount
	stats := wire.Stats{Step: step, Data: make([]wire.StatsBucket, q.Until.Sub(q.From)/q.Step)}
	for i := range stats.Data {
		bucket := audit.CheckCount{Start: q.From.Add(time.Duration(i) * q.Step)}
		if len(counts) > 0 && counts[0].Start.Equal(bucket.Start) {
			bucket, counts = counts[0], counts[1:]
		}
		for effect, n := range bucket.Of {
			total.Of[effect] += n
		}
		stats.Data[i] = wire.StatsBucket{Start: wire.Timestamp{Time: bucket.Start}, DecisionCounts: countsOf(&bucket)}
	}
	stats.Total = countsOf(&total)
	return stats
}

func countsOf(c *audit.CheckCount) wire.DecisionCounts {
	return wire.DecisionCounts{Allow: c.Of[spend.Allow], Block: c.Of[spend.Block], Escalate: c.Of[spend.Escalate]}
}
