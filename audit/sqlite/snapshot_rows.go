package sqlite

import (
	"context"
	"encoding/binary"
	"fmt"

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

// lettersBy maps each of the values to its letter.
func lettersBy[T ~string](letter func(T) byte, values ...T) map[string]byte {
	letters := make(map[string]byte)
	for _, v := range values {
		letters[string(v)] = letter(v)
	}
	return letters
}

// indexed maps the name of each value to the letter at its index.
func indexed[T ~int | ~uint8](letters string, first T, name func(T) string) map[string]byte {
	named := make(map[string]byte)
	for v := first; int(v) < len(letters); v++ {
		named[name(v)] = letters[v]
	}
	return named
}

// formsOf returns how columns are encoded.
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
		case chain.Bool:
			forms[i] = booleanOf
		case chain.Instant:
			forms[i] = timeOf
		default:
			forms[i] = plain
		}
		if f.Name == "grants" {
			forms[i] = grantsOf
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
	case "status":
		return lettersBy(chain.StatusLetter, spend.Executed, spend.Failed, spend.Voided, spend.Redeemed, spend.InDoubt, spend.TakenOver)
	case "release":
		return lettersBy(chain.ReleaseLetter, spend.ReleaseNone, spend.ReleasePending, spend.ReleaseDone)
	case "excess":
		return lettersBy(chain.ExcessLetter, spend.ExcessCounted, spend.ExcessPending, spend.Unapproved)
	}
	return nil
}

// Walk implements verify.Evidence.
func (s *Snapshot) Walk(ctx context.Context, w verify.Walk, each func([]byte) error) error {
	if w.Name == chain.KeptChecks().Name {
		return nil // no day is archived
	}
	of := columnsOf(w.Fields)
	query, args := "SELECT "+of.String()+" FROM "+w.Name, []any(nil)
	switch {
	case w.Text != "":
		query += " WHERE " + w.By + " = ?"
		args = []any{w.Text}
	case w.By != "":
		query += " WHERE " + w.By + " BETWEEN ? AND ?"
		args = []any{w.Range.Low[:], w.Range.High[:]}
	}
	return s.stream(ctx, "table "+w.Name, func(row scanner) error {
		values, err := of.scan(row)
		if err != nil {
			return err
		}
		return each(encodeRow(of.forms, values))
	}, query+" ORDER BY "+w.Order, args...)
}

// Rows implements verify.Evidence.
func (s *Snapshot) Rows(ctx context.Context, r verify.Range, each func([]byte) error) error {
	return s.Walk(ctx, verify.Checks(r), each)
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
