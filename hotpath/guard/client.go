package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// How long Redis may take. A batch that must connect first still ends in time
// for its checks to be refused within 2 s (G7).
const (
	dialTimeout = 300 * time.Millisecond
	ioTimeout   = 500 * time.Millisecond
)

// errForeignServer: the marker on a newly connected server was written on
// another one, so this is a promoted replica or a restart from an old copy and
// its windows may lack the last claims (F4).
var errForeignServer = errors.New("redis server is not the one its windows were built on")

// connections are the two ways to one Redis deployment.
type connections struct {
	hot   link                  // claims; refuses servers whose windows may be old
	plain redis.UniversalClient // epochs and generations; any server
	// embedded is set for a Redis inside this process, which has no INFO and
	// whose data lives exactly as long as the process.
	embedded bool
	foreign  atomic.Bool // hot met a foreign server since the last renewal
}

func connect(o redis.UniversalOptions, embedded bool) *connections {
	c := &connections{embedded: embedded}
	o.MaxRetries = -1 // a command whose answer was lost must not be sent twice
	o.DialerRetries = 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = dialTimeout, ioTimeout, ioTimeout
	o.PoolTimeout = ioTimeout
	o.PoolSize = 4
	o.PipelinePoolSize = -1
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	c.plain = redis.NewUniversalClient(&o)
	if !embedded {
		o.OnConnect = c.vet
	}
	dial := redis.NewDialer(o.Simple())
	if cluster, ok := c.plain.(*redis.ClusterClient); ok {
		// All names lie in one slot: one connection to its owner, so that
		// nothing is redirected, repeated, or asked of another node's clock.
		o.IsClusterMode, o.Addrs, dial = false, o.Addrs[:1], ownerDialer(cluster, dial)
	}
	c.hot.connect = func(ctx context.Context) (net.Conn, io.Closer, error) { return taken(ctx, o, dial) }
	return c
}

// ownerDialer connects to the owner of the slot, whatever address is given.
func ownerDialer(cluster *redis.ClusterClient, dial dialer) dialer {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		owner, err := cluster.MasterForKey(ctx, markerKey)
		if err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, owner.Options().Addr)
		if err != nil {
			cluster.ReloadState(ctx)
		}
		return conn, err
	}
}

// distrust follows a batch that failed: the slot may have another owner, and a
// server that answers, but is no master any more, would answer so for ever.
func (c *connections) distrust(ctx context.Context) {
	c.hot.drop()
	if cluster, ok := c.plain.(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
}

func (c *connections) close() error {
	c.hot.drop()
	return c.plain.Close()
}

// vet looks at a server before its first claim: its version and eviction
// policy (F18), and whether its windows were built on it (F4).
func (c *connections) vet(ctx context.Context, cn *redis.Conn) error {
	info, err := cn.Info(ctx).Result()
	if err != nil {
		return fmt.Errorf("cannot read the server's INFO: %w", err)
	}
	if err := suitable(info); err != nil {
		return err
	}
	text, err := cn.Get(ctx, markerKey).Result()
	if failed(err) {
		return fmt.Errorf("cannot read the marker: %w", err) // MOVED: not the owner of the windows
	}
	if err == nil && parseMarker(text).runID != infoField(info, "run_id") {
		c.foreign.Store(true)
		return errForeignServer
	}
	return nil
}

func suitable(info string) error {
	version := infoField(info, "redis_version")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 7 {
		return fmt.Errorf("redis %s is too old: 7.0 or newer is needed", version)
	}
	if p := infoField(info, "maxmemory_policy"); p != "" && p != "noeviction" {
		return fmt.Errorf("redis evicts claims (maxmemory-policy %s): it must be noeviction", p)
	}
	return nil
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// runID names the server that owns the windows now.
func (c *connections) runID(ctx context.Context) (string, error) {
	if c.embedded {
		return "embedded", nil
	}
	client := redis.Cmdable(c.plain)
	if cluster, ok := c.plain.(*redis.ClusterClient); ok {
		owner, err := cluster.MasterForKey(ctx, markerKey)
		if err != nil {
			return "", fmt.Errorf("cannot find the owner of the windows: %w", err)
		}
		client = owner
	}
	info, err := client.Info(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("cannot read the server's INFO: %w", err)
	}
	return infoField(info, "run_id"), suitable(info)
}

// failed reports an error that is more than "no such key".
func failed(err error) bool { return err != nil && !errors.Is(err, redis.Nil) }
