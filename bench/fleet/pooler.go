package fleet

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Pooler is a PgBouncer before a PostgreSQL, which gives each transaction whatever
// connection is free.
type Pooler struct {
	*Process
	addr string
}

// StartPooler starts a PgBouncer before the fleet's database, which ends with the fleet.
func (f *Fleet) StartPooler(ctx context.Context) (*Pooler, error) {
	path, err := findPgBouncer()
	if err != nil {
		return nil, err
	}
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("cannot start PgBouncer: %w", err)
	}
	dir := filepath.Join(f.dir, "pooler")
	p := &Pooler{addr: addr, Process: &Process{
		name: "pgbouncer", path: path, args: []string{filepath.Join(dir, "pgbouncer.ini")}, as: f.Postgres.as,
		logPath: filepath.Join(f.dir, "pgbouncer.log"),
	}}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot start PgBouncer: %w", err)
	}
	for name, text := range map[string]string{
		"pgbouncer.ini": fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\n"+
			"unix_socket_dir =\nauth_type = plain\nauth_file = %s\npool_mode = transaction\nmax_client_conn = 500\n"+
			"server_login_retry = 1\n",
			f.Postgres.Port, port, filepath.Join(dir, "users")),
		"users": fmt.Sprintf("\"postgres\" %q\n", f.Postgres.Password),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("cannot start PgBouncer: %w", err)
		}
	}
	if p.as != nil { // PgBouncer refuses root, as PostgreSQL does
		for _, path := range []string{dir, filepath.Join(dir, "pgbouncer.ini"), filepath.Join(dir, "users")} {
			if err := os.Chown(path, int(p.as.Uid), int(p.as.Gid)); err != nil {
				return nil, fmt.Errorf("cannot start PgBouncer: %w", err)
			}
		}
	}
	f.programs = append(f.programs, p.Process)
	return p, p.Start(ctx)
}

// Start starts it, again after its end, and waits until it takes connections.
func (p *Pooler) Start(ctx context.Context) error {
	if err := p.Launch(); err != nil {
		return err
	}
	return p.await(ctx, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// Before returns the URL of a database of the server as it is reached through the
// pooler, with more parameters.
func (p *Pooler) Before(database string, parameters ...string) (string, error) {
	u, err := url.Parse(database)
	if err != nil {
		return "", fmt.Errorf("cannot read the database's URL: %w", err)
	}
	u.Host = p.addr
	u.RawQuery = strings.Join(append([]string{u.RawQuery}, parameters...), "&")
	return u.String(), nil
}
