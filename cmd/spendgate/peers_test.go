package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"spendgate/audit/postgres"
	"spendgate/audit/spend"
)

// Of nodes with different Redis the fewer are refused, or those that came later. A note that was made before this node
// knew its Redis shows nothing: Redis may have been emptied since.
func TestPeersWithOtherRedis(t *testing.T) {
	now := time.Now()
	note := func(process byte, redis string, seen time.Duration) postgres.NodeNote {
		return postgres.NodeNote{Process: spend.ID{process}, Redis: redis, Seen: now.Add(seen)}
	}
	const later, before = time.Minute, time.Second
	for name, c := range map[string]struct {
		nodes   []postgres.NodeNote // the oldest first
		refused bool
		differ  int
	}{
		"alone":             {nil, false, 0},
		"the same":          {[]postgres.NodeNote{note(2, "a", later), note(1, "a", later)}, false, 0},
		"of two the later":  {[]postgres.NodeNote{note(2, "b", later), note(1, "a", later)}, true, 1},
		"of two the first":  {[]postgres.NodeNote{note(1, "a", later), note(2, "b", later)}, false, 1},
		"the fewer":         {[]postgres.NodeNote{note(1, "a", later), note(2, "b", later), note(3, "b", later)}, true, 2},
		"the more":          {[]postgres.NodeNote{note(2, "b", later), note(1, "a", later), note(3, "a", later)}, false, 1},
		"not noted yet":     {[]postgres.NodeNote{note(2, "b", later)}, true, 1},
		"noted before that": {[]postgres.NodeNote{note(2, "b", before), note(1, "a", later)}, false, 0},
	} {
		p := &peers{differs: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "redis_differs"}, []string{"node", "host"})}
		for i := range c.nodes {
			c.nodes[i].Node = c.nodes[i].Process
		}
		p.judge(postgres.NodeNote{Process: spend.ID{1}, Redis: "a", Since: now}, c.nodes)
		differ := 0
		for _, n := range c.nodes {
			differ += int(testutil.ToFloat64(p.differs.WithLabelValues(n.Node.Text(""), "")))
		}
		if got := p.other.Load() != nil; got != c.refused || differ != c.differ {
			t.Errorf("%s: refused %t, %d differ", name, got, differ)
		}
	}
}

// notes are the notes of a fleet, in virtual time.
type notes func() []postgres.NodeNote

func (n notes) Nodes(context.Context) ([]postgres.NodeNote, time.Time, error) {
	return n(), time.Now(), nil
}

// A node does not start beside nodes whose notes, made again, name another Redis. It starts once these agree or are gone.
func TestVetPeers(t *testing.T) {
	for name, c := range map[string]struct {
		redis   func(age time.Duration) string
		gone    time.Duration
		refused bool
	}{
		"another":  {func(time.Duration) string { return "b" }, time.Hour, true},
		"the same": {func(time.Duration) string { return "a" }, time.Hour, false},
		"killed":   {func(time.Duration) string { return "b" }, 2 * time.Second, false},
		"a Redis just emptied": {func(age time.Duration) string {
			if age < noteEvery {
				return "b"
			}
			return "a"
		}, time.Hour, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := vetPeers(t.Context(), notes(func() []postgres.NodeNote {
				age := time.Since(began)
				if age > c.gone {
					return nil
				}
				return []postgres.NodeNote{{Redis: c.redis(age), Seen: began.Add(age.Truncate(noteEvery))}}
			}), func(context.Context) (string, error) { return "a", nil })
			if errors.As(err, new(*otherRedisError)) != c.refused || !c.refused && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
