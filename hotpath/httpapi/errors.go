package httpapi

import (
	"context"
	"errors"
	"fmt"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/console"
	"spendgate/hotpath/signin"
)

// refusal is the response to an error. Errors of this package are refusals themselves. openapi.yaml
// says which endpoint returns which code.
type refusal struct {
	status  int
	code    string
	message string
}

func (r *refusal) Error() string { return r.message }

// retry reports whether the request may succeed in a second.
func (r *refusal) retry() bool { return r == overloaded || r == unavailable }

// The codes that several errors have.
const (
	codeUnauthorized        = "unauthorized"
	codeKeyInactive         = "api_key_inactive"
	codeBadRequest          = "bad_request"
	codeForbidden           = "forbidden"
	codeValidation          = "validation_error"
	codeApprovalNotApproved = "approval_not_approved"
	codeNotAnApprover       = "not_an_approver"
	codeChangeNeedsApproval = "change_needs_approval"
	codeIfMatchRequired     = "if_match_required"
	codeInternal            = "internal_error"
)

// The errors of this package.
var (
	errPathNotFound     = &refusal{404, "not_found", "there is nothing at this path; GET /openapi.yaml describes all paths"}
	errMethod           = &refusal{405, "method_not_allowed", "this path does not accept the method; see the header Allow"}
	errAdminKey         = &refusal{401, codeUnauthorized, "missing or wrong admin key; send it in X-Admin-Key"}
	errContentType      = &refusal{400, codeBadRequest, "Content-Type must be application/json"}
	errLengthRequired   = &refusal{411, codeBadRequest, "a body must have a Content-Length, or chunked as its only Transfer-Encoding"}
	errTrailers         = &refusal{400, codeBadRequest, "a chunked body must not have trailers"}
	errBodyTooLarge     = &refusal{413, codeBadRequest, "the body must be at most 1 MiB"}
	errDemoLimit        = &refusal{422, "demo_limit_exceeded", "without an API key a simulation has at most 10 actions"}
	errCheckNotFound    = &refusal{404, "check_not_found", "there is no such check; checks of archived days are only in the archive"}
	errOutcomeNotFound  = &refusal{404, "outcome_not_found", "nothing was reported about this check yet"}
	errWebhookNotFound  = &refusal{404, "webhook_not_found", "there is no such webhook"}
	errDeliveryNotFound = &refusal{404, "delivery_not_found", "there is no such delivery to this webhook; they are kept for seven days"}
	errKeyNotFound      = &refusal{404, "key_not_found", "there is no such key"}
	errHeaderTooLarge   = &refusal{431, codeBadRequest, "the request header is too large"}
	errSlowClient       = &refusal{408, codeBadRequest, "the request did not arrive in time"}
	errBadHTTP          = &refusal{400, codeBadRequest, "malformed HTTP request"}

	overloaded  = &refusal{500, codeInternal, "the service is at its capacity; nothing was decided, try again"}
	unavailable = &refusal{500, codeInternal, "a dependency of the service does not answer; there is no decision, try again"}
	unexpected  = &refusal{500, codeInternal, "unexpected error; see the service's log for this request_id"}
)

// refusals are the answers to the errors of other packages. The first that matches
// decides.
var refusals = [...]struct {
	err    error
	answer *refusal
}{
	{console.ErrLink, errLink},
	{signin.ErrAttempt, errAttempt},
	{signin.ErrRefused, errRefused},
	{signin.ErrToken, errToken},
	{signin.ErrOverage, errOverage},
	{signin.ErrUnverified, errUnverified},
	{signin.ErrNoRole, errNoRole},
	{signin.ErrProvider, errProvider},
	{signin.ErrBusy, overloaded},
	{audit.ErrReplayed, errReplayed},
	{audit.ErrSignedOut, errSignedOut},
	{hotpath.ErrSessionEnded, &refusal{401, codeUnauthorized, "the session has ended; sign in again"}},
	{hotpath.ErrUnauthorized, &refusal{401, codeUnauthorized, "missing or unknown API key; send it in X-API-Key"}},
	{hotpath.ErrKeyExpired, &refusal{401, codeKeyInactive, "the API key has expired"}},
	{hotpath.ErrKeyInactive, &refusal{401, codeKeyInactive, "the API key is deactivated"}},
	{hotpath.ErrRateLimited, &refusal{429, "rate_limit_exceeded", "the rate limit is reached; ask again after the seconds in Retry-After"}},
	{audit.ErrPoliciesFull, &refusal{
		422, codeValidation, "rules do not fit: the policies of this deployment have the total size that its operator allows",
	}},
	{audit.ErrWebhooksFull, &refusal{
		422, codeValidation, "url cannot be added: there are 100 webhooks, which is the maximum; DELETE one first",
	}},
	{audit.ErrBacktestsFull, &refusal{
		409, "backtests_full", "100 backtests wait or run, which is the maximum; cancel one, or wait for one to end",
	}},
	{hotpath.ErrBacktestEnded, &refusal{409, "backtest_ended", "the backtest has ended: there is nothing to cancel"}},
	{audit.ErrTooMany, &refusal{
		422, codeValidation, "from must be later: numbers by agent or principal are counted over a range of at most 100000 checks, " +
			"those of all agents and principals together",
	}},
	{audit.ErrArchived, &refusal{
		422, codeValidation, "from must be later: checks of the range are archived, and archived checks are not counted by agent or " +
			"principal",
	}},
	{hotpath.ErrPolicyNotFound, &refusal{404, "policy_not_found", "there is no such policy, or it has no such version"}},
	{hotpath.ErrOthersDraft, &refusal{
		428, codeIfMatchRequired, "the draft is another author's: read it, and send its draft_hash in the header If-Match",
	}},
	{hotpath.ErrDraftNotFound, &refusal{404, "draft_not_found", "the policy has no draft"}},
	{hotpath.ErrApprovalNotFound, &refusal{404, "approval_not_found", "there is no such approval"}},
	{hotpath.NotRecordedError{Why: audit.DecisionOwn}, &refusal{
		409, "approval_own_request", "the API key has the principal or owner of the key that asked: somebody else must decide; " +
			"nothing is recorded",
	}},
	{hotpath.NotRecordedError{Why: audit.DecisionAgain}, &refusal{
		409, "approval_already_decided", "you approved it already, with this API key or another one of the same principal or owner: " +
			"somebody else must approve, too",
	}},
	{hotpath.NotRecordedError{Why: audit.DecisionNoGroup}, &refusal{
		403, codeNotAnApprover, "the API key is in none of the groups whose people must approve this; nothing is recorded",
	}},
	{hotpath.NotRecordedError{Why: audit.DecisionAuthor}, &refusal{
		403, codeNotAnApprover, "the author of the version that escalated cannot decide this; nothing is recorded",
	}},
	{hotpath.NotRecordedError{Draft: true, Why: audit.DecisionOtherDraft}, &refusal{
		409, "draft_hash_mismatch", "the policy's draft is not the one of that draft_hash: read it with GET .../draft, " +
			"and decide about the draft as it is now",
	}},
	{hotpath.NotRecordedError{Draft: true, Why: audit.DecisionNotAsked}, &refusal{
		409, "change_needs_no_approval", "the current version of the policy requires no approval for changes (it has no field " +
			"changes): promote the draft; nothing is recorded",
	}},
	{hotpath.NotRecordedError{Draft: true, Why: audit.DecisionAuthor}, &refusal{
		403, codeNotAnApprover, "the author of a draft cannot approve or reject it, nor can a key of the author's principal or owner; " +
			"nothing is recorded",
	}},
	{hotpath.NotRecordedError{Draft: true, Why: audit.DecisionNoGroup}, &refusal{
		403, codeNotAnApprover, "the API key is in none of the groups whose people must approve changes of this policy; nothing is " +
			"recorded",
	}},
	{hotpath.NotRecordedError{Draft: true, Why: audit.DecisionAgain}, &refusal{
		409, "approval_already_decided", "you approved the draft already, with this API key or another one of the same principal or " +
			"owner: somebody else must approve, too",
	}},
	{hotpath.NotRecordedError{Draft: true, Why: audit.DecisionOtherDrop}, &refusal{
		409, "approval_already_decided", "the same person approved the draft with other drop_budgets, and that approval stands: " +
			"put the draft again, so that all approve it again",
	}},
	{hotpath.NotRecordedError{Draft: true, Why: audit.DecisionRejected}, &refusal{
		409, "draft_rejected", "somebody rejected the draft: it takes no further decision until it is put again",
	}},
	{hotpath.NotRecordedError{Draft: true, Why: audit.DecisionFull}, &refusal{
		409, "approvals_full", "the draft has 100 approvals, which is the maximum: put the draft again",
	}},
	{hotpath.ErrOtherPrincipal, &refusal{
		409, "approval_mismatch",
		"the action is the same, but the principal differs: the approval is for the principal of the key that asked; use such a key, " +
			"or ask for a new approval",
	}},
	{hotpath.ErrNotAllowed, &refusal{409, "not_allowed", "the check was not allowed, so it has no outcome to report"}},
	{hotpath.ErrCheckNotAllowed, &refusal{409, "check_not_allowed", "the check was not allowed: its action must not be carried out"}},
	{hotpath.ErrPrincipalRequired, &refusal{
		422, "principal_required", "payment_key needs an API key with a principal (PATCH /v1/keys/{key_id}): the key that replaces " +
			"this one would otherwise pay again",
	}},
	{hotpath.ErrCheckTakenOver, &refusal{
		409, "check_taken_over", "another request took the payment over: do not carry it out; only that request reports what became " +
			"of it",
	}},
	{hotpath.ErrOtherPayment, &refusal{422, codeValidation, "payment_key is not that of the check, which has a payment of this principal"}},
	{hotpath.ErrUnknownRedemption, &refusal{422, codeValidation, "redemption_id is not that of a redemption of the check"}},
	{hotpath.ErrCheckStopped, &refusal{
		409, "check_stopped", "the API key that the check was allowed for was deactivated: its action must not be carried out",
	}},
	{hotpath.ErrFreezeNotFound, &refusal{404, "freeze_not_found", "there is no such freeze"}},
	{hotpath.ErrFreezeNotActive, &refusal{409, "freeze_not_active", "the freeze is released or over"}},
	{hotpath.ErrFreezeOwn, &refusal{
		409, "freeze_own", "the freeze stops the principal of this API key, or one of the same owner: somebody else must release it",
	}},
	{hotpath.ErrTooManyFreezes, &refusal{409, "too_many_freezes", "too many freezes are active: release some first"}},
	{hotpath.ErrGrantNotFound, &refusal{404, "grant_not_found", "there is no such grant"}},
	{hotpath.ErrGrantNotActive, &refusal{409, "grant_not_active", "the grant is revoked or has ended"}},
	{hotpath.ErrGrantNotPending, &refusal{409, "grant_not_pending", "the grant is open: it needs no further approval"}},
	{hotpath.ErrGrantOwn, &refusal{403, codeNotAnApprover, "you made this grant: somebody else must approve it; nothing is recorded"}},
	{hotpath.ErrGrantOwnCheck, &refusal{
		409, "grant_own_check", "the budget counted or refused a check of yours in this window: somebody else must grant",
	}},
	{hotpath.ErrTooManyGrants, &refusal{
		409, "too_many_grants", "20 grants of this counter are open or wait for approval: revoke one first",
	}},
	{hotpath.ErrCheckNotRedeemed, &refusal{
		409, "check_not_redeemed", "nobody redeemed the check: its action must be redeemed before it is carried out and reported",
	}},

	{hotpath.ErrOverloaded, overloaded},
	{hotpath.ErrUnavailable, unavailable},
	{audit.ErrUnavailable, unavailable},
	{audit.ErrUnknown, unavailable},
	{commit.ErrPending, unavailable},
	{audit.ErrStaleEpoch, unavailable},
	{audit.ErrFencedNode, unavailable},
	{context.DeadlineExceeded, unavailable},
	{context.Canceled, unavailable},
}

// bodyError is a body that is not well-formed: 400, and why.
type bodyError struct{ reason string }

func (e *bodyError) Error() string { return e.reason }

// worded are the answers to errors whose message is theirs. The first that matches decides.
var worded = [...]func(error) *refusal{
	says[spend.Faults](422, codeValidation),
	says[*hotpath.KeyReusedError](422, codeValidation),
	says[*hotpath.AlreadyReportedError](409, "outcome_already_reported"),
	says[*hotpath.FrozenError](409, "frozen"),
	says[*hotpath.AlreadyRedeemedError](409, "check_already_redeemed"),
	says[*hotpath.CheckReleasedError](409, "check_released"),
	says[*hotpath.CheckExpiredError](409, "check_expired"),
	says[*hotpath.PaymentTakenError](409, "payment_taken"),
	says[*hotpath.PaymentDiffersError](409, "payment_differs"),
	says[*hotpath.ActionMismatchError](409, "action_mismatch"),
	says[*audit.EventsRemovedError](410, "events_removed"),
	says[*hotpath.ForbiddenError](403, codeForbidden),
	says[*hotpath.BudgetsInUseError](409, "budget_in_use"),
	says[*hotpath.ChangeNeedsApprovalError](409, codeChangeNeedsApproval),
	says[*bodyError](400, codeBadRequest),
}

// says returns the answer to errors of a type; nil for others.
func says[E error](status int, code string) func(error) *refusal {
	return func(err error) *refusal {
		if said, ok := errors.AsType[E](err); ok {
			return &refusal{status, code, said.Error()}
		}
		return nil
	}
}

// refusalOf returns an error's response. For an unforeseen error it is a 500 without details.
func refusalOf(err error) *refusal {
	if own, ok := errors.AsType[*refusal](err); ok {
		return own
	}
	if missing, ok := errors.AsType[*hotpath.PolicyNotFoundError](err); ok {
		return &refusal{404, "policy_not_found", "there is no policy " + missing.PolicyID + ", or it has no such version"}
	}
	for i := range refusals {
		if errors.Is(err, refusals[i].err) {
			return refusals[i].answer
		}
	}
	for _, answer := range worded {
		if refused := answer(err); refused != nil {
			return refused
		}
	}
	if other, ok := errors.AsType[*audit.VersionError](err); ok {
		return refusalOfVersion(other.Version)
	}
	if late, ok := errors.AsType[*hotpath.NotPendingError](err); ok {
		return &refusal{409, "approval_not_pending", "the approval can no longer be decided: it is " + string(late.Status)}
	}
	if refused, ok := errors.AsType[*audit.ApprovalError](err); ok {
		return refusalOfApproval(refused)
	}
	return unexpected
}

// refusalOfVersion returns the response to a change of a policy whose version in force is not the one
// in If-Match.
func refusalOfVersion(inForce int) *refusal {
	text := fmt.Sprintf("version %d is in force, not the one that If-Match names: read it, and send its number "+
		"if the change still applies", inForce)
	if inForce == 0 {
		text = "the policy has no version yet, so If-Match must be 0 or left out"
	}
	return &refusal{409, "policy_version_mismatch", text}
}

// refusalOfApproval returns the answer to a refused use of an approval.
func refusalOfApproval(refused *audit.ApprovalError) *refusal {
	switch refused.Status {
	case audit.ApprovalAbsent:
		return refusalOf(hotpath.ErrApprovalNotFound)
	case audit.ApprovalMismatch:
		return &refusal{409, "approval_mismatch", "the approval is for another action; see its action and action_hash"}
	case audit.ApprovalUsed:
		return &refusal{409, "approval_already_used", "the approval was used by check " + refused.UsedBy.Text(spend.PrefixCheck)}
	case audit.ApprovalExpired:
		return &refusal{409, "approval_expired", "the approval has expired; check the action again without approval_id to ask for a " +
			"new one"}
	case audit.ApprovalPending:
		return &refusal{409, codeApprovalNotApproved, "people have not decided about the approval yet; GET " +
			"/v1/approvals/{approval_id} with Prefer: wait=30 waits for them"}
	default: // denied, approved
		return &refusal{409, codeApprovalNotApproved, "the approval is " + string(refused.Status)}
	}
}

// holderOf returns the check that has what a refused request asked for: its idempotency key, its payment
// or its approval. It is zero for other errors.
func holderOf(err error) spend.ID {
	if reused, ok := errors.AsType[*hotpath.KeyReusedError](err); ok {
		return reused.Check
	}
	if taken, ok := errors.AsType[*hotpath.PaymentTakenError](err); ok {
		return taken.Check
	}
	if differs, ok := errors.AsType[*hotpath.PaymentDiffersError](err); ok {
		return differs.Check
	}
	if refused, ok := errors.AsType[*audit.ApprovalError](err); ok {
		return refused.UsedBy
	}
	return spend.ID{}
}

// panicError is a handler's panic as an error, for the log.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }
