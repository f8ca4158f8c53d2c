package httpapi

import (
	"time"

	"spendgate/hotpath/trace"
)

// The request headers of W3C Trace Context, as fasthttp spells names.
var (
	headerTraceParent = []byte("Traceparent")
	headerTraceState  = []byte("Tracestate")
)

// beginTrace notes the caller's trace context. A context that is invalid is left to the receiver of
// the record.
func (x *exchange) beginTrace() {
	h := &x.ctx.Request.Header
	x.trace = &trace.Record{
		Parent: string(h.PeekCanonical(headerTraceParent)), State: string(h.PeekCanonical(headerTraceState)),
		RequestID: x.id, Started: x.started,
	}
}

// endTrace hands a request over that has its answer. Its identifier is the
// caller's trace, or a new one.
func (a *API) endTrace(x *exchange) trace.ID {
	r := x.trace
	r.Method, r.Route = x.endpoint.method, x.endpoint.path
	r.Status = x.ctx.Response.StatusCode()
	if x.refusal != nil {
		r.Code = x.refusal.code
	}
	r.Ended = time.Now()
	return a.Trace(r)
}
