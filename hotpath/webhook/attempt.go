package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const (
	// attemptTimeout bounds an attempt, from resolving the host to the last byte of
	// the response that is read.
	attemptTimeout = 15 * time.Second
	// maxResponse is how much of a response is read, so that the connection may be used
	// again.
	maxResponse = 4 << 10
	maxHeader   = 16 << 10
	// maxError bounds the text about a failure in the log of deliveries.
	maxError = 256
)

// attempt sends an event and notes the result in r. gone means that the receiver wants no more events,
// aborted that the node stopped meanwhile.
func (e *endpoint) attempt(
	stop context.Context, task *audit.WebhookTask, event *audit.Event, r *audit.DeliveryResult,
) (gone, aborted bool) {
	ctx, cancel := context.WithTimeout(context.Background(), attemptTimeout)
	defer cancel()
	defer context.AfterFunc(stop, func() { time.AfterFunc(finishIn, cancel) })()
	began := time.Now()
	status, err := e.post(ctx, task, event)
	r.Duration, r.StatusCode = time.Since(began), status
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return false, true
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		r.Error = fmt.Sprintf("no complete response within %v", attemptTimeout)
	case errors.Is(err, errAddress):
		r.Error = "refused: the URL " + errAddress.Error()
	case err != nil:
		r.Error = clip(err.Error())
	case status == http.StatusGone:
		r.Error = "status 410: the webhook is disabled"
		return true, false
	case status >= 300 && status < 400:
		r.Error = fmt.Sprintf("status %d: redirects are not followed", status)
	case status < 200 || status > 299:
		r.Error = fmt.Sprintf("status %d", status)
	}
	return false, false
}

// post sends an event and returns the status of the response, 0 if there is none.
func (e *endpoint) post(ctx context.Context, task *audit.WebhookTask, event *audit.Event) (status int, err error) {
	body, at, id := e.Encode(nil, event), time.Now(), event.ID.Text(spend.PrefixEvent)
	signature, err := sign(task.Secrets, id, at, body)
	if err != nil {
		return 0, err
	}
	var answered atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { answered.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, task.URL, bytes.NewReader(body))
	if err != nil {
		return 0, withoutURL(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "spendgate")
	request.Header.Set("webhook-id", id)
	request.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	request.Header.Set("webhook-signature", signature)
	response, err := e.client.Do(request)
	switch {
	case err != nil && answered.Load():
		return 0, errResponse
	case err != nil:
		return 0, withoutURL(err)
	}
	defer func() { _ = response.Body.Close() }() // nothing more is read
	if response.StatusCode < 200 {
		return response.StatusCode, nil // another protocol follows, and no deadline ends its reading
	}
	if _, err := io.CopyN(io.Discard, response.Body, maxResponse); err != nil && !errors.Is(err, io.EOF) {
		return response.StatusCode, errResponse
	}
	return response.StatusCode, nil
}

// errResponse is the error for any faulty response. The errors of net/http quote the response, which
// may be the greeting of another service.
var errResponse = fmt.Errorf("the response is not HTTP, breaks off, or has a header over %d bytes", maxHeader)

// askingConn reads nothing before something was written. What a server sends unasked is not a
// response: net/http would write it to the standard log.
type askingConn struct {
	net.Conn
	asked chan struct{} // closed by the first Write, or by Close
	once  sync.Once
}

// Read implements net.Conn.
func (c *askingConn) Read(p []byte) (int, error) {
	<-c.asked
	return c.Conn.Read(p)
}

// Write implements net.Conn.
func (c *askingConn) Write(p []byte) (int, error) {
	c.once.Do(func() { close(c.asked) })
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *askingConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.asked) })
	return err
}

// withoutURL removes the URL from an error: it may contain a token.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// clip makes a text storable, whatever a receiver had it say.
func clip(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "")
	}
	return text
}
