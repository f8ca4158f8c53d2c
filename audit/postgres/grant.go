package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// psqlCommand matches a line that is psql's own.
var psqlCommand = regexp.MustCompile(`(?m)^\\.*$`)

// Grant runs a script written for psql, whose variables are service and schema,
// in the first schema of the URL's search_path. The URL is the owner's.
func Grant(ctx context.Context, url, script, service string) error {
	conn, err := connectOwner(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // what it did is committed
	var schema, owner string
	if err := conn.QueryRow(ctx, "SELECT current_schema(), current_user").Scan(&schema, &owner); err != nil {
		return fmt.Errorf("cannot grant: %w", err)
	}
	if owner == service {
		return errors.New("cannot grant: the service's role is the one that owns the tables")
	}
	text := strings.NewReplacer(
		`:"schema"`, pgx.Identifier{schema}.Sanitize(), `:"service"`, pgx.Identifier{service}.Sanitize(),
	).Replace(psqlCommand.ReplaceAllString(script, ""))
	if _, err := conn.PgConn().Exec(ctx, text).ReadAll(); err != nil {
		return fmt.Errorf("cannot grant to %s: %w", service, err)
	}
	return nil
}
