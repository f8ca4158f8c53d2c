package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/audit/spend"
	"spendgate/hotpath/client"
)

// check asks about an action. One that names no idempotency key is given one,
// kept while the outcome is unknown: the same call again is the same check.
func (s *Server) check(ctx context.Context, arguments []byte) (*sdk.CallToolResult, error) {
	var a client.Action
	if err := decode(arguments, &a); err != nil {
		return nil, err
	}
	call, err := callOf(a)
	if err != nil {
		return nil, err
	}
	if a.Redeem != "" || a.TakeOver || a.TakeOverWithinHours != 0 || a.AgainAfterHours != 0 {
		return nil, errExecutors
	}
	made := spend.Blank(a.IdempotencyKey) && spend.Blank(a.PaymentKey)
	var unseen bool // whether the client alone has sent the key
	if made {
		a.IdempotencyKey, unseen = s.pending.take(call)
	}
	result, err := s.client.Check(ctx, a)
	if _, undecided := errors.AsType[*client.UndecidedError](err); undecided || refusedEarly(err) {
		if made { // a caller that named a key can name it again; no other gets its answer
			s.pending.keep(call, a.IdempotencyKey)
		}
		return nil, err
	}
	s.pending.drop(call, a.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	v := verdictOf(result, result.Replayed && !unseen)
	body, err := v.encode(result.Body)
	if err != nil {
		return nil, err
	}
	return answer(v.words(result), body), nil
}

// errExecutors refuses what only whoever moves the money sends.
var errExecutors = errors.New("redeem, take_over, take_over_within_hours and again_after_hours are for whoever moves the money, " +
	"not for a model")

// refusedEarly reports whether a request was refused before its action was read:
// the outcome of an earlier one is still unknown.
func refusedEarly(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, refused.Status)
}

// verdict is the content of the headers of a check's answer, with its consequences: the body alone
// always stays the first answer.
type verdict struct {
	Proceed        bool    `json:"proceed"`
	Outcome        *string `json:"outcome"` // nil: nothing was reported
	ReleasePending bool    `json:"release_pending"`
	Replayed       bool    `json:"replayed"`                 // an earlier call may have acted by it
	Redeemed       bool    `json:"redeemed,omitzero"`        // somebody redeemed it to carry the action out
	RedeemRequired bool    `json:"redeem_required,omitzero"` // nobody may act before whoever moves the money redeemed it (S74)
	nextStep       string
	unclear        bool // an allow by which an earlier call may have acted
}

func verdictOf(r *client.Result, replayed bool) *verdict {
	v := &verdict{
		Proceed: r.Allowed() && !replayed, unclear: r.Allowed() && replayed,
		Outcome: optional(r.Outcome.Status), ReleasePending: r.Outcome.ReleasePending,
		Replayed: replayed, Redeemed: r.Redemption.Redeemed(),
		RedeemRequired: r.RedeemRequired && r.Decision == client.Allow && !r.Outcome.Reported() && !r.Redemption.Redeemed(),
		nextStep:       r.NextStep,
	}
	if r.Payment != nil && r.Decision == client.Allow {
		v.nextStep = "Do not carry this out yourself. Whoever moves the money asks under the same payment_key with redeem, as a guard or the " +
			"gateway does, and carries it out only where payment.proceed is true."
	}
	if v.unclear {
		v.nextStep = "Find out whether the action was carried out under this check: ask the payment system for " + r.CheckID +
			", its idempotency key there, " +
			"or look into your notes. If it was, report it as executed. Only if it was not, carry out exactly this action, once, " +
			"with that idempotency key."
	}
	return v
}

// encode returns the endpoint's answer with the verdict, which stands first.
func (v *verdict) encode(body []byte) ([]byte, error) {
	var rest map[string]jsontext.Value
	if err := json.Unmarshal(body, &rest); err != nil {
		return nil, fmt.Errorf("cannot read the service's answer: %w", err)
	}
	for _, own := range []string{"proceed", "outcome", "release_pending", "replayed", "redeemed", "redeem_required", "next_step"} {
		delete(rest, own)
	}
	all := struct {
		verdict
		NextStep *string                   `json:"next_step"`
		Rest     map[string]jsontext.Value `json:",embed"`
	}{*v, optional(v.nextStep), rest}
	text, err := json.Marshal(all, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("cannot encode the answer: %w", err)
	}
	return text, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// words returns what became of the check, or else the decision, and then everything that a model needs
// if it sees only the text.
func (v *verdict) words(r *client.Result) string {
	text := "Decision: " + r.Decision.String() + "."
	switch {
	case v.Outcome == nil && v.Redeemed:
		text = "Redeemed: somebody carries this action out, or has. Do not carry it out."
	case v.Outcome != nil:
		text = "Outcome: " + *v.Outcome + ". This check is over: do not carry the action out."
	case v.RedeemRequired:
		text += " Whoever moves the money redeems the check first: give them the check_id, and do not move the money without that."
	case v.unclear:
		text += " An earlier call was answered so: the action may have been carried out since."
	}
	if r.Payment != nil {
		text = "Payment " + r.Payment.PaymentKey + ": " + r.Payment.State + ". " + text
	}
	if r.Message != "" {
		text += "\n" + r.Message
	}
	if r.ViolatedRuleID != "" {
		text += fmt.Sprintf("\nRule: %s (%s), policy version %d. Reason: %s.", r.ViolatedRuleID, r.ViolatedRuleDescription, r.PolicyVersion,
			r.ReasonCode)
	}
	if v.nextStep != "" {
		text += "\nNext step: " + v.nextStep
	}
	if r.ApprovalID != "" && r.Payment != nil {
		text += "\nApproval: " + r.ApprovalID + " is pending. Pending is not approved: do not carry the action out. Call wait_for_approval " +
			"with it; once it is approved, call check_financial_action again with exactly the same values and payment_key, without an approval_id."
	} else if r.ApprovalID != "" && v.Outcome == nil {
		text += "\nApproval: " + r.ApprovalID +
			" is pending. Pending is not approved: do not carry the action out. Call wait_for_approval with it; " +
			"once it is approved, call check_financial_action again with exactly the same values and approval_id " + r.ApprovalID + "."
	}
	text += "\nCheck: " + r.CheckID
	if v.Replayed {
		text += " (the answer of an earlier request with this idempotency key)"
	}
	return text
}
