package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/hotpath/client"
)

const (
	// maxWait is how long a call waits for people: hosts give calls up after a
	// minute.
	maxWait = 50 * time.Second
	// toAnswer is the time that the client keeps for the answer when the service holds it.
	toAnswer = 2 * time.Second
	// maxWaiting bounds the calls that wait, so that they leave room for checks
	// among maxInFlight; more are answered at once.
	maxWaiting = maxInFlight / 2
)

// waitForApproval returns an approval as soon as it is decided, or its present state when the time is
// up, the server stops or too many calls wait already.
func (s *Server) waitForApproval(ctx context.Context, arguments []byte) (*sdk.CallToolResult, error) {
	var q approvalWait
	if err := decode(arguments, &q); err != nil {
		return nil, err
	}
	a, err := s.waited(ctx, q)
	if err != nil {
		return nil, err
	}
	return answer(approvalText(a), a.Body), nil
}

func (s *Server) waited(ctx context.Context, q approvalWait) (*client.Approval, error) {
	wait := maxWait
	if q.WaitSeconds != nil {
		wait = time.Duration(*q.WaitSeconds) * time.Second
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		wait = 0
	}
	// A call that can be answered at once is answered before anything ends the wait.
	a, err := s.client.Approval(ctx, q.ApprovalID, 0)
	if err != nil || a.Status != client.ApprovalPending || wait == 0 {
		return a, err
	}
	waiting, cancel := context.WithTimeout(ctx, min(wait+toAnswer, maxWait))
	defer cancel()
	go func() {
		select {
		case <-s.stopping:
			cancel()
		case <-waiting.Done():
		}
	}()
	later, err := s.client.WaitForApproval(waiting, q.ApprovalID)
	switch {
	case later != nil:
		return later, nil
	case waiting.Err() != nil: // before the first answer
		return a, nil
	default:
		return nil, err
	}
}

// approvalText returns the status first, then what to do.
func approvalText(a *client.Approval) string {
	lines := []string{fmt.Sprintf("Approval: %s is %s.", a.ApprovalID, a.Status)}
	if a.Status == client.ApprovalPending {
		lines[0] += " Pending is not approved: do not carry the action out."
	}
	for _, d := range a.Decisions {
		lines = append(lines, fmt.Sprintf("%s decided: %s. %s", d.Principal, d.Decision, d.Note))
	}
	return strings.Join(append(lines, "Next step: "+a.NextStep), "\n")
}
