package export

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// row is a check and everything recorded about it, up to the heads.
type row struct {
	check   *spend.Check
	hash    spend.Hash     // of the stored row
	place   verify.Place   // of the batch that lists the check; zero if no batch does
	course  spend.Course   // what became of the check
	rulings []audit.Change // about the approval that the check asks for or uses
	usedBy  spend.ID       // of the approval that the check asks for
}

// cell is one value: a text, a number, or null.
type cell struct {
	text   string
	kind   kind
	absent bool
}

type kind uint8

const (
	text    kind = iota
	numeric      // a decimal or an integer, digit by digit
	object       // a JSON value
)

// column is a member of a line; columns are in the order of the file.
type column[T any] struct {
	name  string
	value func(*T) cell
}

func textual[T any](name string, value func(*T) string) column[T] {
	return column[T]{name, func(r *T) cell {
		s := value(r)
		return cell{text: s, absent: s == ""}
	}}
}

func number[T any](name string, value func(*T) string) column[T] {
	return column[T]{name, func(r *T) cell {
		s := value(r)
		return cell{text: s, kind: numeric, absent: s == ""}
	}}
}

func list[T any](name string, value func(*T) any) column[T] {
	return column[T]{name, func(r *T) cell {
		s := jsonText(value(r))
		return cell{text: s, kind: object, absent: s == "null"}
	}}
}

// told returns the text of something; empty without it.
func told[T any](of *T, text func(*T) string) string {
	if of == nil {
		return ""
	}
	return text(of)
}

// jsonText returns the JSON of a value that always has one, without escaping more than it must.
func jsonText(value any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "null" // a text that is no longer JSON
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// stamp formats times like the API.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return spend.TimeText(t)
}

func idText(id spend.ID, prefix string) string {
	if id.IsZero() {
		return ""
	}
	return id.Text(prefix)
}

// Columns returns the names of a file's columns.
func Columns() []string { return namesOf(columns()) }

func namesOf[T any](columns []column[T]) (names []string) {
	for _, c := range columns {
		names = append(names, c.name)
	}
	return names
}

func columns() []column[row] {
	return append(append(checkColumns(), approvalColumns()...), append(outcomeColumns(), recordColumns()...)...)
}

func checkColumns() []column[row] {
	action := func(name string, value func(*spend.Action) string) column[row] {
		return textual(name, func(r *row) string { return value(&r.check.Action) })
	}
	decision := func(name string, value func(*spend.Decision) string) column[row] {
		return textual(name, func(r *row) string { return value(&r.check.Decision) })
	}
	payment := func(value func(*spend.CheckPayment) string) func(*row) string {
		return func(r *row) string { return told(r.check.Payment, value) }
	}
	return []column[row]{
		textual("check_id", func(r *row) string { return r.check.ID.Text(spend.PrefixCheck) }),
		textual("timestamp", func(r *row) string { return stamp(r.check.Timestamp()) }),
		action("policy_id", func(a *spend.Action) string { return a.PolicyID }),
		number("policy_version", func(r *row) string { return strconv.Itoa(r.check.Decision.PolicyVersion) }),
		action("agent_id", func(a *spend.Action) string { return a.AgentID }),
		textual("action_type", func(r *row) string { return r.check.ActionType.String() }),
		number("amount", func(r *row) string { return r.check.Action.Amount.String() }),
		action("currency", func(a *spend.Action) string { return a.Currency }),
		action("counterparty", func(a *spend.Action) string { return a.Counterparty }),
		action("payment_method", func(a *spend.Action) string { return a.PaymentMethod }),
		action("merchant_or_vendor", func(a *spend.Action) string { return a.MerchantOrVendor }),
		action("reason_text", func(a *spend.Action) string { return a.ReasonText }),
		action("idempotency_key", func(a *spend.Action) string { return a.IdempotencyKey }),
		textual("payment_key", payment(func(p *spend.CheckPayment) string { return p.Key })),
		number("payment_attempt", payment(func(p *spend.CheckPayment) string { return strconv.Itoa(p.Attempt) })),
		{"metadata", func(r *row) cell {
			s := r.check.Action.Metadata.JSON
			return cell{text: s, kind: object, absent: s == ""}
		}},
		decision("decision", func(d *spend.Decision) string { return d.Effect.String() }),
		decision("confidence", func(d *spend.Decision) string { return d.Confidence.String() }),
		decision("reason_code", func(d *spend.Decision) string { return string(d.Reason) }),
		decision("rule_id", func(d *spend.Decision) string { return d.RuleID }),
		decision("rule_description", func(d *spend.Decision) string { return d.RuleDescription }),
		list("escalated_rules", func(r *row) any { return escalated(r.check.Approval) }),
		decision("message", func(d *spend.Decision) string { return d.Message }),
		decision("next_step", func(d *spend.Decision) string { return d.NextStep }),
		list("budgets", func(r *row) any { return taken(r.check.Charges) }),
		textual("key_id", func(r *row) string { return r.check.KeyID }),
		textual("principal", func(r *row) string { return r.check.Principal }),
		textual("owner", func(r *row) string { return r.check.Owner }),
		textual("request_id", func(r *row) string { return r.check.RequestID }),
	}
}

func escalated(a *spend.ApprovalRequest) (rules []string) {
	if a == nil {
		return nil
	}
	for _, r := range a.Rules {
		rules = append(rules, r.RuleID)
	}
	return rules
}

// charge is what the check took from a budget's counter.
type charge struct {
	RuleID   string          `json:"rule_id"`
	Since    int             `json:"since"`
	Per      json.RawMessage `json:"per"`
	StartMS  int64           `json:"start_ms"`
	OffsetMS int64           `json:"offset_ms,omitzero"`
	Amount   *spend.Amount   `json:"amount"`
}

func taken(charges []spend.Charge) (all []charge) {
	for _, c := range charges {
		one := charge{c.RuleID, c.Since, json.RawMessage(c.Subject), c.Counter.StartMS, c.OffsetMS, nil}
		if !c.NoCurrency {
			one.Amount = &c.Amount
		}
		all = append(all, one)
	}
	return all
}

// ruling is a decision about an approval.
type ruling struct {
	Decision  string   `json:"decision"`
	Principal string   `json:"principal"`
	KeyID     string   `json:"key_id"`
	At        string   `json:"at"`
	Owner     string   `json:"owner,omitempty"`
	Groups    []string `json:"groups,omitempty"`
	Note      string   `json:"note,omitempty"`
}

func rulings(changes []audit.Change) (all []ruling) {
	for i := range changes {
		c := &changes[i]
		_, what, _ := strings.Cut(string(c.Kind), ".")
		one := ruling{Decision: what, Principal: c.By.Principal, KeyID: c.By.KeyID, At: stamp(c.At)}
		_ = json.Unmarshal([]byte(c.Details), &one) // an unreadable one adds nothing
		all = append(all, one)
	}
	return all
}

// approvers returns who approved, without those whose approvals count no more.
func approvers(r *row) (names []string) {
	var by []audit.Actor
	for _, c := range r.rulings {
		switch c.Kind {
		case audit.ApprovalGiven:
			by = append(by, c.By)
		case audit.ApprovalReopening:
			keyIDs := audit.ReopeningKeys(c.Details)
			by = slices.DeleteFunc(by, func(who audit.Actor) bool { return slices.Contains(keyIDs, who.KeyID) })
		default:
		}
	}
	for i := range by {
		names = append(names, cmp.Or(by[i].Principal, by[i].KeyID))
	}
	return names
}

func approvalColumns() []column[row] {
	return []column[row]{
		textual("approval_id", func(r *row) string { return idText(r.approvalID(), spend.PrefixApproval) }),
		textual("approval_status", (*row).approvalStatus),
		number("approvers_required", func(r *row) string {
			return told(r.check.Approval, func(a *spend.ApprovalRequest) string { return strconv.Itoa(a.Required) })
		}),
		list("groups_required", func(r *row) any {
			if r.check.Approval == nil {
				return nil
			}
			return r.check.Approval.From
		}),
		list("approvers", func(r *row) any { return approvers(r) }),
		list("approval_decisions", func(r *row) any { return rulings(r.rulings) }),
		textual("approval_used_by", func(r *row) string { return idText(r.usedBy, spend.PrefixCheck) }),
	}
}

// approvalID is the approval that the check asks for or was sent with.
func (r *row) approvalID() spend.ID {
	if r.check.Approval != nil {
		return r.check.ID
	}
	return r.check.Action.ApprovalID
}

// approvalStatus is the status by the record, whatever the clock says: an approval is expired once
// its expiry is recorded.
func (r *row) approvalStatus() string {
	asked, status := r.check.Approval, audit.ApprovalPending
	switch {
	case r.approvalID().IsZero():
		return ""
	case asked == nil && r.check.UsesApproval(), !r.usedBy.IsZero():
		return string(audit.ApprovalUsed)
	case asked == nil:
		return "not_used"
	}
	for _, c := range r.rulings {
		switch c.Kind {
		case audit.ApprovalGiven:
			var kept struct{ Completes bool }
			_ = json.Unmarshal([]byte(c.Details), &kept) // an unreadable one completes nothing
			if kept.Completes {
				status = audit.ApprovalApproved
			}
		case audit.ApprovalReopening:
			status = audit.ApprovalPending
		case audit.ApprovalDenial:
			return string(audit.ApprovalDenied)
		case audit.ApprovalWithdrawal:
			return string(audit.ApprovalWithdrawn)
		default:
			return string(audit.ApprovalExpired)
		}
	}
	return string(status)
}

func outcomeColumns() []column[row] {
	last := func(value func(*spend.Outcome) string) func(*row) string {
		return func(r *row) string { return told(r.course.Last(), value) }
	}
	step := func(name string, of func(*spend.Course) *spend.Outcome, value func(*spend.Outcome) string) column[row] {
		return textual(name, func(r *row) string { return told(of(&r.course), value) })
	}
	redeemed := func(c *spend.Course) *spend.Outcome { return c.Redeemed }
	taken := func(c *spend.Course) *spend.Outcome { return c.Taken }
	doubt := func(c *spend.Course) *spend.Outcome { return c.Doubt }
	at := func(o *spend.Outcome) string { return stamp(o.ID.Time()) }
	return []column[row]{
		textual("outcome", last(func(o *spend.Outcome) string { return string(o.Status) })),
		number("outcome_report", last(func(o *spend.Outcome) string { return strconv.Itoa(o.Number) })),
		number("outcome_amount", last(func(o *spend.Outcome) string {
			if o.Status != spend.Executed {
				return ""
			}
			return o.Amount.String()
		})),
		textual("outcome_release", last(func(o *spend.Outcome) string { return string(o.Release) })),
		textual("outcome_flag", last(func(o *spend.Outcome) string { return string(o.Excess) })),
		list("payment_flags", func(r *row) any {
			if o := r.course.Last(); o != nil {
				return o.Payment.Flags
			}
			return []spend.Flag(nil)
		}),
		textual("outcome_reference", last(func(o *spend.Outcome) string { return o.Reference })),
		textual("outcome_note", last(func(o *spend.Outcome) string { return o.Note })),
		textual("outcome_principal", last((*spend.Outcome).Reporter)),
		textual("outcome_at", last(at)),
		list("reports", func(r *row) any { return reports(r.course.Reports) }),
		step("redemption_id", redeemed, func(o *spend.Outcome) string { return o.ID.Text(spend.PrefixRedemption) }),
		step("redeemed_at", redeemed, at),
		step("redeemed_by", redeemed, (*spend.Outcome).Reporter),
		step("execution_id", redeemed, func(o *spend.Outcome) string { return o.Payment.ExecutionID }),
		step("taken_over_at", taken, at),
		step("taken_over_by", taken, (*spend.Outcome).Reporter),
		step("in_doubt_at", doubt, at),
		step("in_doubt_note", doubt, func(o *spend.Outcome) string { return o.Note }),
	}
}

// report is one of a check's several reports.
type report struct {
	Report    int           `json:"report"`
	Status    spend.Status  `json:"status"`
	Amount    *spend.Amount `json:"amount"`
	Release   spend.Release `json:"release"`
	Flag      spend.Excess  `json:"flag,omitempty"`
	Reference string        `json:"reference,omitempty"`
	Note      string        `json:"note,omitempty"`
	Principal string        `json:"principal"`
	KeyID     string        `json:"key_id"`
	At        string        `json:"at"`
}

func reports(all []*spend.Outcome) (out []report) {
	for _, o := range all {
		one := report{o.Number, o.Status, nil, o.Release, o.Excess, o.Reference, o.Note, o.Reporter(), o.KeyID, stamp(o.ID.Time())}
		if o.Status == spend.Executed {
			one.Amount = &o.Amount
		}
		out = append(out, one)
	}
	return out
}

func recordColumns() []column[row] {
	return []column[row]{
		textual("batch_chain", func(r *row) string { return idText(r.place.Chain, "") }),
		number("batch", func(r *row) string {
			if r.place.Seq == 0 {
				return ""
			}
			return strconv.FormatInt(r.place.Seq, 10)
		}),
		textual("row_hash", func(r *row) string { return hex.EncodeToString(r.hash[:]) }),
	}
}
