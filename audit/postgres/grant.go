package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/postgres/internal/pg"
)

// psqlCommand matches a line that is a command of psql itself.
var psqlCommand = regexp.MustCompile(`(?m)^\\.*$`)

// Grant runs a script written for psql, whose variables are service and schema,
// in the first schema of the URL's search_path. The URL is the owner's.
func Grant(ctx context.Context, url, script, service string) error {
	conn, err := pg.ConnectOwner(ctx, url)
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

// granted matches a statement of a script for Grant that grants something to the service.
var granted = regexp.MustCompile(`(?s)\bGRANT ([^;]+?) ON ([^;]+?) TO :"service";`)

// Allowed fails if the URL's role lacks a right that a script for Grant grants to the service, and
// names it. It skips objects that the schema lacks, and changes nothing.
func Allowed(ctx context.Context, url, script string) error {
	conn, err := pg.ConnectOwner(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it only read
	var verbs, columns, objects []string
	for _, statement := range granted.FindAllStringSubmatch(script, -1) {
		kind, names, of := strings.Cut(statement[2], " ")
		if kind == "SCHEMA" {
			continue // the schema lacks the object
		}
		if !of || kind != "FUNCTION" {
			names = statement[2]
		}
		for _, right := range listed(statement[1]) {
			verb, inner, _ := strings.Cut(strings.TrimSuffix(right, ")"), " (")
			for _, column := range listed(inner) { // a right without columns is on the whole object
				for _, name := range listed(names) {
					verbs, columns, objects = append(verbs, verb), append(columns, column), append(objects, name)
				}
			}
		}
	}
	var lacks []string
	var role string
	err = conn.QueryRow(ctx, `SELECT current_user, coalesce(array_agg(verb || ' ' || name ORDER BY number), '{}')
		FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS wanted (verb, of_column, name, number)
		WHERE NOT CASE
			WHEN current_schema() IS NULL THEN false
			WHEN verb = 'EXECUTE' THEN has_function_privilege(to_regproc(`+pg.OwnSchema+`name)::oid, verb)
			WHEN of_column > '' THEN has_column_privilege(to_regclass(`+pg.OwnSchema+`name), of_column, verb)
			ELSE has_table_privilege(to_regclass(`+pg.OwnSchema+`name), verb)
		END`, verbs, columns, objects).Scan(&role, &lacks)
	if err != nil {
		return fmt.Errorf("cannot read the rights of the role: %w", err)
	}
	if len(lacks) == 0 {
		return nil
	}
	const most = 3
	more := ""
	if len(lacks) > most {
		more = fmt.Sprintf(" and %d more", len(lacks)-most)
	}
	return fmt.Errorf("the role %s may not %s%s: run `spendgate migrate --service %[1]q` with the role that owns the schema",
		role, strings.Join(lacks[:min(most, len(lacks))], ", "), more)
}

// listed splits a list at commas outside parentheses.
func listed(text string) (parts []string) {
	depth, from := 0, 0
	for i, c := range text + "," {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.Join(strings.Fields(text[from:i]), " "))
				from = i + 1
			}
		}
	}
	return parts
}
