package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/hotpath/client"
	"spendgate/hotpath/wire"
)

const (
	maxAttempts   = 1000 // that one call goes through
	maxWalked     = 8    // attempts that are tried one by one before the last one is searched for
	maxRemembered = 10_000
	maxLeft       = 32 // redeemed checks of one call; with more, people have to look
)

// attempts remembers which attempt each call has reached, so that the service is not asked
// for old ones again. It is only a cache: a gateway that forgot finds the same attempt.
type attempts struct {
	mu sync.Mutex
	of map[string]gone // by identity
}

// gone is what is remembered of one call. It is forgotten as a whole: a call whose left checks
// are not known must begin with the first attempt.
type gone struct {
	at       int    // the attempt to begin with
	approval string // with which it begins, see mappedCall
	// left are the redeemed checks of attempts that are over: people may find out later that
	// one of them was carried out.
	left []string
}

// begin returns the attempt to begin with, 1 or more, and what earlier attempts left.
func (a *attempts) begin(identity string) gone {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.of[identity]
	of.at, of.left = max(1, of.at), slices.Clone(of.left)
	return of
}

// keep remembers the attempt that a call continues with, and adds the checks that its earlier
// attempts left. It returns all checks that were left.
func (a *attempts) keep(identity string, now gone) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	of, known := a.of[identity]
	if a.of == nil || !known && len(a.of) >= maxRemembered {
		a.of = make(map[string]gone)
	}
	if now.at >= of.at {
		of.at, of.approval = now.at, now.approval
	}
	for _, id := range now.left {
		if !slices.Contains(of.left, id) {
			of.left = append(of.left, id)
		}
	}
	a.of[identity] = of
	return slices.Clone(of.left)
}

// forget forgets one of the checks that were left.
func (a *attempts) forget(identity, checkID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of, known := a.of[identity]; known {
		of.left = slices.DeleteFunc(of.left, func(id string) bool { return id == checkID })
		a.of[identity] = of
	}
}

// corrected returns the check of an earlier attempt that was reported as failed or voided, and as
// executed afterwards; nil if there is none. An archived check can no longer be corrected.
func (c *mappedCall) corrected() (*client.Result, error) {
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	for _, id := range slices.Concat(c.left, c.passed) {
		check, err := c.gw.api.GetCheck(ctx, id)
		if refused, ok := errors.AsType[*client.Error](err); ok && refused.Code == client.CodeCheckNotFound {
			c.gw.attempts.forget(c.identity, id)
			c.left = slices.DeleteFunc(c.left, func(left string) bool { return left == id })
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("check %s of an earlier attempt cannot be read: %w", id, err)
		}
		if check.Outcome.Status == outcomeExecuted {
			return check, nil
		}
	}
	return nil, nil
}

// endedBefore returns the result of a call whose earlier attempt was carried out or cannot be read.
func (c *mappedCall) endedBefore(earlier *client.Result, unread error) result {
	if unread != nil {
		return c.failure("%v. Call again later with exactly the same arguments.", unread)
	}
	r, _ := c.settled(earlier)
	return r
}

// lastAttempt returns the last attempt that is recorded for the principal of this attempt. It
// searches by doubling and halving, and counts an attempt that cannot be read as absent. A call
// may continue with it: an attempt is made only once all earlier ones are over for good.
func (c *mappedCall) lastAttempt() int {
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	own, err := c.recorded(ctx, c.checked)
	if err != nil || own.Principal == "" {
		return c.attempt
	}
	made := func(attempt int) bool {
		page, err := c.gw.api.Checks(ctx, client.CheckQuery{IdempotencyKey: c.key(attempt), Limit: 100})
		return err == nil && anyOf(own.Principal, page.Data)
	}
	last, step := c.attempt, 1
	const most = 1 << 24
	for ; step < most && made(last+step); step *= 2 {
		last += step
	}
	for step /= 2; step > 0; step /= 2 {
		if made(last + step) {
			last += step
		}
	}
	return last
}

// anyOf reports whether one of the checks was asked for by the principal: listings also have
// the attempts of other principals.
func anyOf(principal string, checks []client.CheckRecord) bool {
	return slices.ContainsFunc(checks, func(c client.CheckRecord) bool { return client.SamePrincipal(c.Principal, principal) })
}

// otherRequest reports whether a check was refused because an earlier check has its
// idempotency key, and returns that check's identifier.
func otherRequest(err error) (bool, string) {
	refused, ok := errors.AsType[*client.Error](err)
	if !ok || refused.Code != client.CodeValidation || refused.CheckID == "" {
		return false, ""
	}
	return true, refused.CheckID
}

// otherArguments handles a call that would do something else than an earlier one, though the
// two are the same call by the arguments that the file names.
func (c *mappedCall) otherArguments(checkID string) (result, bool) {
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	record, err := c.recorded(ctx, checkID)
	if err != nil {
		return c.failure("another call with the same identity is recorded, and cannot be read: %v.", err), false
	}
	earlier := &record.Result
	if check, err := c.gw.api.GetCheck(ctx, earlier.CheckID); err == nil {
		earlier = check
	}
	switch {
	case earlier.Outcome.Reported():
		r, next := c.over(earlier)
		return r, next
	case exceeded(earlier), earlier.Decision == client.Block && c.judgesAgain():
		return result{}, true
	case earlier.ApprovalID != "":
		if a, err := c.gw.api.Approval(ctx, earlier.ApprovalID, 0); err == nil && a.Status == client.ApprovalExpired {
			return result{}, true
		}
	}
	return c.failureOf(earlier, "the same call was made before with other arguments: %s. Check: %s",
		differences(record.Action, c.action), earlier.CheckID), false
}

// recorded returns the check that has the attempt's idempotency key.
func (c *mappedCall) recorded(ctx context.Context, checkID string) (*client.CheckRecord, error) {
	page, err := c.gw.api.Checks(ctx, client.CheckQuery{IdempotencyKey: c.key(c.attempt), Limit: 100})
	if err != nil {
		return nil, err
	}
	for i, record := range page.Data {
		if record.CheckID == checkID {
			return &page.Data[i], nil
		}
	}
	return nil, fmt.Errorf("%s is not there", checkID)
}

// differences describes how the action of a call differs from a recorded one.
func differences(was wire.RecordedAction, is client.Action) string {
	var names []string
	for name, pair := range map[string][2]string{
		"amount": {was.Amount.String(), is.Amount.String()}, "currency": {was.Currency, is.Currency},
		"counterparty": {was.Counterparty, is.Counterparty}, "policy_id": {was.PolicyID, is.PolicyID},
		"action_type": {string(was.ActionType), string(is.ActionType)},
	} {
		if pair[0] != pair[1] {
			names = append(names, fmt.Sprintf("%s was %s and is %s", name, pair[0], pair[1]))
		}
	}
	recorded, err := parseObject(jsontext.Value(was.Metadata))
	if err == nil {
		for _, m := range recorded {
			now, _ := is.Metadata[m.name].(jsontext.Value)
			if a, b := equalForm(m.value), equalForm(now); a != b {
				names = append(names, "metadata."+m.name)
			}
		}
		for name := range is.Metadata {
			if recorded.get(name) == nil {
				names = append(names, "metadata."+name)
			}
		}
	}
	if names == nil {
		return "in something that is recorded and cannot be read"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func equalForm(value jsontext.Value) string {
	text, err := canonical(value)
	if err != nil {
		return string(value)
	}
	return string(text)
}
