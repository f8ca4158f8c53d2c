package capacity

import "math"

// point is a component's processor time for each check, in microseconds, when
// a batch held so many checks.
type point struct{ batch, us float64 }

// cost is processor time of a component: for each check, and for each batch
// whatever it holds. In microseconds.
type cost struct{ check, batch float64 }

// fit finds the cost that the points lie closest to, relative to their size:
// us = check + batch/size.
func fit(points []point) cost {
	var w, wx, wxx, wy, wxy float64
	for _, p := range points {
		x, weight := 1/p.batch, 1/(p.us*p.us)
		w += weight
		wx += weight * x
		wxx += weight * x * x
		wy += weight * p.us
		wxy += weight * x * p.us
	}
	slope := (w*wxy - wx*wy) / (w*wxx - wx*wx)
	return cost{check: (wy - slope*wx) / w, batch: slope}
}

// at returns the cost of one check in batches of that size.
func (c cost) at(size float64) float64 { return c.check + c.batch/size }

const second = 1e6 // in microseconds

// components are the costs of all components that a check uses.
type components struct{ node, redis, postgres cost }

// saturated returns how many checks a second nodes on one machine carry from a
// number of connections that send as fast as they are answered, with so many
// cores busy, the generator's own cost included. Three eighths of a node's checks
// are in its commit while the others are answered, read and claimed: as measured.
func (c components) saturated(nodes, connections int, busy, generator float64) (rate, batch float64) {
	batch = max(1, float64(connections)/float64(nodes)*3/8)
	total := c.node.at(batch) + c.redis.at(batch) + c.postgres.at(batch) + generator
	return busy * second / total, batch
}

// deployment is what a plan assumes of the place where it runs.
type deployment struct {
	nodeCores  float64 // of one node
	atMost     float64 // busy share of any core, so that queues stay short and a failure is survived
	fsyncMS    float64 // time of an empty commit: the disk, and the standby's confirmation
	spareNodes int     // for one that fails and one that restarts
}

// plan is what a rate of checks needs.
type plan struct {
	rate          float64 // checks a second
	nodes         int     // spares included
	batch         float64 // checks a commit
	commitMS      float64
	latencyMS     float64 // mean, of the two waits
	nodeCores     float64 // busy, all nodes
	redisCores    float64 // busy, of the one thread
	postgresCores float64 // busy
	stream        float64 // busy share of one node's commits, which follow each other
}

// plan sizes a deployment.
func (c components) plan(rate float64, d deployment) plan {
	p := plan{rate: rate}
	for working := 1; ; working++ {
		p.sizeBatch(c, rate/float64(working), d)
		p.nodeCores = rate * c.node.at(p.batch) / second
		if p.stream <= d.atMost && p.nodeCores <= float64(working)*d.nodeCores*d.atMost {
			p.nodes = working + d.spareNodes
			break
		}
	}
	p.redisCores = rate * c.redis.at(p.batch) / second
	p.postgresCores = rate * c.postgres.at(p.batch) / second
	return p
}

// sizeBatch finds the steady-state batch of one node: a commit takes as long as
// it takes to write what arrived during the one before it,
//
//	S = s0 + s1*b, b = rate*S, hence S = s0 / (1 - rate*s1)
//
// which has no solution from rate = 1/s1 on. An arrival waits on average for half
// a commit, then for its own: 1.5 S; its round trip overlaps the first wait.
func (p *plan) sizeBatch(c components, rate float64, d deployment) {
	const ms = 1000 // microseconds
	s1 := c.postgres.check
	s0 := d.fsyncMS*ms + c.postgres.batch
	p.stream = rate * s1 / second
	if p.stream >= 1 {
		p.stream = math.Inf(1)
		return
	}
	s := s0 / (1 - p.stream)
	p.batch = max(1, rate*s/second)
	p.commitMS = s / ms
	p.latencyMS = 1.5*p.commitMS + c.redis.at(1)/ms
}
