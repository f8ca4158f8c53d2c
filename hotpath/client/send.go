package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
	// maxAnswer bounds the answer of a wrong address. The largest answers, 100 violations with their
	// descriptions, take some 3 MiB.
	maxAnswer = 8 << 20
)

// request is a request that may be sent several times.
type request struct {
	method, path string
	query        url.Values
	content      any    // encoded as the body; nil for no body
	body         []byte // JSON, instead of content
	status       int    // of a success; 0 is 200
	again        int    // of a success of a request that was made before; 0 if it is the same
	// repeatable says that the request has the same effect if it is sent twice.
	repeatable bool
	admin      bool // needs the admin key only
	// idempotencyKey is sent as a header, unless it is empty.
	idempotencyKey string
	// wait is how long the service may hold its answer (Prefer: wait), in seconds.
	wait time.Duration
	// ifMatch is the version that must be in force, or the draft that must be the policy's; empty for none.
	ifMatch string
}

// post is a request that has the same effect if it is sent twice.
func post(path string, content any) request {
	return request{method: http.MethodPost, path: path, content: content, repeatable: true}
}

// create is a request that records something; where that is recorded already, the answer is 200.
func create(path string, content any, repeatable bool) request {
	return request{
		method: http.MethodPost, path: path, content: content, status: http.StatusCreated, again: http.StatusOK, repeatable: repeatable,
	}
}

// reply is a success.
type reply struct {
	header http.Header
	body   []byte
	listed bool // the value is an element of a list
}

// replayed reports that an earlier answer was repeated: the header is present and does not deny it.
func (r reply) replayed() bool {
	for _, value := range r.header.Values("Idempotent-Replayed") {
		if !strings.EqualFold(value, "false") && value != "?0" {
			return true
		}
	}
	return false
}

// attempt is the result of sending a request once.
type attempt struct {
	reply
	err error
	// reached reports that the service may have executed the request although
	// err is not nil.
	reached bool
	// retry reports that another attempt may succeed.
	retry bool
	after time.Duration // Retry-After
}

// send sends a request until it succeeds, is refused or should not be sent
// again. unknown reports that the service may have executed the request although
// err is not nil.
func (c *Client) send(ctx context.Context, r request) (answer reply, unknown bool, err error) {
	if r.content != nil {
		if r.body, err = encode(r.content); err != nil {
			return reply{}, false, err
		}
	}
	r.status = cmp.Or(r.status, http.StatusOK)
	for i := 0; ; i++ {
		a := c.once(ctx, r)
		if a.err == nil {
			return a.reply, false, nil
		}
		unknown = unknown || a.reached
		// A request answered 429 was not processed; one that may have been carried out is not repeated
		// unless that is safe.
		again := a.retry && (r.repeatable || !a.reached)
		wait := backoff(i, a.after)
		switch {
		case ctx.Err() != nil:
			return reply{}, unknown, fmt.Errorf("%w (given up: %w)", a.err, context.Cause(ctx))
		case !again || a.after > c.maxWait || endsBefore(ctx, wait):
			return reply{}, unknown, a.err
		case i+1 >= c.attempts:
			return reply{}, unknown, fmt.Errorf("%w (attempt %d of %d)", a.err, i+1, c.attempts)
		}
		if err := c.pause(ctx, wait); err != nil {
			return reply{}, unknown, fmt.Errorf("%w (given up: %w)", a.err, err)
		}
	}
}

// backoff doubles with every attempt, with full jitter, so that many clients that lost one
// service do not come back at once. Retry-After is waited for in any case.
func backoff(attempt int, after time.Duration) time.Duration {
	limit := min(firstBackoff<<min(attempt, 10), maxBackoff)
	return after + rand.N(limit)
}

// endsBefore reports whether the context ends before the wait does: waiting
// would hide the error.
func endsBefore(ctx context.Context, wait time.Duration) bool {
	deadline, bounded := ctx.Deadline()
	return bounded && time.Until(deadline) < wait
}

// once sends a request and reads the whole answer.
func (c *Client) once(ctx context.Context, r request) attempt {
	ctx, cancel := context.WithTimeout(ctx, c.timeout+r.wait)
	defer cancel()
	var content io.Reader
	if r.body != nil {
		content = bytes.NewReader(r.body)
	}
	address := c.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	sent, err := http.NewRequestWithContext(ctx, r.method, address, content)
	if err != nil {
		return attempt{err: fmt.Errorf("cannot make a request: %w", err)}
	}
	parent, state := c.trace(ctx)
	continueTrace(sent.Header, parent, state)
	c.identify(sent.Header, r.admin || c.adminOnly)
	if r.body != nil {
		sent.Header.Set("Content-Type", "application/json")
	}
	if r.ifMatch != "" {
		sent.Header.Set("If-Match", r.ifMatch)
	}
	if r.idempotencyKey != "" {
		sent.Header.Set("Idempotency-Key", r.idempotencyKey)
	}
	if r.wait > 0 {
		sent.Header.Set("Prefer", "wait="+strconv.Itoa(int(r.wait/time.Second)))
	}
	response, err := c.http.Do(sent)
	if err != nil {
		return attempt{err: fmt.Errorf("no answer from the service: %w", err), reached: !neverSent(err), retry: true}
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return attempt{err: fmt.Errorf("the service's answer broke off: %w", err), reached: true, retry: true}
	}
	if response.StatusCode != r.status && response.StatusCode != r.again || len(body) > maxAnswer {
		e := refusal(response, body)
		return attempt{err: e, reached: !e.Definite(), retry: e.temporary(), after: e.RetryAfter}
	}
	return attempt{reply: reply{header: response.Header, body: body}}
}

// neverSent reports whether there was no connection to send anything on.
func neverSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// get returns a request for a path.
func get(path string) request {
	return request{method: http.MethodGet, path: path, query: make(url.Values), repeatable: true}
}

// find is get with the parameters of a query: its fields that are not empty, under the names of their tags.
func find(path string, query any) request {
	r := get(path)
	v := reflect.ValueOf(query)
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name != "-" && !v.Field(i).IsZero() {
			r.query.Set(name, fmt.Sprint(v.Field(i)))
		}
	}
	return r
}

// answer is a type that an answer is decoded into.
type answer[T any] interface {
	*T
	// accept sets the fields that are not in the body, and fails if the answer cannot be valid. For
	// an element of a page the reply has only the element's text.
	accept(from reply) error
}

// fetch sends a request and reads its answer.
func fetch[T any, A answer[T]](ctx context.Context, c *Client, r request) (A, error) {
	from, _, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	return read[T, A](from)
}

func read[T any, A answer[T]](from reply) (A, error) {
	a := A(new(T))
	if err := decode(from.body, a); err != nil {
		return nil, err
	}
	if err := a.accept(from); err != nil {
		return nil, err
	}
	return a, nil
}

// misunderstood returns the error for an answer that the service does not give.
func misunderstood(problem string) error {
	return errors.New("the service's answer cannot be understood: " + problem)
}

// decode reads an answer of one JSON value. Names must not occur twice, and match exactly.
// Members that a later version of the service may add are ignored.
func decode(body []byte, into any) error {
	if err := strict.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the service's answer cannot be understood: %w", err)
	}
	return nil
}

// encode writes a request. It refuses text that is not UTF-8, which would
// reach the service as another text.
func encode(v any) ([]byte, error) {
	numbers := strict.MarshalToFunc(func(e *jsontext.Encoder, n json.Number) error {
		return e.WriteValue(jsontext.Value(n))
	})
	body, err := strict.Marshal(v, strict.WithMarshalers(numbers), strict.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("cannot encode the request: %w", err)
	}
	return body, nil
}
