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
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Postgres is a PostgreSQL server with a cluster of its own. A restart keeps
// port and data.
type Postgres struct {
	*Process
	URL string
	// Pool is for looking at the rows behind the nodes' backs.
	Pool *pgxpool.Pool

	data     string
	password string
	port     int
}

// StartPostgres makes a cluster in dir, which a user other than the caller
// must be able to reach, and starts its server with the default durability.
func StartPostgres(ctx context.Context, dir string, settings ...string) (*Postgres, error) {
	p, err := newPostgres(ctx, "postgres", dir, rand.Text(), settings)
	if err != nil {
		return nil, err
	}
	if err := initCluster(ctx, p.Tool("initdb"), dir, p.data, p.password, p.as); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if err := p.Start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, p.Log()), p.Close())
	}
	return p, nil
}

// newPostgres prepares a server on a port of its own, without a cluster yet.
func newPostgres(ctx context.Context, name, dir, password string, settings []string) (*Postgres, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	as, err := postgresUser()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	args := []string{"-D", data}
	for _, s := range append([]string{
		"listen_addresses=127.0.0.1", fmt.Sprintf("port=%d", port), "unix_socket_directories=",
		"timezone=UTC", "max_connections=200",
		// What waits long says for what: a test that fails shows this log.
		"log_lock_waits=on", "log_min_duration_statement=1s",
	}, settings...) {
		args = append(args, "-c", s)
	}
	p := &Postgres{
		Process: &Process{
			name: name, path: filepath.Join(bin, "postgres"), args: args, as: as,
			logPath: filepath.Join(dir, "postgres.log"),
		},
		URL:  fmt.Sprintf("postgres://postgres:%s@%s/postgres?sslmode=disable", password, loopback(port)),
		data: data, password: password, port: port,
	}
	if p.Pool, err = pgxpool.New(ctx, p.URL); err != nil {
		return nil, fmt.Errorf("cannot make a connection pool: %w", err)
	}
	return p, nil
}

// Tool is the path of one of PostgreSQL's programs.
func (p *Postgres) Tool(name string) string { return filepath.Join(filepath.Dir(p.path), name) }

func initCluster(ctx context.Context, initdb, dir, data, password string, as *syscall.Credential) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make a cluster: %w", err)
	}
	passwords := filepath.Join(dir, "password")
	if err := os.WriteFile(passwords, []byte(password+"\n"), 0o600); err != nil {
		return fmt.Errorf("cannot make a cluster: %w", err)
	}
	if as != nil {
		for _, path := range []string{dir, passwords} {
			if err := os.Chown(path, int(as.Uid), int(as.Gid)); err != nil {
				return fmt.Errorf("cannot make a cluster: %w", err)
			}
		}
	}
	// --no-sync is about initdb's own files only.
	cmd := exec.CommandContext(ctx, initdb, "--pgdata="+data, "--no-sync", "--encoding=UTF8", "--locale=C",
		"--username=postgres", "--auth=scram-sha-256", "--pwfile="+passwords)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot make a cluster: %w\n%s", err, bytes.TrimSpace(output))
	}
	return nil
}

// Start starts the server, again after its end, and waits until it has
// recovered and takes queries.
func (p *Postgres) Start(ctx context.Context) error {
	if err := p.start(); err != nil {
		return err
	}
	return p.await(ctx, p.Pool.Ping)
}

// Close ends the server.
func (p *Postgres) Close() error {
	err := p.Kill() // first: the pool's farewells could wait for a stopped one
	p.Pool.Close()
	return err
}

// Row is a recorded check, as the trail has it.
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
	KeyID         string
	Fingerprint   string // hex
	Violation     bool   // there is a violation of it
}

// Rows gives the recorded checks that satisfy a condition on the table checks
// ("true" for all), oldest first.
func (p *Postgres) Rows(ctx context.Context, condition string, args ...any) ([]Row, error) {
	rows, err := p.Pool.Query(ctx, `SELECT check_id::text, claimed_ms IS NOT NULL, policy_id, policy_version, decision::text, latency_ms,
		action_type::text, amount::text, currency, agent_id, counterparty, coalesce(idempotency_key, ''), reason_code, rule_id, message,
		next_step, key_id, encode(fingerprint, 'hex'), EXISTS (SELECT FROM violations AS v WHERE v.id = check_id)
		FROM checks WHERE `+condition+` ORDER BY check_id`, args...)
	if err != nil {
		return nil, fmt.Errorf("cannot read the trail: %w", err)
	}
	defer rows.Close()
	var all []Row
	for rows.Next() {
		var r Row
		var id string
		if err := rows.Scan(&id, &r.Passed, &r.PolicyID, &r.PolicyVersion, &r.Decision, &r.LatencyMS, &r.ActionType, &r.Amount,
			&r.Currency, &r.AgentID, &r.Counterparty, &r.Key, &r.ReasonCode, &r.RuleID, &r.Message, &r.NextStep, &r.KeyID,
			&r.Fingerprint, &r.Violation); err != nil {
			return nil, fmt.Errorf("cannot read the trail: %w", err)
		}
		r.CheckID = "chk_" + strings.ReplaceAll(id, "-", "")
		r.Decision = map[string]string{"a": "allow", "b": "block", "e": "escalate"}[r.Decision]
		r.ActionType = map[string]string{"r": "refund", "c": "credit", "d": "discount", "s": "spend"}[r.ActionType]
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("cannot read the trail: %w", err)
	}
	return all, nil
}

// await polls a started process until it answers.
func (p *Process) await(ctx context.Context, ask func(context.Context) error) error {
	for {
		tried, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := ask(tried)
		cancel()
		switch {
		case err == nil:
			return nil
		case !p.Running():
			return fmt.Errorf("%s ended at its start: %w", p.name, err)
		case ctx.Err() != nil:
			return fmt.Errorf("%s does not answer: %w", p.name, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
