package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// startStandby starts a synchronous standby of a server, with its files in dir.
func startStandby(ctx context.Context, dir string, primary *Postgres, settings ...string) (*Postgres, error) {
	p, err := newPostgres(ctx, "standby", dir, endpoint{Password: primary.Password}, settings)
	if err != nil {
		return nil, err
	}
	if err := p.Follow(ctx, primary); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// anyOf returns a URL that connects to the server that takes writes.
func anyOf(servers ...*Postgres) string {
	hosts := make([]string, len(servers))
	for i, p := range servers {
		hosts[i] = loopback(p.Port)
	}
	return fmt.Sprintf("postgres://postgres:%s@%s/postgres?sslmode=disable&target_session_attrs=read-write", servers[0].Password,
		strings.Join(hosts, ","))
}

// Follow makes a stopped server a synchronous standby of another, with a copy of its data in place
// of its own. From then on the primary confirms no commit that the standby does not have.
func (p *Postgres) Follow(ctx context.Context, primary *Postgres) error {
	if err := os.RemoveAll(p.data); err != nil {
		return fmt.Errorf("cannot make a standby: %w", err)
	}
	dir := filepath.Dir(p.data)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make a standby: %w", err)
	}
	if p.as != nil {
		if err := os.Chown(dir, int(p.as.Uid), int(p.as.Gid)); err != nil {
			return fmt.Errorf("cannot make a standby: %w", err)
		}
	}
	copying := exec.CommandContext(ctx, p.Tool("pg_basebackup"), "--host=127.0.0.1", fmt.Sprintf("--port=%d", primary.Port),
		"--username=postgres", "--pgdata="+p.data, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync")
	copying.Dir, copying.Env = dir, append(os.Environ(), "PGPASSWORD="+p.Password)
	copying.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	if output, err := copying.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot copy the primary: %w\n%s", err, bytes.TrimSpace(output))
	}
	if err := p.Start(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, p.Log())
	}
	// After the copy, so that the standby does not wait for a standby of its own when promoted.
	for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if _, err := primary.Pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("cannot make the standby synchronous: %w", err)
		}
	}
	return p.await(ctx, func(ctx context.Context) error {
		var state string
		err := primary.Pool.QueryRow(ctx, "SELECT sync_state FROM pg_stat_replication").Scan(&state)
		if err == nil && state != "sync" {
			err = fmt.Errorf("the standby is %s", state)
		}
		return err
	})
}

// Promote makes a standby a primary and waits until it takes writes.
func (p *Postgres) Promote(ctx context.Context) error {
	var promoted bool
	if err := p.Pool.QueryRow(ctx, "SELECT pg_promote(true, 30)").Scan(&promoted); err != nil || !promoted {
		return fmt.Errorf("cannot promote a standby (promoted: %t): %w", promoted, err)
	}
	return nil
}
