package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit/metric"
	"spendgate/audit/pause"
	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	"spendgate/hotpath/guard"
)

const (
	// noteEvery is how often a node notes which Redis it uses.
	noteEvery = 5 * time.Second
	// settleIn bounds the time from reading what Redis says to noting it.
	settleIn = lookWithin
	vetPause = time.Second
)

// peers compares which Redis the nodes of a deployment use. Nodes on two Redis take the epoch from each other, and
// checks fail on both sides (F30).
type peers struct {
	store interface {
		NoteNode(ctx context.Context, n postgres.NodeNote) (since time.Time, err error)
		nodeNotes
	}
	identity func(context.Context) (string, error)
	node     func() spend.ID
	process  spend.ID
	host     string // of the operations listener, as Prometheus has it

	differs *prometheus.GaugeVec
	other   atomic.Pointer[otherRedisError] // why checks should be sent to other nodes; nil if they need not be
}

// nodeNotes are the notes of the nodes that run, and the database's time.
type nodeNotes interface {
	Nodes(ctx context.Context) (nodes []postgres.NodeNote, now time.Time, err error)
}

func newPeers(store *postgres.Store, g *guard.Guard, ops *operations) (*peers, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("cannot read the name of this machine: %w", err)
	}
	_, port, err := net.SplitHostPort(ops.listener.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("cannot read the port of the operations listener: %w", err)
	}
	p := &peers{
		store: store, identity: g.Identity, node: g.Node, process: g.Node(), host: net.JoinHostPort(host, port),
		differs: metric.Of(ops.registry, "").Gauges("redis_differs",
			"1 if another node that runs uses another Redis than this one; host is its operations listener.", "node", "host"),
	}
	return p, nil
}

// otherRedisError is that nodes at work use another Redis.
type otherRedisError struct{ nodes []postgres.NodeNote }

func (e *otherRedisError) Error() string {
	var others strings.Builder
	for _, n := range e.nodes {
		fmt.Fprintf(&others, "; node %s at %s", n.Node.Text(""), n.Host)
	}
	return "other nodes are at work, and they use another redis" + others.String() +
		": give this node their SPENDGATE_REDIS_URL and SPENDGATE_REDIS_KEY_PREFIX"
}

// look notes which Redis this node uses, and compares. Of the nodes that disagree the fewer are refused; of as many, those
// that came later.
func (p *peers) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleIn)
	defer cancel()
	nodes, _, err := p.store.Nodes(ctx) // before this node's Redis is asked: a flush in between is no other Redis
	if err != nil {
		return err
	}
	own := postgres.NodeNote{Process: p.process, Node: p.node(), Host: p.host}
	if own.Redis, err = p.identity(ctx); err != nil {
		return err
	}
	if own.Since, err = p.store.NoteNode(ctx, own); err != nil {
		return err
	}
	p.judge(own, nodes)
	return nil
}

func (p *peers) judge(own postgres.NodeNote, nodes []postgres.NodeNote) {
	p.differs.Reset()
	var others []postgres.NodeNote
	count, ours := map[string]int{}, 1
	oldest := "" // the Redis of the node that has run longest
	for _, n := range nodes {
		switch {
		case n.Process == own.Process:
			n.Redis = own.Redis
		case n.Redis == own.Redis:
			ours++
			p.differs.WithLabelValues(n.Node.Text(""), n.Host).Set(0)
		case shows(n, own.Since):
			p.differs.WithLabelValues(n.Node.Text(""), n.Host).Set(1)
			others = append(others, n)
			count[n.Redis]++
		default:
			continue
		}
		if oldest == "" {
			oldest = n.Redis
		}
	}
	var refused *otherRedisError
	for redis, n := range count {
		if n > ours || n == ours && oldest == redis {
			refused = &otherRedisError{others}
		}
	}
	p.other.Store(refused)
}

// shows reports whether a note with another Redis was made so long after since, when what this node read was the same as
// now, that both Redis existed at once.
func shows(n postgres.NodeNote, since time.Time) bool { return n.Seen.After(since.Add(settleIn)) }

// vetPeers fails with *otherRedisError if nodes at work use another Redis. While a note differs, it waits until the note is
// made again or its node is gone.
func vetPeers(ctx context.Context, store nodeNotes, identity func(context.Context) (string, error)) error {
	read, since := "", time.Time{}
	for {
		nodes, now, err := store.Nodes(ctx)
		if err != nil {
			return err
		}
		id, err := identity(ctx)
		if err != nil {
			return err
		}
		if since.IsZero() || id != read {
			read, since = id, now
		}
		var differ, shown []postgres.NodeNote
		for _, n := range nodes {
			if n.Redis != id {
				differ = append(differ, n)
				if shows(n, since) {
					shown = append(shown, n)
				}
			}
		}
		if len(shown) > 0 {
			return &otherRedisError{shown}
		}
		if len(differ) == 0 {
			return nil
		}
		if err := pause.For(ctx, vetPause); err != nil {
			return err
		}
	}
}
