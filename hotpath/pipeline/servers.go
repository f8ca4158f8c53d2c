package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	// connectTimeout covers every step of making a connection: to find the server, to dial, and to
	// check it.
	connectTimeout = 800 * time.Millisecond
	// recheckAfter is how long a connection may be idle before another is made, whose server is checked:
	// less than it takes to fail over and back (F48). The server of one in use is checked as often,
	// because its policy of eviction may be changed while it runs (F18).
	recheckAfter = time.Second
)

// Servers knows which server of the deployment is the master. It reaches the server in two ways: by
// the connection of the batches, and by clients for all other commands.
type Servers struct {
	prefix      string                          // of every name
	first, last Value                           // as in Options
	vet         func(server, last string) error // Options.Vet
	hot         link                            // of the batches; refuses servers that are not fit
	// master returns a client of the server that is believed to be the master, whose address is also
	// used for the batches' connection. It follows no redirections, so that all commands go to one
	// server.
	master func(context.Context) (*redis.Client, error)
	// reload finds the master again; master may be called meanwhile.
	reload      func(context.Context)
	closed      func() error
	failoverLag time.Duration
	// embedded is set for a Redis inside this process, which has no INFO and
	// whose data lives exactly as long as the process.
	embedded bool
}

// Key returns a name as Redis has it.
func (s *Servers) Key(name string) string { return s.prefix + name }

// Master returns a client of the server that is taken for the master.
func (s *Servers) Master(ctx context.Context) (*redis.Client, error) { return s.master(ctx) }

// FailoverLag returns how long after a switch of master another node may still
// read from the old one.
func (s *Servers) FailoverLag() time.Duration { return s.failoverLag }

// NewServers returns the servers without a connection for batches.
func NewServers(o Options) *Servers {
	s := new(Servers)
	s.connect(o)
	return s
}

// connect sets the servers up; nothing is connected yet.
func (s *Servers) connect(options Options) {
	s.prefix, s.embedded, s.vet = options.KeyPrefix, options.Embedded, options.Vet
	s.first, s.last = options.First, options.Last
	s.reload = func(context.Context) {}
	o := options.Redis
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
		sentinels := newSentinels(o)
		s.master, s.failoverLag = sentinels.master, switchLag
		watching, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			sentinels.watch(watching, func() { s.hot.suspect.Store(true) })
		}()
		s.closed = func() error {
			stop()
			<-done
			return sentinels.close()
		}
	case o.IsClusterMode || len(o.Addrs) > 1:
		// All names lie in one slot.
		cluster := redis.NewClusterClient(o.Cluster())
		s.master = func(ctx context.Context) (*redis.Client, error) { return cluster.MasterForKey(ctx, s.Key(s.last.Name)) }
		s.reload = cluster.ReloadState
		s.closed = cluster.Close
	default:
		client := redis.NewClient(o.Simple())
		s.master = func(context.Context) (*redis.Client, error) { return client, nil }
		s.closed = client.Close
	}
	if !s.embedded {
		s.hot.keep, s.hot.check = recheckAfter, s.check
	}
	server := serverOf(o)
	s.hot.connect = func(ctx context.Context) (*resp.Conn, error) { return s.connectHot(ctx, server) }
}

// serverOf returns how to log in to a server of the deployment, without its
// address.
func serverOf(o redis.UniversalOptions) resp.Server {
	return resp.Server{
		Dial: o.Dialer, TLS: o.TLSConfig, Username: o.Username, Password: o.Password, DB: o.DB, Name: "spendgate",
	}
}

// connectHot makes the connection of the batches, to a server that was checked.
func (s *Servers) connectHot(ctx context.Context, server resp.Server) (*resp.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	master, err := s.master(ctx)
	if err != nil {
		return nil, err
	}
	server.Addr = master.Options().Addr
	conn, err := resp.Dial(ctx, server, dialTimeout)
	if err != nil {
		return nil, err
	}
	if !s.embedded {
		if err := s.check(ctx, conn); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// OnMaster calls do with a client of the master. After a failure another server
// may be it.
func (s *Servers) OnMaster(ctx context.Context, do func(server *redis.Client) error) error {
	server, err := s.master(ctx)
	if err == nil {
		err = do(server)
	}
	if err != nil {
		s.reload(ctx)
	}
	return err
}

// distrust is called after a batch that failed or that Options.Verify refused: another server may be
// the master now, and the old one would go on answering.
func (s *Servers) distrust(ctx context.Context) {
	s.hot.drop()
	s.reload(ctx)
}

// Disconnect closes every connection.
func (s *Servers) Disconnect() error {
	s.hot.drop()
	return s.closed()
}

// check checks a server before the first batch and from time to time: its version and eviction policy (F18), and by
// Options.Vet.
func (s *Servers) check(ctx context.Context, conn *resp.Conn) error {
	p := resp.Pipeline{Prefix: s.prefix}
	info, last := p.Command("INFO"), queueStart(&p, s.last)
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
	if text, err = p.Reply(last).Text(); err != nil && !WrongType(err) {
		return fmt.Errorf("cannot read %s: %w", s.last.Name, err) // MOVED: not the owner of the slot
	}
	return s.vet(serverIn(told), string(text))
}

// suitable returns an error if a server with this INFO is too old, or evicts.
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

// ServerName returns the name of the server and its data. It fails when the
// server is not fit for use.
func (s *Servers) ServerName(ctx context.Context, server *redis.Client) (string, error) {
	if s.embedded {
		return "embedded", nil
	}
	info, err := server.Info(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("cannot read the server's INFO: %w", err)
	}
	return serverIn(info), suitable(info)
}

// serverIn identifies the process and its history: a process that was a replica meanwhile has another
// server's claims, and since its promotion another history (F48); one that has evicted keys may lack
// claims (F18).
func serverIn(info string) string {
	name := infoField(info, "run_id") + "/" + infoField(info, "master_replid")
	if n := infoField(info, "evicted_keys"); n != "" && n != "0" {
		name += "/" + n
	}
	return name
}
