package client

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	strict "github.com/go-json-experiment/json"

	"spendgate/audit/spend"
	"spendgate/hotpath/wire"
)

// The codes of an Error.
const (
	CodeUnauthorized    = "unauthorized"
	CodeKeyInactive     = "api_key_inactive"
	CodeForbidden       = "forbidden"
	CodeBadRequest      = "bad_request"
	CodeValidation      = "validation_error"
	CodeDemoLimit       = "demo_limit_exceeded"
	CodePolicyNotFound  = "policy_not_found"
	CodeCheckNotFound   = "check_not_found"
	CodeKeyNotFound     = "key_not_found"
	CodeRateLimited     = "rate_limit_exceeded"
	CodeDraftNotFound   = "draft_not_found"
	CodeVersionMismatch = "policy_version_mismatch" // another version is in force than the one to be replaced
	CodeBudgetInUse     = "budget_in_use"           // a new version would empty a budget that is in use

	CodeChangeNeedsApproval   = "change_needs_approval"    // the change needs a draft that people approve
	CodeChangeNeedsNoApproval = "change_needs_no_approval" // the version in force asks nobody
	CodeDraftHashMismatch     = "draft_hash_mismatch"      // the draft is another by now
	CodeDraftRejected         = "draft_rejected"           // until it is put again
	CodeIfMatchRequired       = "if_match_required"        // the draft is another author's

	CodeApprovalNotFound    = "approval_not_found"
	CodeApprovalNotApproved = "approval_not_approved"    // pending or denied
	CodeApprovalNotPending  = "approval_not_pending"     // can no longer be decided
	CodeApprovalOwnRequest  = "approval_own_request"     // the key that asked does not decide
	CodeApprovalDecided     = "approval_already_decided" // the same person approved with another key
	CodeNotAnApprover       = "not_an_approver"          // the person is in none of its groups, or is the excluded author
	CodeApprovalMismatch    = "approval_mismatch"        // the approval is for another action
	CodeApprovalExpired     = "approval_expired"
	CodeApprovalUsed        = "approval_already_used"

	CodeCheckNotAllowed      = "check_not_allowed"      // a block or an escalation is not redeemed
	CodeCheckNotRedeemed     = "check_not_redeemed"     // the check's policy, or the request, requires redemption
	CodeCheckAlreadyRedeemed = "check_already_redeemed" // by somebody else, or for another attempt
	CodeCheckReleased        = "check_released"         // an outcome was reported
	CodeCheckExpired         = "check_expired"          // the check is too old to be redeemed
	CodeActionMismatch       = "action_mismatch"        // the check allowed another action

	CodeFrozen         = "frozen"        // a freeze stops what was allowed
	CodeCheckStopped   = "check_stopped" // the API key of the check was deactivated since
	CodeFreezeNotFound = "freeze_not_found"
	CodeFreezeOwn      = "freeze_own" // somebody who is told apart from the frozen principal must release it
	CodeTooManyFreezes = "too_many_freezes"

	CodeGrantNotFound   = "grant_not_found"
	CodeGrantNotActive  = "grant_not_active" // revoked, or over
	CodeGrantNotPending = "grant_not_pending"
	CodeGrantOwnCheck   = "grant_own_check" // the counter met a check of the caller: somebody else must grant
	CodeTooManyGrants   = "too_many_grants"

	CodePaymentDiffers  = "payment_differs"          // the payment is for another action
	CodeOutcomeReported = "outcome_already_reported" // Error.Latest has the last report

	CodeEventsRemoved = "events_removed" // go on with Error.NextAfter

	CodeInternal = "internal_error"
)

// Error is an unsuccessful answer. Code is empty when the answer was not the service's, but of a proxy
// or of another server at a wrong address.
type Error struct {
	Status     int    // of HTTP
	Code       string // CodeRateLimited and so on
	Message    string // for people; for a validation error it names every faulty field
	RequestID  string // names the request in the service's log
	RetryAfter time.Duration
	NextAfter  int64 // with CodeEventsRemoved, where a reader of events goes on
	// CheckID is the check that has the idempotency key (CodeValidation), the payment (CodePaymentDiffers) or the approval
	// (CodeApprovalUsed) of the request; else empty.
	CheckID string
	// Payment and Differs say of which payment the request is, and in which members of the action it differs (CodePaymentDiffers).
	Payment *wire.Payment
	Differs []string
	Latest  *wire.Outcome // with CodeOutcomeReported
}

// Error contains no key: neither the request nor its address is repeated.
func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("%d %s: the answer is not spendgate's; is the address right?", e.Status, http.StatusText(e.Status))
	}
	text := fmt.Sprintf("%s: %s (%d, %s)", spend.Printable(e.Code), spend.Printable(e.Message), e.Status, spend.Printable(e.RequestID))
	if e.RetryAfter > 0 {
		text += fmt.Sprintf("; try again after %d s", e.RetryAfter/time.Second)
	}
	return text
}

// Definite reports whether the service itself refused the request, so that it certainly was not
// carried out.
func (e *Error) Definite() bool { return e.Status/100 == 4 && e.Code != "" }

// temporary reports whether the same request may succeed later.
func (e *Error) temporary() bool {
	return e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests
}

// Temporary reports whether a request that ended with an error may succeed when it is sent again: it has no answer of the
// service, or one that says so.
func Temporary(err error) bool {
	if answer, ok := errors.AsType[*Error](err); ok {
		return answer.temporary() || answer.Code == ""
	}
	_, undecided := errors.AsType[*UndecidedError](err)
	return undecided
}

// UndecidedError is a Check of which it is unknown whether the service decided it. Nothing is allowed.
// Check the same action again with this idempotency key: if a decision was made, it is returned, else
// one is made.
type UndecidedError struct {
	IdempotencyKey string // or payment_key, under which the same request may be repeated
	Err            error  // an *Error is found in it with errors.As
}

// Error returns why there is no decision.
func (e *UndecidedError) Error() string { return "there is no decision: " + e.Err.Error() }

// Unwrap returns the last attempt's error.
func (e *UndecidedError) Unwrap() error { return e.Err }

// refusal reads the body of an error.
func refusal(response *http.Response, body []byte) *Error {
	e := &Error{Status: response.StatusCode, RetryAfter: retryAfter(response.Header)}
	var envelope struct {
		Error struct {
			Code      string `json:"code"`
			Message   string `json:"message"`
			RequestID string `json:"request_id"`
			NextAfter int64  `json:"next_after"`
			CheckID   string `json:"check_id"`

			Payment *wire.Payment `json:"payment"`
			Differs []string      `json:"differs"`
			Latest  *wire.Outcome `json:"latest"`
		} `json:"error"`
	}
	if strict.Unmarshal(body, &envelope) == nil {
		e.Code, e.Message, e.RequestID = envelope.Error.Code, envelope.Error.Message, envelope.Error.RequestID
		e.NextAfter, e.CheckID = envelope.Error.NextAfter, envelope.Error.CheckID
		e.Payment, e.Differs, e.Latest = envelope.Error.Payment, envelope.Error.Differs, envelope.Error.Latest
	}
	return e
}

// retryAfter reads Retry-After, in seconds or as a date beside that of the answer, up to a day; 0 if it is neither.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if allDigits.MatchString(text) {
		seconds, err := strconv.Atoi(text)
		if err != nil { // more than fit
			return maxRetryAfter
		}
		return time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := time.Parse(http.TimeFormat, text)
	if err != nil {
		return 0
	}
	now, err := time.Parse(http.TimeFormat, h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

var allDigits = regexp.MustCompile(`^[0-9]+$`)

const maxRetryAfter = 24 * time.Hour
