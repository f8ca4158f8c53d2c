package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// selectChecks gives absent text as empty and an unsaid type as no letter.
const selectChecks = `SELECT check_id, node, epoch, coalesce(claimed_ms, 0), coalesce(until_ms, 0), policy_version, latency_ms,
	coalesce(requested_type, ''::"char"), action_type, decision, confidence, amount::text, fingerprint, request_sha, currency,
	agent_id, policy_id, counterparty, coalesce(payment_method, ''), coalesce(merchant_or_vendor, ''), coalesce(reason_text, ''),
	coalesce(idempotency_key, ''), coalesce(metadata, ''), coalesce(reason_code, ''), coalesce(rule_id, ''),
	coalesce(rule_description, ''), coalesce(message, ''), coalesce(next_step, ''), key_id, request_id
	FROM checks WHERE check_id = ANY ($1::uuid[])`

// Checks implements audit.Trail.
func (s *Store) Checks(ctx context.Context, ids []spend.ID) ([]*spend.Check, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return collect(ctx, s, "cannot look up checks", scanCheck, selectChecks, uuids(ids))
}

func scanCheck(row pgx.CollectableRow) (*spend.Check, error) {
	c := new(spend.Check)
	a, d := &c.Action, &c.Decision
	var requested, actionType, effect, confidence byte
	var fingerprint, sha []byte
	var amount, metadata string
	err := row.Scan(uuid(&c.ID), uuid(&c.Fence.Node), uuid(&c.Fence.Epoch), &c.Pass.ClaimedMS, &c.Pass.UntilMS,
		&d.PolicyVersion, &c.LatencyMS, &requested, &actionType, &effect, &confidence, &amount, &fingerprint, &sha, &a.Currency,
		&a.AgentID, &a.PolicyID, &a.Counterparty, &a.PaymentMethod, &a.MerchantOrVendor, &a.ReasonText,
		&a.IdempotencyKey, &metadata, (*string)(&d.Reason), &d.RuleID,
		&d.RuleDescription, &d.Message, &d.NextStep, &c.KeyID, &c.RequestID)
	if err != nil {
		return nil, err
	}
	copy(c.Fingerprint[:], fingerprint)
	copy(c.RequestSHA[:], sha)
	if metadata != "" {
		var faults spend.Faults
		a.Metadata = spend.ParseMetadata(jsontext.Value(metadata), "metadata", &faults)
		err = faults.Err()
	}
	a.Type, c.ActionType = typeOf(requested), typeOf(actionType)
	var known, sure bool
	d.Effect, known = effectOf(effect)
	d.Confidence, sure = confidenceOf(confidence)
	if !known || !sure || c.ActionType == spend.Unspecified {
		err = errors.Join(err, errors.New("unknown action type, decision or confidence"))
	}
	var amountErr error
	if a.Amount, amountErr = spend.ParseAmount(amount); amountErr != nil {
		err = errors.Join(err, fmt.Errorf("amount %w", amountErr))
	}
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", c.ID.Text(spend.PrefixCheck), err)
	}
	return c, nil
}

// CheckIDsByKey implements audit.Trail.
func (s *Store) CheckIDsByKey(ctx context.Context, keyHashes []spend.Hash) (map[spend.Hash]spend.ID, error) {
	found := make(map[spend.Hash]spend.ID, len(keyHashes))
	if len(keyHashes) == 0 {
		return found, nil
	}
	_, err := collect(ctx, s, "cannot look up idempotency keys", func(row pgx.CollectableRow) (_ struct{}, err error) {
		var hash []byte
		var id spend.ID
		if err = row.Scan(&hash, uuid(&id)); err == nil {
			found[spend.Hash(hash)] = id
		}
		return struct{}{}, err
	}, "SELECT key_hash, check_id FROM idempotency_keys WHERE key_hash = ANY ($1::bytea[]) AND expires_at > clock_timestamp()",
		byteas(keyHashes))
	return found, err
}

// oldestPass is the smallest identifier that a pass in force at nowMS can
// have. A query that is given it touches the partitions of the last minutes or
// days only, whatever the trail's age. It is asked for apart: a planner that
// does not know the value prepares for every partition there is.
func (s *Store) oldestPass(ctx context.Context, nowMS int64) (oldest spend.ID, err error) {
	err = s.read(ctx, "cannot read the horizon of passes", func(ctx context.Context, db *pgx.Conn) error {
		return db.QueryRow(ctx, "SELECT first_id($1 - ms) FROM horizon", nowMS).Scan(uuid(&oldest))
	})
	return oldest, err
}

// LivePasses implements audit.Trail.
func (s *Store) LivePasses(ctx context.Context, fingerprints []spend.Hash, nowMS int64) (map[spend.Hash]audit.LivePass, error) {
	latest := make(map[spend.Hash]audit.LivePass, len(fingerprints))
	if len(fingerprints) == 0 {
		return latest, nil
	}
	oldest, err := s.oldestPass(ctx, nowMS)
	if err != nil {
		return nil, err
	}
	passes, err := collect(ctx, s, "cannot look up passes", scanPass,
		`SELECT p.* FROM unnest($1::bytea[]) AS f (fingerprint) CROSS JOIN LATERAL (
			SELECT c.fingerprint, check_id, claimed_ms, until_ms FROM checks AS c
			WHERE c.fingerprint = f.fingerprint AND claimed_ms IS NOT NULL AND until_ms > $2 AND check_id >= $3
			ORDER BY check_id DESC LIMIT 1) AS p`,
		byteas(fingerprints), nowMS, [16]byte(oldest))
	for _, p := range passes {
		latest[p.Fingerprint] = p
	}
	return latest, err
}

// PagePasses implements audit.Trail.
func (s *Store) PagePasses(ctx context.Context, before spend.ID, nowMS int64, limit int) ([]audit.LivePass, error) {
	if before.IsZero() {
		before = newest
	}
	oldest, err := s.oldestPass(ctx, nowMS)
	if err != nil {
		return nil, err
	}
	return collect(ctx, s, "cannot page through passes", scanPass,
		`SELECT fingerprint, check_id, claimed_ms, until_ms FROM checks
			WHERE claimed_ms IS NOT NULL AND until_ms > $1 AND check_id >= $2 AND check_id < $3
			ORDER BY check_id DESC LIMIT $4`,
		nowMS, [16]byte(oldest), [16]byte(before), limit)
}

func scanPass(row pgx.CollectableRow) (audit.LivePass, error) {
	var p audit.LivePass
	var fingerprint []byte
	err := row.Scan(&fingerprint, uuid(&p.CheckID), &p.ClaimedMS, &p.UntilMS)
	copy(p.Fingerprint[:], fingerprint)
	return p, err
}

// newest is above every ID: a UUIDv7 has no such version bits.
var newest = spend.ID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, s *Store, doing string, scan pgx.RowToFunc[T], query string, args ...any) (all []T, err error) {
	err = s.read(ctx, doing, func(ctx context.Context, db *pgx.Conn) error {
		rows, err := db.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	return all, err
}

// What the driver knows to be a uuid, uuid[] and bytea[].

func uuid(id *spend.ID) *[16]byte { return (*[16]byte)(id) }

func uuids(ids []spend.ID) [][16]byte {
	out := make([][16]byte, len(ids))
	for i, id := range ids {
		out[i] = id
	}
	return out
}

func byteas(hashes []spend.Hash) [][]byte {
	out := make([][]byte, len(hashes))
	for i := range hashes {
		out[i] = hashes[i][:]
	}
	return out
}
