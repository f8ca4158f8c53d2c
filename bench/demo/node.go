package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"spendgate/config"
)

// node is the running node that is asked.
type node struct {
	base   string
	key    config.Secret
	client *http.Client
}

func newNode(base string, key config.Secret) *node {
	return &node{base: base, key: key, client: &http.Client{Timeout: 30 * time.Second}}
}

// answer is what the node said to a check, and how long it took.
type answer struct {
	body     string
	replayed bool
	refusal  string // the error's code, when there is no decision
	took     time.Duration

	Decision   string `json:"decision"`
	Confidence string `json:"confidence"`
	ReasonCode string `json:"reason_code"`
	RuleID     string `json:"violated_rule_id"`
	Message    string `json:"message"`
	LatencyMS  int64  `json:"latency_ms"`
}

// errorBody is the shape of every error.
type errorBody struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// check asks about one action. A refusal is an answer; an error is that there
// is none.
func (n *node) check(ctx context.Context, a action) (answer, error) {
	body, err := json.Marshal(a)
	if err != nil {
		return answer{}, err
	}
	started := time.Now()
	r, err := n.do(ctx, http.MethodPost, "/v1/checks", body)
	result := answer{body: string(r.body), took: time.Since(started)}
	if err != nil {
		return result, err
	}
	switch r.status {
	case http.StatusOK:
		result.replayed = r.header.Get("Idempotent-Replayed") == "true"
		err := json.Unmarshal(r.body, &result)
		return result, err
	case http.StatusTooManyRequests:
		if err := waitForQuota(ctx, r.header); err != nil {
			return result, err
		}
		return n.check(ctx, a)
	}
	failure, err := n.failure(r)
	result.refusal, result.Message = failure.Error.Code, failure.Error.Message
	return result, err
}

// ensurePolicy stores a policy unless the node has one of its name.
func (n *node) ensurePolicy(ctx context.Context, body []byte) (version int, stored bool, err error) {
	var policy struct {
		PolicyID string `json:"policy_id"`
		Version  int    `json:"version"`
	}
	if err := json.Unmarshal(body, &policy); err != nil {
		return 0, false, err
	}
	r, err := n.do(ctx, http.MethodGet, "/v1/policies/"+url.PathEscape(policy.PolicyID), nil)
	if err != nil {
		return 0, false, err
	}
	if r.status == http.StatusNotFound {
		stored = true
		if r, err = n.do(ctx, http.MethodPost, "/v1/policies", body); err != nil {
			return 0, false, err
		}
	}
	if r.status/100 != 2 {
		failure, err := n.failure(r)
		if err == nil {
			err = errors.New(failure.Error.Code + ": " + failure.Error.Message)
		}
		return 0, false, err
	}
	err = json.Unmarshal(r.body, &policy)
	return policy.Version, stored, err
}

// reply is what came back over HTTP.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (n *node) do(ctx context.Context, method, path string, body []byte) (reply, error) {
	request, err := http.NewRequestWithContext(ctx, method, n.base+path, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	request.Header.Set("X-API-Key", string(n.key))
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := n.client.Do(request)
	if err != nil {
		return reply{}, fmt.Errorf("no answer from the node (make run starts one): %w", err)
	}
	text, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, text}, errors.Join(err, response.Body.Close())
}

// failure reads a refusal; one of the key ends the demo.
func (n *node) failure(r reply) (errorBody, error) {
	var failure errorBody
	if err := json.Unmarshal(r.body, &failure); err != nil || failure.Error.Code == "" {
		return failure, fmt.Errorf("%s is no spendgate node: it answered with status %d", n.base, r.status)
	}
	if r.status == http.StatusUnauthorized {
		return failure, fmt.Errorf("the node does not accept the API key: %s", failure.Error.Message)
	}
	return failure, nil
}

// waitForQuota waits until the API key's next window opens.
func waitForQuota(ctx context.Context, header http.Header) error {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		seconds = 1
	}
	fmt.Fprintf(os.Stderr, "     the key's rate limit of %s a minute is reached: waiting %d s\n",
		header.Get("X-RateLimit-Limit"), seconds)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(seconds) * time.Second):
		return nil
	}
}
