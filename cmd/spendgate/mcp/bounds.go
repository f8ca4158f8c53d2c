package mcp

import (
	"bufio"
	"fmt"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxInFlight bounds the requests in flight: of all clients over HTTP, of the
// one client over a pair of streams.
const maxInFlight = 64

// limited refuses requests past maxInFlight.
func limited(next http.Handler) http.Handler {
	places := make(chan struct{}, maxInFlight)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests in flight; try again", http.StatusServiceUnavailable)
			return
		}
		defer func() { <-places }()
		next.ServeHTTP(w, r)
	})
}

// oneMessage refuses JSON-RPC batches, unread. The SDK would answer all requests of a batch at once: a
// body within maxBody can hold some 40,000 requests, and their answers take gigabytes.
func oneMessage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit := http.MaxBytesReader(w, r.Body, maxBody)
		body := bufio.NewReader(limit)
		if isBatch(body) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, batchRefused().answer()) // fails only if the client has disconnected
			return
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{body, limit}
		next.ServeHTTP(w, r)
	})
}

// isBatch reports whether a text is an array. It reads the white space before
// it.
func isBatch(text io.ByteScanner) bool {
	for {
		switch first, err := text.ReadByte(); {
		case err != nil:
			return false // the next reader sees the same error
		case first == ' ' || first == '\t' || first == '\r' || first == '\n':
		default:
			_ = text.UnreadByte() // of what was just read
			return first == '['
		}
	}
}

func batchRefused() *lineError {
	return &lineError{jsonrpc.CodeInvalidRequest, "batches are not accepted: send each message on its own"}
}

// answer returns the error response to a message whose ID is not known.
func (e *lineError) answer() string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", e.code, e.problem)
}
