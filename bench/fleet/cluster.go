package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
	// clusterNodeTimeout is the time after which an unresponsive server is failed over.
	clusterNodeTimeout = time.Second
)

// Cluster is a Redis Cluster of three masters with a replica each. Servers
// that are started again keep their place in it.
type Cluster struct {
	Servers []*Redis // initially with the masters first
	URL     string   // of all servers
}

// startCluster starts a cluster with its files in dir and waits until every server reports that the
// cluster works.
func startCluster(ctx context.Context, dir string) (*Cluster, error) {
	c := new(Cluster)
	if err := c.start(ctx, dir); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, dir string) error {
	password := rand.Text()
	var addrs []string
	buses := make([]int, 2*clusterMasters)
	for i := range buses {
		bus, err := freePort()
		if err != nil {
			return err
		}
		buses[i] = bus
		name := fmt.Sprintf("redis%d", i)
		r, err := newRedis(name, filepath.Join(dir, name), endpoint{Password: password}, []string{
			"masterauth " + password, "repl-diskless-sync-delay 0",
			"cluster-enabled yes", "cluster-config-file nodes.conf", fmt.Sprintf("cluster-port %d", bus),
			fmt.Sprintf("cluster-node-timeout %d", clusterNodeTimeout.Milliseconds()), "cluster-replica-validity-factor 0",
		})
		if err != nil {
			return err
		}
		c.Servers = append(c.Servers, r)
		addrs = append(addrs, r.Addr)
	}
	c.URL = fmt.Sprintf("redis://default:%s@%s", password, strings.Join(addrs, ","))
	if err := startAll(ctx, c.Servers); err != nil {
		return err
	}
	if err := c.assemble(ctx, buses); err != nil {
		return err
	}
	return c.Await(ctx)
}

// startAll starts servers at the same time.
func startAll(ctx context.Context, servers []*Redis) error {
	failures := make([]error, len(servers))
	var starting sync.WaitGroup
	for i, r := range servers {
		starting.Go(func() {
			if failures[i] = r.Start(ctx); failures[i] != nil {
				failures[i] = fmt.Errorf("%w\n%s", failures[i], r.Log())
			}
		})
	}
	starting.Wait()
	return errors.Join(failures...)
}

// assemble makes a cluster of single servers.
func (c *Cluster) assemble(ctx context.Context, buses []int) error {
	ids := make([]string, len(c.Servers))
	for i, r := range c.Servers {
		var err error
		if ids[i], err = r.Client.Do(ctx, "cluster", "myid").Text(); err != nil {
			return fmt.Errorf("cannot make a cluster: %w", err)
		}
		if err := r.Client.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return fmt.Errorf("cannot make a cluster: %w", err)
		}
		if i < clusterMasters {
			from, to := i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters-1
			if err := r.Client.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
				return fmt.Errorf("cannot make a cluster: %w", err)
			}
		}
		if err := c.Servers[0].Client.Do(ctx, "cluster", "meet", "127.0.0.1", r.Port, buses[i]).Err(); err != nil {
			return fmt.Errorf("cannot make a cluster: %w", err)
		}
	}
	for i, r := range c.Servers[clusterMasters:] {
		err := c.Servers[0].await(ctx, func(ctx context.Context) error { return r.Client.ClusterReplicate(ctx, ids[i]).Err() })
		if err != nil {
			return fmt.Errorf("cannot make a replica: %w", err)
		}
	}
	return nil
}

// Await waits until every server lists all the others, reports that the cluster works, and, if it
// is a replica, has its copy.
func (c *Cluster) Await(ctx context.Context) error {
	for _, r := range c.Servers {
		err := r.await(ctx, func(ctx context.Context) error {
			info, err := r.Client.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			role, err := r.Client.Info(ctx, "replication").Result()
			if err != nil {
				return err
			}
			nodes, err := r.Client.ClusterNodes(ctx).Result()
			if err != nil {
				return err
			}
			switch {
			case !strings.Contains(info, "cluster_state:ok"):
				return errors.New("the cluster does not work")
			case strings.Contains(role, "master_link_status:down"):
				return errors.New("it has no copy yet")
			case strings.Contains(nodes, "fail") || strings.Count(nodes, "connected") < len(c.Servers) || strings.Contains(nodes, "disconnected"):
				return fmt.Errorf("it does not see all:\n%s", nodes)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("the cluster is not complete: %w", err)
		}
	}
	return nil
}

// Master returns the server that owns a key now, according to the majority.
func (c *Cluster) Master(ctx context.Context, key string) (*Redis, error) {
	votes := make(map[*Redis]int)
	for _, seen := range c.Servers {
		tried, cancel := context.WithTimeout(ctx, clusterNodeTimeout/2)
		owner := c.masterSeenBy(tried, seen, key)
		cancel()
		if votes[owner]++; owner != nil && votes[owner] > len(c.Servers)/2 {
			return owner, nil
		}
	}
	return nil, fmt.Errorf("the servers do not agree on the owner of %s", key)
}

func (c *Cluster) masterSeenBy(ctx context.Context, r *Redis, key string) *Redis {
	slot, err := r.Client.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return nil
	}
	ranges, err := r.Client.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS does not list the master first
	if err != nil {
		return nil
	}
	for _, of := range ranges {
		if int(slot) >= of.Start && int(slot) <= of.End && len(of.Nodes) > 0 { // the master is the first
			return c.at(of.Nodes[0].Addr)
		}
	}
	return nil
}

func (c *Cluster) at(addr string) *Redis {
	for _, r := range c.Servers {
		if r.Addr == addr {
			return r
		}
	}
	return nil
}

// Masters returns the servers that report to be masters.
func (c *Cluster) Masters(ctx context.Context) (masters []*Redis) {
	for _, r := range c.Servers {
		info, err := r.Client.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(info, "role:master") {
			masters = append(masters, r)
		}
	}
	return masters
}

// Replica returns the replica of a master.
func (c *Cluster) Replica(ctx context.Context, master *Redis) (*Redis, error) {
	for _, r := range c.Servers {
		info, err := r.Client.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(info, "role:slave") && strings.Contains(info, fmt.Sprintf("master_port:%d\r", master.Port)) {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%s has no replica", master.name)
}

// Migrate moves the slot of a key to another master as redis-cli does, key by
// key while it is in use, and returns how many keys it moved.
func (c *Cluster) Migrate(ctx context.Context, key string, from, to *Redis) (moved int, err error) {
	slot, err := from.Client.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return 0, fmt.Errorf("cannot migrate a slot: %w", err)
	}
	fromID, errFrom := from.Client.Do(ctx, "cluster", "myid").Text()
	toID, errTo := to.Client.Do(ctx, "cluster", "myid").Text()
	errImport := to.Client.Do(ctx, "cluster", "setslot", slot, "importing", fromID).Err()
	errMigrate := from.Client.Do(ctx, "cluster", "setslot", slot, "migrating", toID).Err()
	if err := errors.Join(errFrom, errTo, errImport, errMigrate); err != nil {
		return 0, fmt.Errorf("cannot migrate a slot: %w", err)
	}
	for {
		const page = 10
		names, err := from.Client.ClusterGetKeysInSlot(ctx, int(slot), page).Result()
		if err != nil {
			return moved, fmt.Errorf("cannot migrate a slot: %w", err)
		}
		if len(names) == 0 {
			break
		}
		args := []any{"migrate", "127.0.0.1", to.Port, "", 0, 5000, "auth", from.Client.Options().Password, "keys"}
		for _, name := range names {
			args = append(args, name)
		}
		if err := from.Client.Do(ctx, args...).Err(); err != nil {
			return moved, fmt.Errorf("cannot migrate keys: %w", err)
		}
		moved += len(names)
	}
	for _, r := range []*Redis{to, from} {
		if err := r.Client.Do(ctx, "cluster", "setslot", slot, "node", toID).Err(); err != nil {
			return moved, fmt.Errorf("cannot end the migration of a slot: %w", err)
		}
	}
	return moved, nil
}

// Close ends all servers.
func (c *Cluster) Close() error {
	var failures []error
	for _, r := range c.Servers {
		failures = append(failures, r.Close())
	}
	return errors.Join(failures...)
}
