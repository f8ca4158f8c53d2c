package sqlite

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// rowsPerInsert rows travel in one statement when there are as many: a
// statement costs more than a row.
const rowsPerInsert = 16

// checkColumns returns the columns of a check, as a query lists them.
func checkColumns() string { return strings.Join(chain.CheckColumns(), ", ") }

const violationColumns = `id, agent_id, policy_id, policy_version, action_type, amount, currency,
	counterparty, decision, rule_id, rule_description, confidence, latency_ms`

// storedViolationColumns also has what is not answered but asked for.
const storedViolationColumns = violationColumns + ", key_id, principal, owner"

func insertInto(table, columns string, rows int) string {
	marks := "(?" + strings.Repeat(",?", strings.Count(columns, ",")) + ")"
	return "INSERT INTO " + table + " (" + columns + ") VALUES " + marks + strings.Repeat(","+marks, rows-1)
}

// appendCheck adds the values of checkColumns.
func appendCheck(args []any, c *spend.Check) []any {
	a, d := &c.Action, &c.Decision
	var claimed, until any
	if c.Pass.Passed() {
		claimed, until = c.Pass.ClaimedMS, c.Pass.UntilMS
	}
	return append(args, c.ID[:], c.Fence.Node[:], c.Fence.Epoch[:], claimed, until, d.PolicyVersion, c.LatencyMS,
		c.Format(), orNull(a.Type.String()), c.ActionType.String(), d.Effect.String(), d.Confidence.String(),
		a.Amount.String(), c.Fingerprint[:], c.RequestSHA[:], a.Currency,
		a.AgentID, a.PolicyID, a.Counterparty, orNull(a.PaymentMethod), orNull(a.MerchantOrVendor), orNull(a.ReasonText),
		orNull(a.IdempotencyKey), orNull(a.Metadata.JSON), orNull(string(d.Reason)), orNull(d.RuleID), orNull(d.RuleDescription),
		orNull(d.Message), orNull(d.NextStep), c.KeyID, c.RequestID, orNull(c.Principal), orNull(c.Owner),
		orNull(string(c.AppendTaken(nil))), idOrNull(a.ApprovalID), orNull(c.Approval.Text()), orNull(c.Namespace),
		orNull(string(c.Shadow.AppendText(nil))))
}

func idOrNull(id spend.ID) any {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

func hashOrNull(h spend.Hash) any {
	if h.IsZero() {
		return nil
	}
	return h[:]
}

// appendViolation adds the values of storedViolationColumns.
func appendViolation(args []any, c *spend.Check) []any {
	a, d := &c.Action, &c.Decision
	return append(args, c.ID[:], a.AgentID, a.PolicyID, d.PolicyVersion, c.ActionType.String(), a.Amount.String(),
		a.Currency, a.Counterparty, d.Effect.String(), d.RuleID, d.RuleDescription, d.Confidence.String(), c.LatencyMS,
		c.KeyID, orNull(c.Principal), orNull(c.Owner))
}

// checkText refuses what Postgres refuses, so that both stores keep the same
// values: text is UTF-8 without U+0000.
func checkText(c *spend.Check) error {
	a, d := &c.Action, &c.Decision
	return storable(c.ID, a.AgentID, a.PolicyID, a.Currency, a.Counterparty, a.PaymentMethod, a.MerchantOrVendor,
		a.ReasonText, a.IdempotencyKey, a.Metadata.JSON, string(d.Reason), d.RuleID, d.RuleDescription, d.Message,
		d.NextStep, c.KeyID, c.RequestID, c.Principal, c.Owner, c.Namespace)
}

// outcomeText is checkText of an outcome.
func outcomeText(o *spend.Outcome) error {
	return storable(o.CheckID, o.Reference, o.Note, o.KeyID, o.Principal, o.RequestID)
}

func storable(check spend.ID, texts ...string) error {
	for _, s := range texts {
		if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
			return &audit.RowError{Err: fmt.Errorf("check %s: text is not UTF-8 without U+0000", check.Text(spend.PrefixCheck))}
		}
	}
	return nil
}

// scanCheck reads checkColumns.
func scanCheck(row scanner) (*spend.Check, error) {
	c, format := new(spend.Check), 0
	a, d := &c.Action, &c.Decision
	err := row.Scan(blob(c.ID[:]), blob(c.Fence.Node[:]), blob(c.Fence.Epoch[:]), (*integer)(&c.Pass.ClaimedMS), (*integer)(&c.Pass.UntilMS),
		&d.PolicyVersion, &c.LatencyMS, &format,
		parsed(func(text string) error {
			a.Type, _ = spend.ParseActionType(text) // null is Unspecified
			return nil
		}), known(&c.ActionType, spend.ParseActionType), known(&d.Effect, spend.ParseEffect), known(&d.Confidence, spend.ParseConfidence),
		parse(&a.Amount, spend.ParseAmount), blob(c.Fingerprint[:]), blob(c.RequestSHA[:]), &a.Currency,
		&a.AgentID, &a.PolicyID, &a.Counterparty, (*text)(&a.PaymentMethod), (*text)(&a.MerchantOrVendor), (*text)(&a.ReasonText),
		(*text)(&a.IdempotencyKey), parse(&a.Metadata, parseMetadata), (*text)(&d.Reason), (*text)(&d.RuleID), (*text)(&d.RuleDescription),
		(*text)(&d.Message), (*text)(&d.NextStep), &c.KeyID, &c.RequestID, (*text)(&c.Principal), (*text)(&c.Owner),
		parse(&c.Charges, func(text string) ([]spend.Charge, error) { return spend.ParseTaken(a.PolicyID, text) }),
		blob(a.ApprovalID[:]), parse(&c.Approval, spend.ParseApprovalRequest), (*text)(&c.Namespace), parse(&c.Shadow, spend.ParseShadow))
	if err == nil && format != int(c.Format()) {
		err = fmt.Errorf("its format is %d, and it has the columns of format %d", format, c.Format())
	}
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", c.ID.Text(spend.PrefixCheck), err)
	}
	return c, nil
}

func parseMetadata(text string) (m spend.Metadata, err error) {
	if text == "" {
		return m, nil
	}
	var faults spend.Faults
	m = spend.ParseMetadata(text, "metadata", &faults)
	return m, faults.Err()
}

// scanViolation reads violationColumns.
func scanViolation(row scanner) (v audit.Violation, err error) {
	err = row.Scan(blob(v.ID[:]), &v.AgentID, &v.PolicyID, &v.PolicyVersion, known(&v.ActionType, spend.ParseActionType),
		parse(&v.Amount, spend.ParseAmount),
		&v.Currency, &v.Counterparty, known(&v.Effect, spend.ParseEffect), &v.RuleID, &v.RuleDescription,
		known(&v.Confidence, spend.ParseConfidence), &v.LatencyMS)
	return v, err
}
