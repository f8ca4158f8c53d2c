package checkreport

import (
	"bytes"
	"encoding/json"
	"io"

	"spendgate/audit/spend"
	"spendgate/hotpath/httpapi"
)

// document is the report as JSON. The response is unchanged to the byte; requests and rules keep
// their digits.
type document struct {
	Answer     json.RawMessage   `json:"answer"`
	Request    requestJSON       `json:"request"`
	ActionType string            `json:"action_type"`
	Classified bool              `json:"classified"` // derived from reason_text
	Rule       *ruleJSON         `json:"rule"`
	Duplicate  *string           `json:"duplicate_of"`
	Approval   *approvalJSON     `json:"approval,omitempty"`
	Redemption *redemptionJSON   `json:"redemption,omitempty"`
	Outcomes   []json.RawMessage `json:"outcomes,omitempty"` // the reports, as they were answered
	Record     recordJSON        `json:"record"`
	Chain      chainJSON         `json:"chain"`
}

type requestJSON struct {
	AgentID          string          `json:"agent_id"`
	PolicyID         string          `json:"policy_id"`
	ActionType       *string         `json:"action_type"`
	Amount           spend.Amount    `json:"amount"`
	Currency         string          `json:"currency"`
	Counterparty     string          `json:"counterparty"`
	PaymentMethod    *string         `json:"payment_method"`
	MerchantOrVendor *string         `json:"merchant_or_vendor"`
	ReasonText       *string         `json:"reason_text"`
	IdempotencyKey   *string         `json:"idempotency_key"`
	PaymentKey       string          `json:"payment_key,omitempty"`
	Metadata         json.RawMessage `json:"metadata"`
}

type ruleJSON struct {
	RuleID      string          `json:"rule_id"`
	RuleType    *string         `json:"rule_type"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type recordJSON struct {
	KeyID       string  `json:"key_id"`
	KeyName     *string `json:"key_name"`
	Principal   *string `json:"principal,omitempty"`
	Owner       *string `json:"owner,omitempty"`
	Namespace   *string `json:"namespace,omitempty"`
	RequestID   string  `json:"request_id"`
	Fingerprint string  `json:"fingerprint"`
	RequestSHA  string  `json:"request_sha256"`
	ClaimedMS   *int64  `json:"claimed_ms"` // null if the duplicate guard decided
	UntilMS     *int64  `json:"until_ms"`
	Node        string  `json:"node"`
	Epoch       string  `json:"epoch"`
	Source      string  `json:"source"`
}

type chainJSON struct {
	ID    *string `json:"id"`
	Batch *int64  `json:"batch"`
	Holds *bool   `json:"holds"` // null if it was not compared
	State string  `json:"state"`
}

// WriteJSON prints the report as JSON, in which nothing can act as a terminal's command.
func (r *Report) WriteJSON(w io.Writer) error {
	c, d := r.Check, &r.Check.Decision
	a := &c.Action
	doc := document{
		Answer: httpapi.AppendCheckResult(nil, c), ActionType: c.ActionType.String(), Classified: a.Type == spend.Unspecified,
		Request: requestJSON{
			AgentID: a.AgentID, PolicyID: a.PolicyID, ActionType: optional(a.Type.String()), Amount: a.Amount, Currency: a.Currency,
			Counterparty: a.Counterparty, PaymentMethod: optional(a.PaymentMethod), MerchantOrVendor: optional(a.MerchantOrVendor),
			ReasonText: optional(a.ReasonText), IdempotencyKey: optional(a.IdempotencyKey), Metadata: raw(a.Metadata.JSON),
		},
		Duplicate: optional(duplicateOf(d)), Approval: r.approvalDocument(),
		Record: recordJSON{
			KeyID: c.KeyID, KeyName: optional(r.KeyName), Principal: optional(c.Principal), Owner: optional(c.Owner),
			Namespace: optional(c.Namespace), RequestID: c.RequestID, Fingerprint: hexOf(c.Fingerprint), RequestSHA: hexOf(c.RequestSHA),
			Node: c.Fence.Node.Text(""), Epoch: c.Fence.Epoch.Text(""), Source: r.Source,
		},
		Chain: chainJSON{State: r.Chain.State},
	}
	course := spend.CourseOf(r.Outcomes)
	doc.Redemption = redemptionDocument(&course)
	for _, o := range course.Reports {
		doc.Outcomes = append(doc.Outcomes, httpapi.AppendOutcome(nil, o))
	}
	if c.Pass.Passed() {
		doc.Record.ClaimedMS, doc.Record.UntilMS = &c.Pass.ClaimedMS, &c.Pass.UntilMS
	}
	if r.Chain.Compared {
		doc.Chain.Holds = &r.Chain.Holds
	}
	if r.Chain.Seq > 0 {
		doc.Chain.ID, doc.Chain.Batch = optional(r.Chain.ID.Text("")), &r.Chain.Seq
	}
	if d.Effect != spend.Allow {
		fired := r.fired()
		doc.Rule = &ruleJSON{RuleID: d.RuleID, RuleType: optional(fired.ruleType), Description: d.RuleDescription, Parameters: raw(fired.text)}
	}
	if c.Payment != nil {
		doc.Request.PaymentKey = c.Payment.Key
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(&doc); err != nil {
		return err
	}
	_, err := w.Write(spend.AppendPrintableJSON(nil, out.Bytes()))
	return err
}

type redemptionJSON struct {
	RedemptionID string     `json:"redemption_id"`
	RedeemedAt   string     `json:"redeemed_at"`
	Principal    string     `json:"principal"`
	KeyID        string     `json:"key_id"`
	InDoubt      *doubtJSON `json:"in_doubt"`
	ExecutionID  string     `json:"execution_id,omitempty"`
	TakenOver    *takenJSON `json:"taken_over,omitempty"`
}

// takenJSON is the last take-over.
type takenJSON struct {
	RedemptionID string `json:"redemption_id"`
	At           string `json:"at"`
	Principal    string `json:"principal"`
	KeyID        string `json:"key_id"`
}

type doubtJSON struct {
	At        string  `json:"at"`
	Principal *string `json:"principal"` // null: the service itself
	KeyID     *string `json:"key_id"`
	Note      *string `json:"note"`
}

// redemptionDocument returns nil if the check was not redeemed.
func redemptionDocument(c *spend.Course) *redemptionJSON {
	o := c.Redeemed
	if o == nil {
		return nil
	}
	doc := &redemptionJSON{
		RedemptionID: o.ID.Text(spend.PrefixRedemption), RedeemedAt: spend.TimeText(o.ID.Time()), Principal: o.Reporter(), KeyID: o.KeyID,
		ExecutionID: o.Payment.ExecutionID,
	}
	if t := c.Taken; t != nil {
		doc.TakenOver = &takenJSON{t.ID.Text(spend.PrefixRedemption), spend.TimeText(t.ID.Time()), t.Reporter(), t.KeyID}
	}
	if d := c.Doubt; d != nil {
		doc.InDoubt = &doubtJSON{At: spend.TimeText(d.ID.Time()), Note: optional(d.Note)}
		if d.KeyID != spend.SystemKey {
			doc.InDoubt.Principal, doc.InDoubt.KeyID = optional(d.Reporter()), &d.KeyID
		}
	}
	return doc
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// raw returns a stored JSON text, or a JSON string of it if it is no longer valid JSON.
func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	if !json.Valid([]byte(text)) {
		quoted, _ := json.Marshal(text) // a string can always be marshalled
		return quoted
	}
	return json.RawMessage(text)
}
