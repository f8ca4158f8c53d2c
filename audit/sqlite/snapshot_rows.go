package sqlite

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// form encodes the value of a column, from SQLite's stored form to the form that PostgreSQL sends.
type form func(value any) any

// The forms. A value of the wrong kind is encoded unchanged, and so has another hash than any
// recorded row.
func plain(value any) any { return value }

func int16Of(value any) any {
	if n, ok := value.(int64); ok {
		return binary.BigEndian.AppendUint16(nil, uint16(n))
	}
	return value
}

func int32Of(value any) any {
	if n, ok := value.(int64); ok {
		return int32(n)
	}
	return value
}

func booleanOf(value any) any {
	if n, ok := value.(int64); ok && n>>1 == 0 {
		return n == 1
	}
	return value
}

func timeOf(value any) any {
	if ms, ok := value.(int64); ok {
		return fromMilli(ms)
	}
	return value
}

// letterOf encodes words that have letters.
func letterOf(letters map[string]byte) form {
	return func(value any) any {
		word, _ := value.(string)
		if letter, ok := letters[word]; ok {
			return []byte{letter}
		}
		return value
	}
}

// words maps each of the values to its letter.
func words[T ~string](letter func(T) byte, values ...T) form {
	letters := make(map[string]byte)
	for _, v := range values {
		letters[string(v)] = letter(v)
	}
	return letterOf(letters)
}

// indexed maps the name of each value to the letter at its index.
func indexed[T ~int | ~uint8](letters string, first T, name func(T) string) map[string]byte {
	named := make(map[string]byte)
	for v := first; int(v) < len(letters); v++ {
		named[name(v)] = letters[v]
	}
	return named
}

// formsOf returns how the columns of checks, or of violations, are encoded.
func formsOf(fields []chain.Field) []form {
	forms := make([]form, len(fields))
	for i, f := range fields {
		switch f.Kind {
		case chain.Int16:
			forms[i] = int16Of
		case chain.Int32:
			forms[i] = int32Of
		case chain.Letter:
			forms[i] = letterOf(lettersOf(f.Name))
		default:
			forms[i] = plain
		}
	}
	return forms
}

// lettersOf returns the letters of a field's possible values, by the values' words.
func lettersOf(field string) map[string]byte {
	switch field {
	case "requested_type", "action_type":
		return indexed(chain.TypeLetters, spend.Unspecified+1, spend.ActionType.String)
	case "decision":
		return indexed(chain.EffectLetters, spend.Allow, spend.Effect.String)
	case "confidence":
		return indexed(chain.ConfidenceLetters, spend.Low, spend.Confidence.String)
	}
	return nil
}

// encoding describes how the rows of a table are read and encoded, each column in its form.
type encoding struct {
	table   string
	columns []string
	forms   []form
}

func newEncoding(table string, columns []string, forms ...form) encoding {
	if len(forms) != len(columns) {
		panic(fmt.Sprintf("BUG: %d columns of %s have %d forms", len(columns), table, len(forms)))
	}
	return encoding{table, columns, forms}
}

// The encodings are made when the program starts, so that a column without a form is noticed then.
var (
	checkRows     = newEncoding("checks", chain.CheckColumns(), checkColumns.forms...)
	violationRows = newEncoding("violations", chain.ViolationColumns(), violationColumns.forms...)
	outcomeRows   = newEncoding("outcomes", chain.OutcomeColumns(),
		plain, plain, plain, plain, int16Of, int16Of,
		words(chain.StatusLetter, spend.Executed, spend.Failed, spend.Voided, spend.Redeemed, spend.InDoubt),
		words(chain.ReleaseLetter, spend.ReleaseNone, spend.ReleasePending, spend.ReleaseDone),
		words(chain.ExcessLetter, spend.ExcessCounted, spend.ExcessPending, spend.Unapproved),
		plain, plain, plain, plain, plain, plain, booleanOf, plain, plain)
	policyRows = newEncoding("policies", chain.PolicyColumns(),
		plain, int32Of, plain, plain, plain, plain, timeOf, timeOf, plain, plain, plain, plain)
	draftRows   = newEncoding("drafts", chain.DraftColumns(), plain, plain, int32Of, plain, plain, plain, plain, timeOf, plain, plain)
	keyRows     = newEncoding("keys", chain.KeyColumns(), plain, plain, plain, int32Of, booleanOf, timeOf, plain, grantsOf)
	webhookRows = newEncoding("webhooks", chain.WebhookColumns(), plain, plain, plain, booleanOf, plain, timeOf, plain)
)

// encoded reads rows of a table, encoded; which is what follows its name in the query.
func (s *Snapshot) encoded(ctx context.Context, of encoding, each func([]byte) error, which string, args ...any) error {
	values, into := make([]any, len(of.columns)), make([]any, len(of.columns))
	for i := range values {
		into[i] = &values[i]
	}
	return s.stream(ctx, "table "+of.table, func(row scanner) error {
		if err := row.Scan(into...); err != nil {
			return err
		}
		return each(encodeRow(of.forms, values))
	}, "SELECT "+strings.Join(of.columns, ", ")+" FROM "+of.table+" "+which, args...)
}

// encodeRow encodes values, each in its form.
func encodeRow(forms []form, values []any) []byte {
	encoded := make([]any, len(forms))
	for i, form := range forms {
		encoded[i] = encodable(form(values[i]))
	}
	return chain.EncodeRow(encoded...)
}

// encodable returns the value, or its text if no recorded value has its type.
func encodable(value any) any {
	if f, is := value.(float64); is {
		return fmt.Sprint(f)
	}
	return value
}

// Rows implements verify.Evidence.
func (s *Snapshot) Rows(ctx context.Context, r verify.Range, each func([]byte) error) error {
	return s.encoded(ctx, checkRows, each,
		"WHERE check_id BETWEEN ? AND ? ORDER BY check_id", r.Low[:], r.High[:])
}

// Violations implements verify.Evidence.
func (s *Snapshot) Violations(ctx context.Context, r verify.Range, each func([]byte) error) error {
	return s.encoded(ctx, violationRows, each,
		"WHERE id BETWEEN ? AND ? ORDER BY id", r.Low[:], r.High[:])
}

// Outcomes implements verify.Evidence.
func (s *Snapshot) Outcomes(ctx context.Context, r verify.Range, each func([]byte) error) error {
	return s.outcomes(ctx, each, "WHERE outcome_id BETWEEN ? AND ? ORDER BY outcome_id", r)
}

// Steps implements verify.Evidence.
func (s *Snapshot) Steps(ctx context.Context, r verify.Range, each func([]byte) error) error {
	return s.outcomes(ctx, each, "WHERE check_id BETWEEN ? AND ? ORDER BY check_id, step", r)
}

func (s *Snapshot) outcomes(ctx context.Context, each func([]byte) error, which string, r verify.Range) error {
	return s.encoded(ctx, outcomeRows, each, which, r.Low[:], r.High[:])
}

// IdempotencyKeys implements verify.Evidence.
func (s *Snapshot) IdempotencyKeys(ctx context.Context, each func(verify.IdempotencyKey) error) error {
	return s.stream(ctx, "the idempotency keys", func(row scanner) error {
		var k verify.IdempotencyKey
		var expires int64
		if err := row.Scan(blob(k.Hash[:]), blob(k.Check[:]), &expires); err != nil {
			return err
		}
		k.Expires = time.UnixMilli(expires)
		return each(k)
	}, "SELECT key_hash, check_id, expires_at FROM idempotency_keys ORDER BY key_hash")
}

// RedemptionKeys implements verify.Evidence.
func (s *Snapshot) RedemptionKeys(ctx context.Context, each func(verify.RedemptionKey) error) error {
	return s.stream(ctx, "the lasting keys of redemptions", func(row scanner) error {
		var k verify.RedemptionKey
		if err := row.Scan(blob(k.Hash[:]), blob(k.Check[:])); err != nil {
			return err
		}
		return each(k)
	}, "SELECT key_hash, check_id FROM redemption_keys ORDER BY key_hash")
}

// OpenRedemptions implements verify.Evidence.
func (s *Snapshot) OpenRedemptions(ctx context.Context, r verify.Range, each func(verify.OpenRedemption) error) error {
	return s.stream(ctx, "the redemptions without an outcome", func(row scanner) error {
		var o verify.OpenRedemption
		var doubted *int64
		if err := row.Scan(blob(o.Check[:]), (*millis)(&o.Redeemed), &doubted); err != nil {
			return err
		}
		if doubted != nil {
			o.Doubted = new(fromMilli(*doubted))
		}
		return each(o)
	}, "SELECT check_id, redeemed_at, doubted_at FROM redemptions_open WHERE check_id BETWEEN ? AND ? ORDER BY check_id", r.Low[:], r.High[:])
}
