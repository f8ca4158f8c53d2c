package httpapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/valyala/fasthttp"

	"spendgate/audit"
	"spendgate/hotpath"
	"spendgate/hotpath/spend"
)

// The codes of errors; openapi.yaml says which endpoint returns which.
const (
	codeUnauthorized     = "unauthorized"
	codeKeyInactive      = "api_key_inactive"
	codeForbidden        = "forbidden"
	codeBadRequest       = "bad_request"
	codeValidation       = "validation_error"
	codeDemoLimit        = "demo_limit_exceeded"
	codePolicyNotFound   = "policy_not_found"
	codeCheckNotFound    = "check_not_found"
	codeOutcomeNotFound  = "outcome_not_found"
	codeNotAllowed       = "not_allowed"
	codeAlreadyReported  = "outcome_already_reported"
	codeKeyNotFound      = "key_not_found"
	codeWebhookNotFound  = "webhook_not_found"
	codeDeliveryNotFound = "delivery_not_found"
	codeNotFound         = "not_found"
	codeMethodNotAllowed = "method_not_allowed"
	codeRateLimited      = "rate_limit_exceeded"

	codeApprovalNotFound    = "approval_not_found"
	codeApprovalNotApproved = "approval_not_approved"
	codeApprovalNotPending  = "approval_not_pending"
	codeApprovalOwnRequest  = "approval_own_request"
	codeApprovalMismatch    = "approval_mismatch"
	codeApprovalExpired     = "approval_expired"
	codeApprovalUsed        = "approval_already_used"
	codeInternal            = "internal_error"
)

// What this package itself refuses with.
var (
	errPathNotFound     = errors.New("unknown path")
	errMethod           = errors.New("method not allowed")
	errAdminKey         = errors.New("missing or wrong admin key")
	errContentType      = errors.New("wrong content type")
	errLengthRequired   = errors.New("transfer coding that is not taken")
	errTrailers         = errors.New("trailers")
	errBodyTooLarge     = errors.New("body too large")
	errDemoLimit        = errors.New("too many actions for the demo")
	errCheckNotFound    = errors.New("no such check")
	errOutcomeNotFound  = errors.New("no outcome yet")
	errKeyNotFound      = errors.New("no such key")
	errWebhookNotFound  = errors.New("no such webhook")
	errDeliveryNotFound = errors.New("no such delivery")
	errTooBusy          = errors.New("too many requests in flight, or connections")
	errBadHTTP          = errors.New("malformed HTTP request")
	errHeaderTooLarge   = errors.New("request header too large")
	errSlowClient       = errors.New("request not received in time")
	errPanic            = errors.New("panic")
)

// bodyError is a body that is not well-formed: 400, and why.
type bodyError struct{ reason string }

func (e *bodyError) Error() string { return e.reason }

// refusal is how an error is answered.
type refusal struct {
	status  int
	code    string
	message string
	retry   bool // with Retry-After: what failed may work in a second
}

// refusals is the error table. The first error that matches decides.
var refusals = [...]struct {
	err error
	refusal
}{
	{errPathNotFound, refusal{status: 404, code: codeNotFound, message: "there is nothing at this path; GET /openapi.yaml tells what there is"}},
	{errMethod, refusal{status: 405, code: codeMethodNotAllowed, message: "this path does not take that method; see Allow"}},

	{hotpath.ErrUnauthorized, refusal{status: 401, code: codeUnauthorized, message: "missing or unknown API key; send it in X-API-Key"}},
	{hotpath.ErrKeyExpired, refusal{status: 401, code: codeKeyInactive, message: "the API key has expired"}},
	{hotpath.ErrKeyInactive, refusal{status: 401, code: codeKeyInactive, message: "the API key is deactivated"}},
	{errAdminKey, refusal{status: 401, code: codeUnauthorized, message: "missing or wrong admin key; send it in X-Admin-Key"}},
	{hotpath.ErrRateLimited, refusal{status: 429, code: codeRateLimited, message: "the rate limit is reached; wait as Retry-After says"}},

	{errContentType, refusal{status: 400, code: codeBadRequest, message: "Content-Type must be application/json"}},
	{errLengthRequired, refusal{status: fasthttp.StatusLengthRequired, code: codeBadRequest, message: "a body must have a Content-Length, or be chunked and nothing else"}},
	{errTrailers, refusal{status: 400, code: codeBadRequest, message: "a chunked body must not have trailers"}},
	{errBodyTooLarge, refusal{status: 413, code: codeBadRequest, message: "the body must be at most 1 MiB"}},

	{hotpath.ErrKeyReused, refusal{status: 422, code: codeValidation, message: "idempotency_key was used for a different request"}},
	{audit.ErrPoliciesFull, refusal{status: 422, code: codeValidation, message: "rules have no room: the policies of this deployment are as large together as its operator lets them be"}},
	{audit.ErrWebhooksFull, refusal{status: 422, code: codeValidation, message: "url has no room: there are 100 webhooks, which is the most; DELETE one first"}},
	{errDemoLimit, refusal{status: 422, code: codeDemoLimit, message: "without an API key a simulation has at most 10 actions"}},

	{hotpath.ErrPolicyNotFound, refusal{status: 404, code: codePolicyNotFound, message: "there is no such policy, or not in that version"}},
	{hotpath.ErrApprovalNotFound, refusal{status: 404, code: codeApprovalNotFound, message: "there is no such approval"}},
	{hotpath.ErrOwnRequest, refusal{status: 409, code: codeApprovalOwnRequest, message: "who asked for an approval does not decide it, nor whoever runs the agent"}},
	{errCheckNotFound, refusal{status: 404, code: codeCheckNotFound, message: "there is no such check; a check of a day that was archived is in the archive only"}},
	{errOutcomeNotFound, refusal{status: 404, code: codeOutcomeNotFound, message: "nothing was reported of this check yet"}},
	{hotpath.ErrNotAllowed, refusal{status: 409, code: codeNotAllowed, message: "only an allowed check has an outcome"}},
	{hotpath.ErrAlreadyReported, refusal{status: 409, code: codeAlreadyReported, message: "another outcome of this check is reported; GET it at this path"}},
	{errWebhookNotFound, refusal{status: 404, code: codeWebhookNotFound, message: "there is no such webhook"}},
	{errDeliveryNotFound, refusal{status: 404, code: codeDeliveryNotFound, message: "there is no such delivery to this webhook; they are kept for seven days"}},
	{errKeyNotFound, refusal{status: 404, code: codeKeyNotFound, message: "there is no such key"}},

	{errTooBusy, overloaded},
	{hotpath.ErrOverloaded, overloaded},
	{hotpath.ErrUnavailable, unavailable},
	{audit.ErrUnavailable, unavailable},
	{audit.ErrUnknown, unavailable},
	{audit.ErrPending, unavailable},
	{audit.ErrStaleEpoch, unavailable},
	{audit.ErrFencedNode, unavailable},
	{context.DeadlineExceeded, unavailable},
	{context.Canceled, unavailable},

	// Before there is a request that could be routed.
	{errHeaderTooLarge, refusal{status: 431, code: codeBadRequest, message: "the request header is too large"}},
	{errSlowClient, refusal{status: 408, code: codeBadRequest, message: "the request did not arrive in time"}},
	{errBadHTTP, refusal{status: 400, code: codeBadRequest, message: "malformed HTTP request"}},
}

var (
	overloaded  = refusal{500, codeInternal, "the service is at its capacity; nothing was decided, try again", true}
	unavailable = refusal{500, codeInternal, "a dependency of the service does not answer; there is no decision, try again", true}
	unexpected  = refusal{500, codeInternal, "unexpected error; see the service's log for this request_id", false}
)

// refusalOf finds an error's answer. What nobody foresaw is a 500 that tells
// nothing of it.
func refusalOf(err error) refusal {
	for i := range refusals {
		if errors.Is(err, refusals[i].err) {
			return refusals[i].refusal
		}
	}
	if faults, ok := errors.AsType[spend.Faults](err); ok {
		return refusal{status: 422, code: codeValidation, message: faults.Error()}
	}
	if forbidden, ok := errors.AsType[*hotpath.ForbiddenError](err); ok {
		return refusal{status: 403, code: codeForbidden, message: forbidden.Error()}
	}
	if refused, ok := refusalOfApproval(err); ok {
		return refused
	}
	if malformed, ok := errors.AsType[*bodyError](err); ok {
		return refusal{status: 400, code: codeBadRequest, message: malformed.reason}
	}
	return unexpected
}

// panicError is a handler's panic as an error, for the log.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }
func (e *panicError) Unwrap() error { return errPanic }
