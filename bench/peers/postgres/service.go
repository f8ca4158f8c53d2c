package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valyala/fasthttp"

	"spendgate/bench/load"
)

// service answers checks.
type service struct {
	pool     *pgxpool.Pool
	policies map[string]*policy
}

//go:embed schema.sql
var schemaSQL string

// openService connects to a database and makes its tables there, in a schema
// of their own.
func openService(ctx context.Context, url, schema string, connections int) (*service, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("cannot read the database's URL: %w", err)
	}
	config.MaxConns = int32(connections) //nolint:gosec // a command line's number
	config.ConnConfig.RuntimeParams["search_path"] = schema
	config.ConnConfig.RuntimeParams["application_name"] = schema
	s := &service{}
	if s.policies, err = policies(load.DefaultWorkload(0).Policies); err != nil {
		return nil, err
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("cannot connect to PostgreSQL: %w", err)
	}
	if _, err := s.pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schema+";"+schemaSQL); err != nil {
		s.pool.Close()
		return nil, fmt.Errorf("cannot make the tables: %w", err)
	}
	return s, nil
}

// handle answers one request.
func (s *service) handle(r *fasthttp.RequestCtx) {
	switch string(r.Path()) {
	case "/health":
		r.SetStatusCode(fasthttp.StatusOK)
	case "/v1/checks":
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		status, body, replayed := s.check(ctx, r.PostBody())
		r.SetStatusCode(status)
		r.SetContentType("application/json")
		if replayed {
			r.Response.Header.Set("Idempotent-Replayed", "true")
		}
		r.SetBody(body)
	default:
		r.SetStatusCode(fasthttp.StatusNotFound)
	}
}

// timeout bounds a check.
const timeout = 2 * time.Second

// check decides one action and records the decision.
func (s *service) check(ctx context.Context, body []byte) (status int, response []byte, replayed bool) {
	var a action
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a); err != nil {
		return fasthttp.StatusBadRequest, failure(err), false
	}
	if !a.complete() {
		return fasthttp.StatusUnprocessableEntity, failure(errors.New("a required field is missing")), false
	}
	p := s.policies[a.PolicyID]
	if p == nil {
		return fasthttp.StatusNotFound, failure(errors.New("no such policy")), false
	}
	effect, rule := p.judge(&a, time.Now().UTC())
	var d decision
	var same bool
	err := s.pool.QueryRow(ctx, decideSQL, a.IdempotencyKey, fingerprint(&a), load.WindowMinutes, string(effect), rule, body).
		Scan(&d.id, &d.at, &d.duplicateOf, &d.effect, &d.rule, &replayed, &same)
	switch {
	case err != nil:
		return fasthttp.StatusInternalServerError, failure(err), false
	case !same:
		return fasthttp.StatusUnprocessableEntity, failure(errors.New("idempotency_key was used for another request")), false
	}
	return fasthttp.StatusOK, d.append(nil), replayed
}

const decideSQL = `SELECT (answer).id, (answer).decided_at, (answer).duplicate_of, (answer).decision, (answer).rule_id, replayed, same
FROM decide($1, $2, make_interval(mins => $3), $4, $5, $6)`

// fingerprint identifies identical actions.
func fingerprint(a *action) pgtype.UUID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %s %q", a.AgentID, a.ActionType, a.Amount, a.Counterparty))
	return pgtype.UUID{Bytes: [16]byte(sum[:16]), Valid: true}
}

// decision is what is answered, the same for every replay.
type decision struct {
	id           int64
	at           time.Time
	duplicateOf  *int64
	effect, rule string
}

func (d *decision) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, `{"check_id":"chk_%d","decision":"%s","violated_rule_id":`, d.id, d.effect)
	if d.rule == "" {
		dst = append(dst, "null"...)
	} else {
		dst = fmt.Appendf(dst, `"%s"`, d.rule)
	}
	if d.duplicateOf != nil {
		dst = fmt.Appendf(dst, `,"duplicate_of":"chk_%d"`, *d.duplicateOf)
	}
	return fmt.Appendf(dst, `,"timestamp":"%s"}`, d.at.UTC().Format("2006-01-02T15:04:05.000Z"))
}

func failure(err error) []byte {
	body, _ := json.Marshal(map[string]string{"error": err.Error()}) // strings always encode
	return body
}
