package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	sentinelMaster   = "claims"
	sentinelReplicas = 2
	sentinels        = 3
	// sentinelDownAfter is the time after which an unresponsive master is failed over.
	sentinelDownAfter = time.Second
	failoverTimeout   = 5 * time.Second
)

// Sentinel is a Redis with two replicas, watched by three Sentinels.
type Sentinel struct {
	Servers  []*Redis // initially with the master first
	Watchers []*Redis
	URL      string // of the Sentinels
}

// startSentinel starts all servers with their files in dir, and waits until
// the Sentinels list the replicas and each other.
func startSentinel(ctx context.Context, dir string) (*Sentinel, error) {
	s := new(Sentinel)
	if err := s.start(ctx, dir); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Sentinel) start(ctx context.Context, dir string) error {
	password, sentinelPassword := rand.Text(), rand.Text()
	for i := range 1 + sentinelReplicas {
		lines := []string{"masterauth " + password, "repl-diskless-sync-delay 0"}
		if i > 0 {
			lines = append(lines, fmt.Sprintf("replicaof 127.0.0.1 %d", s.Servers[0].Port))
		}
		name := fmt.Sprintf("redis%d", i)
		r, err := newRedis(name, filepath.Join(dir, name), endpoint{Password: password}, lines)
		if err != nil {
			return err
		}
		s.Servers = append(s.Servers, r)
	}
	var addrs []string
	for i := range sentinels {
		name := fmt.Sprintf("sentinel%d", i)
		set := func(what string, value any) string {
			return fmt.Sprintf("sentinel %s %s %v", what, sentinelMaster, value)
		}
		r, err := newRedis(name, filepath.Join(dir, name), endpoint{Password: sentinelPassword}, []string{
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", sentinelMaster, s.Servers[0].Port),
			set("auth-pass", password), "sentinel sentinel-pass " + sentinelPassword,
			set("down-after-milliseconds", sentinelDownAfter.Milliseconds()), set("failover-timeout", failoverTimeout.Milliseconds()),
		}, "--sentinel")
		if err != nil {
			return err
		}
		s.Watchers = append(s.Watchers, r)
		addrs = append(addrs, r.Addr)
	}
	s.URL = fmt.Sprintf("redis://default:%s@%s/0?master=%s&sentinel_password=%s", password, strings.Join(addrs, ","), sentinelMaster,
		sentinelPassword)
	if err := startAll(ctx, s.Servers); err != nil {
		return err
	}
	if err := s.awaitReplicas(ctx, s.Servers[0]); err != nil {
		return err
	}
	if err := startAll(ctx, s.Watchers); err != nil {
		return err
	}
	return s.Await(ctx)
}

// awaitReplicas waits until a master has all its replicas. A Sentinel that asks earlier asks again
// only after ten seconds.
func (s *Sentinel) awaitReplicas(ctx context.Context, master *Redis) error {
	return master.await(ctx, func(ctx context.Context) error {
		info, err := master.Client.Info(ctx, "replication").Result()
		if err == nil && strings.Count(info, "state=online") < sentinelReplicas {
			err = errors.New("its replicas are not there yet")
		}
		return err
	})
}

// Await waits until the master has all its replicas and every Sentinel knows them and the other
// Sentinels.
func (s *Sentinel) Await(ctx context.Context) error {
	for _, w := range s.Watchers {
		err := w.await(ctx, func(ctx context.Context) error {
			master := redis.NewMapStringStringCmd(ctx, "sentinel", "master", sentinelMaster)
			replicas := redis.NewMapStringStringSliceCmd(ctx, "sentinel", "replicas", sentinelMaster)
			if err := errors.Join(w.Client.Process(ctx, master), w.Client.Process(ctx, replicas)); err != nil {
				return err
			}
			up := 0
			for _, r := range replicas.Val() {
				if r["flags"] == "slave" && r["master-link-status"] == "ok" {
					up++
				}
			}
			if m := master.Val(); m["flags"] != "master" || m["num-other-sentinels"] != fmt.Sprint(sentinels-1) || up != sentinelReplicas {
				return fmt.Errorf("it sees %v with %d replicas that are up", m, up)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("a sentinel does not see all: %w", err)
		}
	}
	return nil
}

// Master returns the server that most Sentinels name.
func (s *Sentinel) Master(ctx context.Context) (*Redis, error) {
	votes := make(map[string]int)
	for _, w := range s.Watchers {
		addr, err := w.Client.Do(ctx, "sentinel", "get-master-addr-by-name", sentinelMaster).StringSlice()
		if err != nil || len(addr) != 2 {
			continue
		}
		votes[addr[1]]++
	}
	for _, r := range s.Servers {
		if votes[fmt.Sprint(r.Port)] > len(s.Watchers)/2 {
			return r, nil
		}
	}
	return nil, fmt.Errorf("the sentinels do not agree on a master: %v", votes)
}

// Failover makes the Sentinels fail over.
func (s *Sentinel) Failover(ctx context.Context) error {
	if err := s.Watchers[0].Client.Do(ctx, "sentinel", "failover", sentinelMaster).Err(); err != nil {
		return fmt.Errorf("cannot fail over: %w", err)
	}
	return nil
}

// Close ends all servers.
func (s *Sentinel) Close() error {
	var failures []error
	for _, r := range append(s.Watchers, s.Servers...) {
		failures = append(failures, r.Close())
	}
	return errors.Join(failures...)
}

// Reverse makes the master a replica and a replica the master, by hand, and reconfigures the
// Sentinels. It closes no connection.
func (s *Sentinel) Reverse(ctx context.Context, master *Redis) error {
	var next *Redis
	for _, r := range s.Servers {
		if r != master {
			next = r
		}
	}
	do := func(r *Redis, args ...any) error {
		if err := r.Client.Do(ctx, args...).Err(); err != nil {
			return fmt.Errorf("%s: cannot %v: %w", r.name, args[:2], err)
		}
		return nil
	}
	for _, w := range s.Watchers {
		if err := do(w, "sentinel", "remove", sentinelMaster); err != nil {
			return err
		}
	}
	if err := do(next, "replicaof", "no", "one"); err != nil {
		return err
	}
	for _, r := range s.Servers {
		if r == next {
			continue
		}
		if err := do(r, "replicaof", "127.0.0.1", next.Port); err != nil {
			return err
		}
	}
	if err := s.awaitReplicas(ctx, next); err != nil {
		return err
	}
	for _, w := range s.Watchers {
		for _, args := range [][]any{
			{"sentinel", "monitor", sentinelMaster, "127.0.0.1", next.Port, 2},
			{"sentinel", "set", sentinelMaster, "auth-pass", master.Client.Options().Password},
			{"sentinel", "set", sentinelMaster, "down-after-milliseconds", sentinelDownAfter.Milliseconds()},
			{"sentinel", "set", sentinelMaster, "failover-timeout", failoverTimeout.Milliseconds()},
		} {
			if err := do(w, args...); err != nil {
				return err
			}
		}
	}
	return nil
}
