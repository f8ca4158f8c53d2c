package httpapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/trace"
	"spendgate/ratelimit"
)

// exchange is one request and its answer while they are at work.
type exchange struct {
	ctx       *fasthttp.RequestCtx
	id        string    // req_ + 12 hex
	started   time.Time // when the first byte was read (S20)
	endpoint  *endpoint
	quota     ratelimit.Quota // Limit is 0 while no limit governs the answer
	unread    error           // why the body was not read; answered in its turn (S1)
	excess    bool            // the connection is one too many
	pipelined bool            // the request was sent before the response to the previous request
	action    spend.Action    // of a check
	payment   payment         // of a check
	body      []byte          // as it was received
	counted   *byteLimit      // that the body counts in; nil of a small one
	held      int             // as how much
	out       []byte          // where answers are written before they are sent
	ids       string          // of requests to come

	caller hotpath.Caller // once it was looked at
	demo   bool           // the caller has no key and needs none
	access hotpath.Access // of the caller, once it was admitted

	textAmounts bool // amounts may be strings in the request, and are in the response

	shown   *hotpath.PaymentView // by a refusal; nil for none
	failure error                // the error that fail was called with
	refusal *refusal             // the answer to a failure; nil without one

	reading    context.Context // of reads of the store; nil before the first
	endReading context.CancelFunc

	trace   *trace.Record // nil unless requests are traced
	traceID trace.ID      // once it was handed over
}

// exchangeKey names the exchange among the values of a request.
type exchangeKey struct{}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// keepOut is the largest buffer that is kept for another answer: the page of
// violations is the one answer that is larger.
const keepOut = 64 << 10

// The names of headers as they go over the wire.
var (
	headerRequestID = []byte("X-Request-ID")
	headerLimit     = []byte("X-RateLimit-Limit")
	headerRemaining = []byte("X-RateLimit-Remaining")
	headerReset     = []byte("X-RateLimit-Reset")
	headerReplayed  = []byte("Idempotent-Replayed")
	headerOutcome   = []byte("Outcome")
	headerRedeemed  = []byte("Redeemed")
	headerRedeem    = []byte("Redeem")
	valueTrue       = []byte("true")
	typeJSON        = []byte("application/json")
)

func exchangeOf(ctx *fasthttp.RequestCtx) *exchange {
	return ctx.UserValue(exchangeKey{}).(*exchange)
}

// serve answers one request. unread is why its body is not to be read, if it is
// not: the request goes the same way, since a wrong path or key is answered before
// a body that is too large.
func (a *API) serve(ctx *fasthttp.RequestCtx, unread error) {
	x := exchanges.Get().(*exchange)
	x.ctx, x.unread, x.excess, x.endpoint = ctx, unread, onExcess(ctx), a.unrouted
	x.takeID()
	if unread == nil {
		x.unread = a.receive(x)
	}
	if x.unread != nil {
		lingerOn(ctx)
	} else {
		heardFrom(ctx)
	}
	x.started, x.pipelined = startOf(ctx)
	ctx.SetUserValue(exchangeKey{}, x)
	if a.Trace != nil {
		x.beginTrace()
	}

	if errors.Is(x.unread, errBadHTTP) || errors.Is(x.unread, errSlowClient) {
		a.fail(x, x.unread) // what was received cannot be routed
	} else {
		a.router.Handler(ctx)
	}

	x.writeHeaders()
	if x.unread != nil || x.excess || a.draining.Load() {
		ctx.SetConnectionClose()
	}
	a.metrics.observe(x)
	if x.trace != nil && !x.endpoint.free {
		x.traceID = a.endTrace(x)
	}
	if x.failure != nil {
		a.logFailure(x)
	}
	out := x.out
	if cap(out) > keepOut {
		out = nil
	}
	x.release()
	*x = exchange{body: x.body[:0], out: out[:0], ids: x.ids}
	exchanges.Put(x)
}

func (x *exchange) takeID() {
	if x.ids == "" {
		x.ids = newRequestIDs()
	}
	x.id, x.ids = x.ids[:requestIDSize], x.ids[requestIDSize:]
}

const (
	requestIDSize = len("req_0123456789ab")
	// requestIDsAtOnce are made together, since a string for each would be an
	// allocation for each. A check that is kept keeps the few names around its own.
	requestIDsAtOnce = 32
)

// newRequestIDs names requests. The names need not be secret, only distinct.
func newRequestIDs() string {
	var names [requestIDsAtOnce * requestIDSize]byte
	b := names[:0]
	for range requestIDsAtOnce {
		var random [8]byte
		binary.LittleEndian.PutUint64(random[:], rand.Uint64())
		b = hex.AppendEncode(append(b, "req_"...), random[:6])
	}
	return string(b)
}

// context returns the context of the work for one request. It never ends: the Authorizer bounds its
// own waits, and the work must be finished even if the client has gone.
func (x *exchange) context() context.Context { return context.Background() }

// readTimeout bounds the reads of the store for one request that the Authorizer has no part in.
const readTimeout = 2 * time.Second

// readContext returns the context of these reads, which begins with the first of them and ends with the exchange.
func (x *exchange) readContext() context.Context {
	if x.reading == nil {
		x.reading, x.endReading = context.WithTimeout(x.context(), readTimeout)
	}
	return x.reading
}

// request returns what the Authorizer needs in addition to the body.
func (x *exchange) request() hotpath.Request {
	return hotpath.Request{Caller: x.caller, Access: x.access, ID: x.id, Started: x.started, Trace: x.trace}
}

func (x *exchange) query() []byte { return x.ctx.URI().QueryString() }

// decode reads the body of a request that takes no query, and returns every
// fault of both.
func (x *exchange) decode(read func(*reader)) error {
	x.trace.Begin(trace.Decode, x.started)
	defer x.trace.EndNow()
	if x.unread != nil {
		return x.unread
	}
	if !isJSON(x.ctx.Request.Header.ContentType()) {
		return errContentType
	}
	return readObject(x.body, func(r *reader) {
		r.textAmounts = x.textAmounts
		parameters(x.query(), &r.faults)
		read(r)
	})
}

// decodeMore is decode for an operation that adds faults of its own to those of the request.
func (x *exchange) decodeMore(read func(*reader)) (spend.Faults, error) {
	err := x.decode(read)
	faults, only := errors.AsType[spend.Faults](err)
	if only {
		err = nil
	}
	return faults, err
}

// decodeOptional is decode of a body that may be left out.
func (x *exchange) decodeOptional(read func(*reader)) error {
	if len(bytes.TrimSpace(x.body)) == 0 {
		return x.noQuery()
	}
	return x.decode(read)
}

// nothingElse refuses a query and a body that has members.
func (x *exchange) nothingElse() error {
	return x.decodeOptional(func(r *reader) {
		for r.next() {
			r.unknown()
		}
	})
}

// isJSON accepts application/json, in UTF-8 if it says a charset (S1).
func isJSON(contentType []byte) bool {
	if string(contentType) == "application/json" {
		return true
	}
	kind, params, err := mime.ParseMediaType(string(contentType))
	if err != nil || kind != "application/json" {
		return false
	}
	charset, given := params["charset"]
	return !given || strings.EqualFold(charset, "utf-8")
}

// noQuery refuses a query where none is accepted.
func (x *exchange) noQuery() error {
	var faults spend.Faults
	parameters(x.query(), &faults)
	return faults.Err()
}

// pathValue is a path parameter, decoded; "" when it cannot be.
func (x *exchange) pathValue(name string) string {
	raw, _ := x.ctx.UserValue(name).(string)
	value, _ := unescape(raw, url.PathUnescape)
	return value
}

// identifiers are those that paths have, with the answer where there is no such thing.
var identifiers = map[string]struct {
	prefix string
	absent error
}{
	"check_id":    {spend.PrefixCheck, errCheckNotFound},
	"approval_id": {spend.PrefixApproval, hotpath.ErrApprovalNotFound},
	"grant_id":    {spend.PrefixGrant, hotpath.ErrGrantNotFound},
	"freeze_id":   {spend.PrefixFreeze, hotpath.ErrFreezeNotFound},
	"backtest_id": {spend.PrefixBacktest, errBacktestNotFound},
	"key_id":      {spend.PrefixKey, errKeyNotFound},
	"session_id":  {spend.PrefixSession, errSessionNotFound},
	"webhook_id":  {spend.PrefixWebhook, errWebhookNotFound},
	"delivery_id": {spend.PrefixDelivery, errDeliveryNotFound},
}

// pathID returns an identifier in the path.
func (x *exchange) pathID(name string) (spend.ID, error) {
	kind := identifiers[name]
	id, err := spend.ParseID(x.pathValue(name), kind.prefix)
	if err != nil {
		return id, kind.absent
	}
	return id, nil
}

// ofID returns a handler that is given the identifier in the path.
func ofID(name string, serve func(*exchange, spend.ID) error) func(*exchange) error {
	return func(x *exchange) error {
		id, err := x.pathID(name)
		if err != nil {
			return err
		}
		return serve(x, id)
	}
}

// orAbsent returns the error of a read of the store, or absent if there was nothing
// to be read.
func orAbsent(err, absent error) error {
	if errors.Is(err, audit.ErrNotFound) {
		return absent
	}
	return err
}

// setReplayed says in a header whether the answer was given before.
func (x *exchange) setReplayed(replayed bool) {
	if replayed {
		x.ctx.Response.Header.SetCanonical(headerReplayed, valueTrue)
	}
}

// created returns the status of what was recorded, which is 200 and named in a header if it was recorded before.
func (x *exchange) created(replayed bool) int {
	if x.setReplayed(replayed); replayed {
		return fasthttp.StatusOK
	}
	return fasthttp.StatusCreated
}

// answer sends the bytes in out.
func (x *exchange) answer(status int) error {
	x.ctx.SetStatusCode(status)
	x.ctx.Response.Header.SetContentTypeBytes(typeJSON)
	if x.textAmounts {
		x.applied("amounts=string")
	}
	x.ctx.SetBody(x.out)
	return nil
}

// answerNothing says that it is done: 204, without a type.
func (x *exchange) answerNothing() error {
	x.ctx.SetStatusCode(fasthttp.StatusNoContent)
	return nil
}

// fail answers with an error.
func (a *API) fail(x *exchange, err error) {
	body := errorBody{requestID: x.id, at: time.Now(), holder: holderOf(err), payment: x.shown}
	if taken, ok := errors.AsType[*hotpath.PaymentTakenError](err); ok {
		body.state, body.payment = taken.Status, taken.Payment
	}
	if differs, ok := errors.AsType[*hotpath.PaymentDiffersError](err); ok {
		body.differs, body.payment = differs.Differs, differs.Payment
	}
	if frozen, ok := errors.AsType[*hotpath.FrozenError](err); ok {
		body.payment = frozen.Payment
	}
	x.failure, x.refusal = err, refusalOf(err)
	if reported, ok := errors.AsType[*hotpath.AlreadyReportedError](err); ok {
		body.latest = reported.Last
	}
	if removed, ok := errors.AsType[*audit.EventsRemovedError](err); ok {
		body.nextAfter = removed.UpTo
	}
	x.textAmounts = x.textAmounts && body.latest != nil // no other error has amounts
	switch {
	case x.refusal.status == fasthttp.StatusTooManyRequests:
		seconds := strconv.FormatInt(x.quota.RetryAfter(body.at), 10)
		x.refusal = &refusal{x.refusal.status, x.refusal.code, x.refusal.message + "; wait " + seconds + " s"}
		x.ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, seconds)
	case x.refusal.retry():
		x.ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, "1")
	}
	body.refusal, body.textAmounts = x.refusal, x.textAmounts
	x.out = appendError(x.out[:0], &body)
	_ = x.answer(x.refusal.status)
	x.ctx.Response.SkipBody = x.ctx.IsHead()
}

// writeHeaders adds the headers of every response (S6).
func (x *exchange) writeHeaders() {
	q := x.quota
	if q.Limit == 0 {
		q = ratelimit.Unspent(ratelimit.DemoLimit, time.Now())
	}
	h := &x.ctx.Response.Header
	var b [24]byte
	h.SetCanonical(headerRequestID, append(b[:0], x.id...))
	h.SetCanonical(headerLimit, strconv.AppendInt(b[:0], int64(q.Limit), 10))
	h.SetCanonical(headerRemaining, strconv.AppendInt(b[:0], int64(q.Remaining), 10))
	h.SetCanonical(headerReset, strconv.AppendInt(b[:0], q.ResetUnix(), 10))
}
