package pipeline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// sentinels find the master. All are asked each time, and most of them must agree: one that was cut
// off from the others still names the old master.
type sentinels struct {
	name   string
	asked  []*redis.SentinelClient
	server redis.Options // of the master, but for its address

	mu     sync.Mutex
	client *redis.Client // of the master last named; nil before
}

// newSentinels takes the options of the servers that the sentinels watch.
func newSentinels(o redis.UniversalOptions) *sentinels {
	s := &sentinels{name: o.MasterName, server: *o.Simple()}
	for _, addr := range o.Addrs {
		watcher := s.server
		watcher.Addr, watcher.DB = addr, 0
		watcher.Username, watcher.Password = o.SentinelUsername, o.SentinelPassword
		s.asked = append(s.asked, redis.NewSentinelClient(&watcher))
	}
	return s
}

// master returns a client of the server that most of the sentinels name. The one
// that it returned for another server is closed.
func (s *sentinels) master(ctx context.Context) (*redis.Client, error) {
	addr, err := s.vote(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot find the master %s: %w", s.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil && s.client.Options().Addr == addr {
		return s.client, nil
	}
	if s.client != nil {
		_ = s.client.Close() // the client's server is not asked any more
	}
	o := s.server
	o.Addr = addr
	s.client = redis.NewClient(&o)
	return s.client, nil
}

// vote returns the address that more than half of the sentinels name, as soon as
// they do; else, since some may be down, the one that most name.
func (s *sentinels) vote(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, ioTimeout)
	defer cancel()
	type answer struct {
		addr string
		err  error
	}
	answers := make(chan answer, len(s.asked))
	for _, c := range s.asked {
		go func() {
			addr, err := c.GetMasterAddrByName(ctx, s.name).Result()
			if err == nil && len(addr) != 2 {
				err = errors.New("a sentinel does not name host and port")
			}
			if err != nil {
				answers <- answer{err: err}
				return
			}
			answers <- answer{addr: net.JoinHostPort(addr[0], addr[1])}
		}()
	}
	votes := make(map[string]int)
	var most string
	var failures []error
	for range s.asked {
		a := <-answers
		if a.err != nil {
			failures = append(failures, a.err)
			continue
		}
		if votes[a.addr]++; votes[a.addr] > len(s.asked)/2 {
			return a.addr, nil
		}
		if votes[a.addr] > votes[most] {
			most = a.addr
		}
	}
	for addr, n := range votes {
		if addr != most && n == votes[most] {
			return "", errors.New("the sentinels do not agree")
		}
	}
	if most == "" {
		return "", errors.Join(failures...)
	}
	return most, nil
}

// watch calls switched when another server has become master. The old one may answer as a master for
// another ten seconds. The fence in the commit refuses what is claimed there meanwhile, but reads
// commit nothing.
func (s *sentinels) watch(ctx context.Context, switched func()) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	before := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		addr, err := s.vote(ctx)
		if err != nil {
			continue // without most of the sentinels nobody becomes master
		}
		if addr != before {
			switched()
		}
		before = addr
	}
}

const (
	watchEvery = 300 * time.Millisecond
	// switchLag is when every node has turned to a new master: a question
	// that was in progress, the next one, and the batch in flight then.
	switchLag = watchEvery + 3*ioTimeout
)

func (s *sentinels) close() error {
	var failures []error
	for _, c := range s.asked {
		failures = append(failures, c.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		failures = append(failures, s.client.Close())
	}
	return errors.Join(failures...)
}
