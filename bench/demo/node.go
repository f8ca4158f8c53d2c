package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"spendgate/config"
	"spendgate/hotpath/client"
)

const userAgent = "spendgate-demo"

// node is the running node that is asked.
type node struct {
	base string
	api  *client.Client
}

func newNode(base string, key config.Secret) (*node, error) {
	api, err := client.New(client.Options{
		BaseURL: base, APIKey: string(key), UserAgent: userAgent,
		MaxWait: time.Nanosecond, // the demo itself waits for the rate limit, and says so
	})
	return &node{base: base, api: api}, err
}

// answer is what the node said to a check, and how long it took.
type answer struct {
	client.Result
	refusal string // the error's code, when there is no decision
	took    time.Duration
}

// check sends one action. A refusal is an answer; an error means that there is
// none.
func (n *node) check(ctx context.Context, a client.Action) (answer, error) {
	for {
		started := time.Now()
		result, err := n.api.Check(ctx, a)
		took := time.Since(started)
		if err == nil {
			return answer{Result: *result, took: took}, nil
		}
		refused, err := n.refusal(err)
		if err != nil {
			return answer{}, err
		}
		if refused.Status != http.StatusTooManyRequests {
			return answer{Result: client.Result{Message: refused.Message}, refusal: refused.Code, took: took}, nil
		}
		if err := waitForQuota(ctx, refused.RetryAfter); err != nil {
			return answer{}, err
		}
	}
}

// ensurePolicy stores a policy unless the node has one of its name.
func (n *node) ensurePolicy(ctx context.Context, body []byte) (version int, stored bool, err error) {
	id, err := policyID(body)
	if err != nil {
		return 0, false, err
	}
	policy, err := n.api.Policy(ctx, id, 0)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Code == client.CodePolicyNotFound {
		stored = true
		policy, err = n.api.CreatePolicyJSON(ctx, body)
	}
	if err != nil {
		refused, err := n.refusal(err)
		if err == nil {
			err = refused
		}
		return 0, false, err
	}
	return policy.Version, stored, nil
}

// refusal returns the node's error; one about the API key ends the demo.
func (n *node) refusal(err error) (*client.Error, error) {
	refused, ok := errors.AsType[*client.Error](err)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w (make run starts a node)", err)
	case refused.Code == "":
		return nil, fmt.Errorf("%s is no spendgate node: it answered with status %d", n.base, refused.Status)
	case refused.Status == http.StatusUnauthorized:
		return nil, fmt.Errorf("the node does not accept the API key: %s", refused.Message)
	case refused.Code == client.CodeForbidden: // every check would be refused
		return nil, fmt.Errorf("the API key is not for all of the demo: %s; set SPENDGATE_ADMIN_KEY, and the demo makes keys of its own", refused.Message)
	}
	return refused, nil
}

// waitForQuota waits until the API key's next window opens.
func waitForQuota(ctx context.Context, wait time.Duration) error {
	wait = max(wait, time.Second)
	fmt.Fprintf(os.Stderr, "     the key's rate limit is reached: waiting %.0f s\n", wait.Seconds())
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}
