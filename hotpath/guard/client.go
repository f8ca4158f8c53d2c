package guard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"spendgate/hotpath/pipeline/resp"
)

// How long Redis may take. A batch that must connect first still ends in time
// for its checks to be refused within 2 s (G7).
const (
	dialTimeout = 300 * time.Millisecond
	ioTimeout   = 500 * time.Millisecond
	// connectTimeout is for all that makes a connection: to find the server,
	// to dial, and to look at it.
	connectTimeout = 800 * time.Millisecond
	// lookAgain is how long a connection may be idle before its server is looked
	// at again: less than it takes to fail over and back (F48).
	lookAgain = time.Second
)

// errForeignServer: the marker on a newly connected server was written on
// another one, so this is a promoted replica or a restart from an old copy and
// its windows may lack the last claims (F4).
var errForeignServer = errors.New("redis server is not the one its windows were built on")

// connections are the two ways to one Redis deployment.
type connections struct {
	prefix string // of every name
	hot    link   // claims; refuses servers whose windows may be old
	// master gives a client of the server that has the windows, as far as is
	// known: for epochs and generations, and to connect hot to. It follows no
	// redirections, so that all that is asked of it is asked of one server.
	master func(context.Context) (*redis.Client, error)
	// reload finds out anew which server that is; master may be asked meanwhile.
	reload func(context.Context)
	closed func() error
	// settleIn is how long after the beginning of an epoch another node may
	// still read from the server of the one before.
	settleIn time.Duration
	// embedded is set for a Redis inside this process, which has no INFO and
	// whose data lives exactly as long as the process.
	embedded bool
	foreign  atomic.Bool // hot met a foreign server since the last renewal
}

// key is a name as Redis has it.
func (c *connections) key(name string) string { return c.prefix + name }

func connect(o redis.UniversalOptions, prefix string, embedded bool) *connections {
	c := &connections{prefix: prefix, embedded: embedded, reload: func(context.Context) {}}
	o.MaxRetries = -1 // a command whose answer was lost must not be sent twice
	o.DialerRetries = 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = dialTimeout, ioTimeout, ioTimeout
	o.PoolTimeout = ioTimeout
	o.PoolSize = 4
	o.PipelinePoolSize = -1
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch {
	case o.MasterName != "":
		s := newSentinels(o)
		c.master, c.settleIn = s.master, switchSettled
		watching, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.watch(watching, func() { c.hot.suspect.Store(true) })
		}()
		c.closed = func() error {
			stop()
			<-done
			return s.close()
		}
	case o.IsClusterMode || len(o.Addrs) > 1:
		// All names lie in one slot.
		cluster := redis.NewClusterClient(o.Cluster())
		c.master = func(ctx context.Context) (*redis.Client, error) { return cluster.MasterForKey(ctx, c.key(markerKey)) }
		c.reload = cluster.ReloadState
		c.closed = cluster.Close
	default:
		client := redis.NewClient(o.Simple())
		c.master = func(context.Context) (*redis.Client, error) { return client, nil }
		c.closed = client.Close
	}
	if !embedded {
		c.hot.keep = lookAgain
	}
	server := serverOf(o)
	c.hot.connect = func(ctx context.Context) (*resp.Conn, error) { return c.connectHot(ctx, server) }
	return c
}

// serverOf is how a server of the deployment is logged in to, but for its address.
func serverOf(o redis.UniversalOptions) resp.Server {
	return resp.Server{
		Dial: o.Dialer, TLS: o.TLSConfig, Username: o.Username, Password: o.Password, DB: o.DB, Name: "spendgate",
	}
}

// connectHot makes the connection of the claims, to a server that was looked at.
func (c *connections) connectHot(ctx context.Context, server resp.Server) (*resp.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	master, err := c.master(ctx)
	if err != nil {
		return nil, err
	}
	server.Addr = master.Options().Addr
	conn, err := resp.Dial(ctx, server, dialTimeout)
	if err != nil {
		return nil, err
	}
	if !c.embedded {
		if err := c.vet(ctx, conn); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// onMaster asks the server that has the windows. After a failure another one
// may have them.
func (c *connections) onMaster(ctx context.Context, ask func(server *redis.Client) error) error {
	server, err := c.master(ctx)
	if err == nil {
		err = ask(server)
	}
	if err != nil {
		c.reload(ctx)
	}
	return err
}

// distrust follows a batch that failed or found other windows than it knew:
// another server may have them now, and one that answers, but has them no
// more, would answer so for ever.
func (c *connections) distrust(ctx context.Context) {
	c.hot.drop()
	c.reload(ctx)
}

func (c *connections) close() error {
	c.hot.drop()
	return c.closed()
}

// vet looks at a server before its first claim: its version and eviction
// policy (F18), and whether its windows were built on it (F4).
func (c *connections) vet(ctx context.Context, conn *resp.Conn) error {
	p := resp.Pipeline{Prefix: c.prefix}
	info, at := p.Command("INFO"), queueStart(&p, markerKey, maxMarker)
	deadline, _ := ctx.Deadline()
	if err := conn.Run(&p, deadline); err != nil {
		return err
	}
	text, err := p.Reply(info).Text()
	if err != nil {
		return fmt.Errorf("cannot read the server's INFO: %w", err)
	}
	told := string(text)
	if err := suitable(told); err != nil {
		return err
	}
	if infoField(told, "role") == "slave" {
		return errors.New("redis is a replica")
	}
	if text, err = p.Reply(at).Text(); err != nil && !mistyped(err) {
		return fmt.Errorf("cannot read the marker: %w", err) // MOVED: not the owner of the windows
	}
	if m, _ := parseMarker(string(text)); len(text) > 0 && m.server != serverIn(told) {
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

// name is that of the server and its data, as markers have it.
func (c *connections) name(ctx context.Context, server *redis.Client) (string, error) {
	if c.embedded {
		return "embedded", nil
	}
	info, err := server.Info(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("cannot read the server's INFO: %w", err)
	}
	return serverIn(info), suitable(info)
}

// serverIn names the process and its history: one that was a replica meanwhile
// has another's claims, and since its promotion another history (F48).
func serverIn(info string) string {
	return infoField(info, "run_id") + "/" + infoField(info, "master_replid")
}

// failed reports an error that is more than "no such key".
func failed(err error) bool { return err != nil && !errors.Is(err, redis.Nil) }
