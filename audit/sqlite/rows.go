package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/hotpath/spend"
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
		audit.RowFormat, orNull(a.Type.String()), c.ActionType.String(), d.Effect.String(), d.Confidence.String(),
		a.Amount.String(), c.Fingerprint[:], c.RequestSHA[:], a.Currency,
		a.AgentID, a.PolicyID, a.Counterparty, orNull(a.PaymentMethod), orNull(a.MerchantOrVendor), orNull(a.ReasonText),
		orNull(a.IdempotencyKey), orNull(a.Metadata.JSON), orNull(string(d.Reason)), orNull(d.RuleID), orNull(d.RuleDescription),
		orNull(d.Message), orNull(d.NextStep), c.KeyID, c.RequestID, orNull(c.Principal), orNull(c.Owner), orNull(c.Taken()), idOrNull(a.ApprovalID), orNull(c.Approval.Text()))
}

func idOrNull(id spend.ID) any {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

// appendViolation adds the values of storedViolationColumns.
func appendViolation(args []any, c *spend.Check) []any {
	a, d := &c.Action, &c.Decision
	return append(args, c.ID[:], a.AgentID, a.PolicyID, d.PolicyVersion, c.ActionType.String(), a.Amount.String(),
		a.Currency, a.Counterparty, d.Effect.String(), d.RuleID, d.RuleDescription, d.Confidence.String(), c.LatencyMS,
		c.KeyID, orNull(c.Principal), orNull(c.Owner))
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// checkText refuses what Postgres refuses, so that both stores keep the same
// values: text is UTF-8 without U+0000.
func checkText(c *spend.Check) error {
	a, d := &c.Action, &c.Decision
	return storable(c.ID, a.AgentID, a.PolicyID, a.Currency, a.Counterparty, a.PaymentMethod, a.MerchantOrVendor,
		a.ReasonText, a.IdempotencyKey, a.Metadata.JSON, string(d.Reason), d.RuleID, d.RuleDescription, d.Message,
		d.NextStep, c.KeyID, c.RequestID, c.Principal, c.Owner)
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

// scanner is *sql.Row or *sql.Rows.
type scanner interface{ Scan(...any) error }

// scanCheck reads checkColumns.
func scanCheck(row scanner) (*spend.Check, error) {
	c := new(spend.Check)
	a, d := &c.Action, &c.Decision
	var id, node, epoch, fingerprint, sha, approvalID []byte
	var claimed, until sql.NullInt64
	var format int
	var requested, payment, vendor, reasonText, key, metadata sql.NullString
	var reason, ruleID, ruleDescription, message, nextStep, principal, owner, charges, approval sql.NullString
	var actionType, effect, confidence, amount string
	err := row.Scan(&id, &node, &epoch, &claimed, &until, &d.PolicyVersion, &c.LatencyMS, &format,
		&requested, &actionType, &effect, &confidence, &amount, &fingerprint, &sha, &a.Currency,
		&a.AgentID, &a.PolicyID, &a.Counterparty, &payment, &vendor, &reasonText,
		&key, &metadata, &reason, &ruleID, &ruleDescription, &message, &nextStep,
		&c.KeyID, &c.RequestID, &principal, &owner, &charges, &approvalID, &approval)
	if err != nil {
		return nil, err
	}
	copy(c.ID[:], id)
	copy(a.ApprovalID[:], approvalID)
	copy(c.Fence.Node[:], node)
	copy(c.Fence.Epoch[:], epoch)
	copy(c.Fingerprint[:], fingerprint)
	copy(c.RequestSHA[:], sha)
	c.Pass = spend.Pass{ClaimedMS: claimed.Int64, UntilMS: until.Int64}
	a.PaymentMethod, a.MerchantOrVendor, a.ReasonText = payment.String, vendor.String, reasonText.String
	a.IdempotencyKey = key.String
	d.Reason, d.RuleID, d.RuleDescription = spend.Reason(reason.String), ruleID.String, ruleDescription.String
	d.Message, d.NextStep = message.String, nextStep.String
	c.Principal, c.Owner = principal.String, owner.String
	if metadata.Valid {
		var faults spend.Faults
		a.Metadata = spend.ParseMetadata(jsontext.Value(metadata.String), "metadata", &faults)
		err = faults.Err()
	}
	var chargesErr, approvalErr error
	c.Charges, chargesErr = spend.ParseTaken(a.PolicyID, charges.String)
	c.Approval, approvalErr = spend.ParseApproval(approval.String)
	err = errors.Join(err, chargesErr, approvalErr)
	a.Type, _ = spend.ParseActionType(requested.String) // null is Unspecified
	var known [3]bool
	c.ActionType, known[0] = spend.ParseActionType(actionType)
	d.Effect, known[1] = spend.ParseEffect(effect)
	d.Confidence, known[2] = spend.ParseConfidence(confidence)
	if known != [3]bool{true, true, true} {
		err = errors.Join(err, errors.New("unknown action type, decision or confidence"))
	}
	var amountErr error
	if a.Amount, amountErr = spend.ParseAmount(amount); amountErr != nil {
		err = errors.Join(err, fmt.Errorf("amount %w", amountErr))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read check %s: %w", c.ID.Text(spend.PrefixCheck), err)
	}
	return c, nil
}

// scanViolation reads violationColumns.
func scanViolation(row scanner) (audit.Violation, error) {
	var v audit.Violation
	var id []byte
	var actionType, effect, confidence, amount string
	err := row.Scan(&id, &v.AgentID, &v.PolicyID, &v.PolicyVersion, &actionType, &amount, &v.Currency,
		&v.Counterparty, &effect, &v.RuleID, &v.RuleDescription, &confidence, &v.LatencyMS)
	if err != nil {
		return v, err
	}
	copy(v.ID[:], id)
	v.ActionType, _ = spend.ParseActionType(actionType)
	v.Effect, _ = spend.ParseEffect(effect)
	v.Confidence, _ = spend.ParseConfidence(confidence)
	if v.Amount, err = spend.ParseAmount(amount); err != nil {
		return v, fmt.Errorf("cannot read violation %s: amount %w", v.ID.Text(spend.PrefixViolation), err)
	}
	return v, nil
}
