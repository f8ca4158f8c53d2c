// Package pg is what the parts of package postgres share: connections, their settings, and values of columns.
package pg

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"spendgate/audit"
)

const (
	// connectTimeout bounds a connection attempt over all hosts, well within the 2 s in which a
	// check must be answered (G7).
	connectTimeout     = 1200 * time.Millisecond
	connectTimeoutHost = 300 * time.Millisecond // the least for each of many hosts
	// ownerTimeout bounds one attempt at one host when no check waits.
	ownerTimeout = 5 * time.Second
)

// PrepareConfig makes connections go to the primary, fail fast and commit durably.
func PrepareConfig(c *pgconn.Config) {
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = max(connectTimeout/time.Duration(1+len(c.Fallbacks)), connectTimeoutHost)
	}
	// The probes notice within seconds that the server's machine is gone.
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}}
	c.DialFunc = dialer.DialContext
	if c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	c.AfterConnect = prepareSession
}

// OwnerConfig returns the settings of a connection for which no check waits.
func OwnerConfig(url string) (*pgx.ConnConfig, error) {
	config, err := pgxpool.ParseConfig(url) // pgxpool also knows the pool's parameters
	if err != nil {
		return nil, fmt.Errorf("cannot read the database URL: %w", err)
	}
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, ownerTimeout)
	PrepareConfig(&config.ConnConfig.Config)
	return config.ConnConfig, nil
}

// ConnectOwner connects as the URL's role, mostly the owner of the tables, for commands that nodes
// do not run.
func ConnectOwner(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := OwnerConfig(url)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("cannot connect: %w: %w", audit.ErrUnavailable, err)
	}
	return conn, nil
}

// SQLSTATEs that more than one part tells apart.
const (
	CodeSerialization = "40001"
	CodeLockTimeout   = "55P03"
)

// OwnSchema restricts, put before a name, to_regclass to the deployment's own schema: a later
// schema of the search_path may belong to another deployment.
const OwnSchema = "quote_ident(current_schema()) || '.' || "

// VacuumWithin bounds how long a migration or a detach waits for a vacuum: autovacuum gives a table up
// to whoever has waited for it for deadlock_timeout (1 s).
const VacuumWithin = "2s"
