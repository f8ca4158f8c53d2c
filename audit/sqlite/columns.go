package sqlite

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// rowsPerInsert is how many rows one statement inserts, if there are as many: a statement costs
// more than a row.
const rowsPerInsert = 16

// columns are the columns of checks or of their violations: both are fields of a check, in their
// order (chain.CheckFields). Numbers are stored as integers, amounts as texts, and words where
// PostgreSQL has letters.
type columns struct {
	fields []chain.Field
	forms  []form
	words  []map[byte]string // of letters; nil of other fields
}

var (
	checkColumns     = columnsOf(chain.CheckFields())
	violationColumns = columnsOf(chain.ViolationFields())
)

func columnsOf(fields []chain.Field) columns {
	c := columns{fields: fields, forms: formsOf(fields), words: make([]map[byte]string, len(fields))}
	for i, f := range fields {
		if f.Kind != chain.Letter {
			continue
		}
		c.words[i] = make(map[byte]string)
		for word, letter := range lettersOf(f.Name) {
			c.words[i][letter] = word
		}
	}
	return c
}

// String returns the columns as a query lists them.
func (c columns) String() string {
	names := make([]string, len(c.fields))
	for i, f := range c.fields {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}

// values returns the stored form of encoded fields. Absent fields are null.
func (c columns) values(fields [][]byte) []any {
	values := make([]any, len(c.fields))
	for i, field := range fields {
		if field == nil {
			continue
		}
		switch c.fields[i].Kind {
		case chain.UUID, chain.Bytes:
			values[i] = field
		case chain.Int16:
			values[i] = int64(int16(binary.BigEndian.Uint16(field)))
		case chain.Int32:
			values[i] = int64(int32(binary.BigEndian.Uint32(field)))
		case chain.Int64:
			values[i] = int64(binary.BigEndian.Uint64(field))
		case chain.Letter:
			values[i] = c.words[i][field[0]]
		case chain.Text, chain.Amount, chain.JSON:
			values[i] = string(field)
		case chain.Bool:
			values[i] = int64(field[0])
		case chain.Instant:
			at, _ := chain.Time(field)
			values[i] = at.UnixMilli()
		}
	}
	return values
}

// scan returns the stored values of a row.
func (c columns) scan(row scanner) ([]any, error) {
	values, into := make([]any, len(c.fields)), make([]any, len(c.fields))
	for i := range values {
		into[i] = &values[i]
	}
	return values, row.Scan(into...)
}

const listedViolationColumns = `id, agent_id, policy_id, policy_version, action_type, amount, currency,
	counterparty, decision, rule_id, rule_description, confidence, latency_ms`

func insertInto(table, columns string, rows int) string {
	marks := "(?" + strings.Repeat(",?", strings.Count(columns, ",")) + ")"
	return "INSERT INTO " + table + " (" + columns + ") VALUES " + marks + strings.Repeat(","+marks, rows-1)
}

// rowsOf returns the rows to insert for checks and for their violations. It refuses what PostgreSQL
// refuses, so that both stores accept the same values: text is UTF-8 without U+0000.
func rowsOf(checks []*spend.Check) (rows, violations [][]any, err error) {
	for _, c := range checks {
		fields, err := chain.ParseCheckRow(nil, chain.AppendCheck(nil, c, c.Format()))
		if err != nil {
			return nil, nil, err
		}
		row := checkColumns.values(fields)
		if err := storable(c.ID, row...); err != nil {
			return nil, nil, err
		}
		rows = append(rows, row)
		if copied, is := chain.ViolationOf(nil, fields); is {
			if fields, err = chain.ParseRow(nil, copied); err != nil {
				return nil, nil, err
			}
			violations = append(violations, violationColumns.values(fields))
		}
	}
	return rows, violations, nil
}

func hashOrNull(h spend.Hash) any {
	if h.IsZero() {
		return nil
	}
	return h[:]
}

// outcomeText refuses text of an outcome as rowsOf does.
func outcomeText(o *spend.Outcome) error {
	return storable(o.CheckID, o.Reference, o.Note, o.KeyID, o.Principal, o.RequestID)
}

func storable(check spend.ID, values ...any) error {
	for _, value := range values {
		if s, is := value.(string); is && (strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s)) {
			return &audit.RowError{Err: fmt.Errorf("check %s: text is not UTF-8 without U+0000", check.Text(spend.PrefixCheck))}
		}
	}
	return nil
}

// scanCheck reads checkColumns and decodes the fields in the form in which they are hashed.
func scanCheck(row scanner) (*spend.Check, error) {
	values, err := checkColumns.scan(row)
	if err != nil {
		return nil, err
	}
	c, err := chain.ParseCheck(encodeRow(checkColumns.forms, values))
	if err == nil {
		err = c.ParseMetadata()
	}
	if err == nil && values[chain.FieldFormat] != int64(c.Format()) {
		err = fmt.Errorf("its format is %d, and it has the columns of format %d", values[chain.FieldFormat], c.Format())
	}
	if err != nil {
		return nil, fmt.Errorf("check %x: %w", values[chain.FieldID], err)
	}
	return c, nil
}

// scanViolation reads listedViolationColumns.
func scanViolation(row scanner) (v audit.Violation, err error) {
	err = row.Scan(blob(v.ID[:]), &v.AgentID, &v.PolicyID, &v.PolicyVersion, known(&v.ActionType, spend.ParseActionType),
		sqlstore.Parse(&v.Amount, spend.ParseAmount),
		&v.Currency, &v.Counterparty, known(&v.Effect, spend.ParseEffect), &v.RuleID, &v.RuleDescription,
		known(&v.Confidence, spend.ParseConfidence), &v.LatencyMS)
	return v, err
}
