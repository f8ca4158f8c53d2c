package fleet

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Postgres is a PostgreSQL server with a cluster of its own. A restart keeps
// port and data.
type Postgres struct {
	*Process
	URL string
	// Pool reads and changes the nodes' data directly.
	Pool *pgxpool.Pool

	data string
	endpoint
}

// StartPostgres makes a cluster in dir, which a user other than the caller
// must be able to reach, and starts its server with the default durability.
func StartPostgres(ctx context.Context, dir string, settings ...string) (*Postgres, error) {
	p, err := newPostgres(ctx, "postgres", dir, endpoint{Password: rand.Text()}, settings)
	if err != nil {
		return nil, err
	}
	if err := p.initCluster(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if err := p.Start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, p.Log()), p.Close())
	}
	return p, nil
}

// AdvisedSettings returns the settings that docs/operate/capacity.md advises. Memory is
// allocated when it is used.
func AdvisedSettings() []string {
	return []string{"max_connections=300", "shared_buffers=1GB", "min_wal_size=4GB", "max_wal_size=8GB"}
}

// newPostgres prepares a server, without a cluster yet.
func newPostgres(ctx context.Context, name, dir string, at endpoint, settings []string) (*Postgres, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	as, err := postgresCredential()
	if err != nil {
		return nil, err
	}
	if at, err = at.onFreePort(); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	args := []string{"-D", data}
	for _, s := range append([]string{
		"listen_addresses=127.0.0.1", fmt.Sprintf("port=%d", at.Port), "unix_socket_directories=",
		"timezone=UTC", "max_connections=200",
		// Long waits are logged with their cause: a failing test shows this log.
		"log_lock_waits=on", "log_min_duration_statement=1s",
	}, settings...) {
		args = append(args, "-c", s)
	}
	p := &Postgres{
		Process: &Process{
			name: name, path: filepath.Join(bin, "postgres"), args: args, as: as,
			logPath: filepath.Join(dir, "postgres.log"),
		},
		URL:  fmt.Sprintf("postgres://postgres:%s@%s/postgres?sslmode=disable", at.Password, loopback(at.Port)),
		data: data, endpoint: at,
	}
	if p.Pool, err = pgxpool.New(ctx, p.URL); err != nil {
		return nil, fmt.Errorf("cannot make a connection pool: %w", err)
	}
	return p, nil
}

// Tool returns the path of one of PostgreSQL's programs.
func (p *Postgres) Tool(name string) string { return filepath.Join(filepath.Dir(p.path), name) }

// initCluster makes the cluster in the server's folder.
func (p *Postgres) initCluster(ctx context.Context) error {
	dir := filepath.Dir(p.data)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make a cluster: %w", err)
	}
	passwords := filepath.Join(dir, "password")
	if err := os.WriteFile(passwords, []byte(p.Password+"\n"), 0o600); err != nil {
		return fmt.Errorf("cannot make a cluster: %w", err)
	}
	if p.as != nil {
		for _, path := range []string{dir, passwords} {
			if err := os.Chown(path, int(p.as.Uid), int(p.as.Gid)); err != nil {
				return fmt.Errorf("cannot make a cluster: %w", err)
			}
		}
	}
	// --no-sync concerns only initdb's own files. With SCRAM, even with a plain password, most of
	// the cost of a connection is the 4,096 hashes on one of its two sides.
	cmd := exec.CommandContext(ctx, p.Tool("initdb"), "--pgdata="+p.data, "--no-sync", "--encoding=UTF8", "--locale=C",
		"--username=postgres", "--auth=md5", "--pwfile="+passwords)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot make a cluster: %w\n%s", err, bytes.TrimSpace(output))
	}
	// Passwords are sent as they are: what a client says on one connection can be said again on another.
	rules := filepath.Join(p.data, "pg_hba.conf")
	text, err := os.ReadFile(rules)
	if err != nil {
		return fmt.Errorf("cannot make a cluster: %w", err)
	}
	text = bytes.ReplaceAll(text, []byte("md5"), []byte("password"))
	if err := os.WriteFile(rules, text, 0o600); err != nil {
		return fmt.Errorf("cannot make a cluster: %w", err)
	}
	return nil
}

// Start starts the server, again after its end, and waits until it has
// recovered and takes queries.
func (p *Postgres) Start(ctx context.Context) error {
	if err := p.Launch(); err != nil {
		return err
	}
	return p.await(ctx, p.Pool.Ping)
}

// Shutdown ends the server as an operator would, once its clients are gone.
func (p *Postgres) Shutdown() error {
	p.Pool.Reset() // the pool's connections are clients, too
	return p.End()
}

// Restart ends the server, breaking its clients' connections off, and starts it again.
func (p *Postgres) Restart(ctx context.Context) error {
	p.Pool.Reset()
	if _, err := p.endBy(syscall.SIGINT); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Keep copies the data of a stopped server; PutBack restores them.
func (p *Postgres) Keep(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, "cp", "-a", p.data, p.data+".kept").CombinedOutput(); err != nil {
		return fmt.Errorf("cannot copy a cluster: %w: %s", err, out)
	}
	return nil
}

// PutBack replaces the data of a stopped server by the copy of Keep.
func (p *Postgres) PutBack() error {
	err := os.RemoveAll(p.data)
	if err == nil {
		err = os.Rename(p.data+".kept", p.data)
	}
	if err != nil {
		return fmt.Errorf("cannot put a cluster back: %w", err)
	}
	return nil
}

// Close ends the server at once, in a way that leaves no shared memory behind.
func (p *Postgres) Close() error {
	if p.Running() {
		_ = p.Continue() // a stopped process (SIGSTOP) does not see the signal
	}
	_, err := p.endBy(syscall.SIGQUIT)
	p.Pool.Close() // last: it would wait for a stopped server
	return err
}

// Row is a recorded check, as the trail has it; Rows selects the fields in this
// order.
type Row struct {
	CheckID       string // as the API writes it
	Passed        bool   // the duplicate guard let it pass
	PolicyID      string
	PolicyVersion int
	Decision      string
	LatencyMS     int64
	ActionType    string
	Amount        string
	Currency      string
	AgentID       string
	Counterparty  string
	Key           string // idempotency key; "" without one
	ReasonCode    *string
	RuleID        *string
	Message       *string
	NextStep      *string
	Fingerprint   string // hex
	Violation     bool   // the check has a violation
}

// Rows returns the recorded checks that satisfy a condition on the table checks
// ("true" for all), oldest first.
func (p *Postgres) Rows(ctx context.Context, condition string, args ...any) ([]Row, error) {
	rows, err := p.Pool.Query(ctx, `SELECT 'chk_' || replace(check_id::text, '-', ''), claimed_ms IS NOT NULL, policy_id, policy_version,
		'{"a": "allow", "b": "block", "e": "escalate"}'::jsonb->>decision::text, latency_ms,
		'{"r": "refund", "c": "credit", "d": "discount", "s": "spend"}'::jsonb->>action_type::text, amount::text, currency, agent_id,
		counterparty, coalesce(idempotency_key, ''), reason_code, rule_id, message, next_step, encode(fingerprint, 'hex'),
		EXISTS (SELECT FROM violations AS v WHERE v.id = check_id) FROM checks WHERE `+condition+` ORDER BY check_id`, args...)
	if err != nil {
		return nil, fmt.Errorf("cannot read the trail: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Row])
	if err != nil {
		return nil, fmt.Errorf("cannot read the trail: %w", err)
	}
	return all, nil
}
