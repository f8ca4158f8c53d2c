// Package pay carries payments out at most once (S84, S85, G16). The service decides; this package
// follows its answers and stores nothing.
package pay

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"spendgate/audit/pause"
	"spendgate/audit/spend"
	"spendgate/hotpath/client"
)

const (
	fresh       = 10 * time.Minute // how old a permission may be: after 15 minutes a payment is in doubt
	releaseWait = 5 * time.Second
	mostWait    = 30 * time.Second // that the service holds an answer
	firstPoll   = 200 * time.Millisecond
	mostPoll    = 2 * time.Second
)

// Options are what a Guard uses.
type Options struct {
	Client *client.Client // with a key that may redeem (role gateway) and has a principal
	Logger *slog.Logger   // nil logs nothing
	// Unanswered is how long a request is repeated that has no answer; 0 is a minute.
	Unanswered time.Duration
	// Unreported, unless nil, is called each time that the service did not record a report.
	Unreported func()
}

// Guard carries payments out. It is safe for concurrent use.
type Guard struct {
	api        *client.Client
	log        *slog.Logger
	unanswered time.Duration
	unreported func()
	background sync.WaitGroup
}

// New makes a Guard.
func New(o Options) *Guard {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Unreported == nil {
		o.Unreported = func() {}
	}
	return &Guard{api: o.Client, log: o.Logger, unreported: o.Unreported, unanswered: cmp.Or(o.Unanswered, time.Minute)}
}

// Wait waits until the reports that are repeated in the background have ended.
func (g *Guard) Wait() { g.background.Wait() }

// Payment is what is to be carried out at most once.
type Payment struct {
	Action   client.Action // with a PaymentKey; the Guard chooses the nonce
	Wait     time.Duration // for people who approve
	Patience time.Duration // for another caller who is carrying it out
	// TakeOver says that the provider takes the execution_id as its idempotency key.
	TakeOver bool
}

// Permit is the permission to carry a payment out, now and once.
type Permit struct {
	CheckID      string
	ExecutionID  string // the provider's idempotency key
	RedemptionID string
	TakenOver    bool // another caller may be carrying it out, under the same ExecutionID
}

// End is how a body ended.
type End struct {
	Outcome   Outcome
	Amount    *client.Amount // that was moved, if another than the action's
	Reference string
	Note      string
}

// Outcome says what a body did.
type Outcome int

// The outcomes. The zero value is that nobody knows.
const (
	Unknown  Outcome = iota
	Executed         // the money moved
	Declined         // the provider answered that it moved nothing
	Unsent           // nothing was sent to the provider
)

// State is how a call ended.
type State int

// The states. Only with Ran, Rejected and InDoubt the body may have run.
const (
	Error      State = iota // the service refused the request, or the call was given up
	Unanswered              // the service gave no answer that can be used; the same call may be made again
	Ran                     // executed by this call
	Already                 // executed by an earlier call
	Blocked                 // by a rule
	Denied                  // by people
	Stopped                 // escalated by a rule that asks nobody
	Expired                 // people did not decide in time
	Pending                 // people have not decided yet
	InDoubt                 // it may have been carried out
	Rejected                // the provider moved nothing
)

// String returns the state's name.
func (s State) String() string {
	names := [...]string{"error", "unanswered", "ran", "already", "blocked", "denied", "stopped", "expired", "pending", "in_doubt", "rejected"}
	if s < 0 || int(s) >= len(names) {
		return "unknown"
	}
	return names[s]
}

// Result is how a call ended.
type Result struct {
	State     State
	Check     *client.Result // as the service showed it last; nil without an answer
	Reference string
	Err       error // why, unless the decision says it
	// InProgress says of InDoubt that another call may still be carrying it out: nobody should report it yet.
	InProgress bool
}

// call is one call of Run. It has one nonce and runs one body.
type call struct {
	*Guard
	payment Payment
	action  client.Action
	asked   time.Time // when the request was sent first whose answer may be a permission
	last    *client.Result
}

// Run asks the service and runs the body if, and only if, the service says that this call carries the
// payment out. A context that ends before the body begins ends the call; the body has the same context.
func (g *Guard) Run(ctx context.Context, p Payment, body func(context.Context, Permit) End) Result {
	c := &call{Guard: g, payment: p, action: p.Action}
	c.action.Redeem = "go-" + rand.Text()
	if key, fault := spend.PaymentKey(p.Action.PaymentKey); key == "" || fault != "" {
		return Result{Err: errors.New("the payment has no key that names it")}
	}
	if p.Action.Amount.IsZero() {
		return Result{Err: errors.New("the amount is 0, which some providers take for no amount, and then for all that there is")}
	}
	permit, ended := c.ask(ctx)
	if permit == nil {
		ended.Check = c.last
		return ended
	}
	switch {
	case age(c.asked) > fresh:
		return Result{State: InDoubt, Check: c.last, Err: errors.New("the service's permission came too late: this call carried out nothing")}
	case ctx.Err() != nil:
		r := c.report(ctx, *permit, End{Outcome: Unsent, Note: "given up before it was carried out"})
		r.Check = c.last
		return r
	}
	end := body(ctx, *permit)
	r := c.report(ctx, *permit, end)
	r.Check, r.Reference = c.last, end.Reference
	return r
}

// age returns how long ago a moment was, also on a machine that slept, whose monotonic clock stood still.
func age(moment time.Time) time.Duration {
	return max(time.Since(moment), time.Now().Round(0).Sub(moment.Round(0)))
}

// ask asks until there is a permission or another end.
func (c *call) ask(ctx context.Context) (*Permit, Result) {
	began := time.Now()
	key, _ := spend.PaymentKey(c.action.PaymentKey)
	for poll := firstPoll; ; poll = min(2*poll, mostPoll) {
		waited := time.Since(began)
		c.action.Wait = max(0, min(c.payment.Wait-waited, mostWait))
		c.action.TakeOver = c.payment.TakeOver && (c.action.TakeOver || waited >= c.payment.Patience)
		if c.asked.IsZero() {
			c.asked = time.Now()
		}
		check, err := c.answer(ctx)
		if refused, ok := errors.AsType[*client.Error](err); ok && refused.Definite() && !client.Temporary(refused) {
			return nil, Result{Err: refused}
		}
		if err != nil {
			return nil, Result{State: Unanswered, Err: err}
		}
		c.last = check
		p := check.Payment
		switch {
		case check.Allowed():
			return &Permit{check.CheckID, p.ExecutionID, p.RedemptionID, c.action.TakeOver}, Result{}
		case p == nil || p.PaymentKey != key || p.Proceed:
			return nil, Result{State: Unanswered, Err: errors.New("the service's answer is not about this call's payment")}
		}
		c.asked = time.Time{} // what this answer shows, no earlier request of this call has redeemed
		again, r := c.shown(check, waited)
		if !again {
			return nil, r
		}
		if pause.For(ctx, poll) != nil {
			r.Err = context.Cause(ctx)
			return nil, r
		}
	}
}

// shown returns how the call ends by an answer that is no permission, or whether to ask again.
func (c *call) shown(check *client.Result, waited time.Duration) (again bool, r Result) {
	p := check.Payment
	switch p.State {
	case "executed":
		return false, Result{State: Already, Reference: p.Reference}
	case "waiting", "free":
		switch {
		case check.Decision == client.Block:
			return false, Result{State: Blocked}
		case p.State == "waiting":
			return waited+c.action.Wait < c.payment.Wait, Result{State: Pending}
		case check.Decision == client.Escalate:
			return false, Result{State: Expired}
		}
	case "denied":
		return false, Result{State: Denied}
	case "escalated":
		return false, Result{State: Stopped}
	case "releasing":
		return waited < releaseWait, Result{State: InDoubt}
	case "redeemed":
		return waited < c.payment.Patience || c.payment.TakeOver && !c.action.TakeOver, Result{State: InDoubt, InProgress: true}
	case "in_doubt":
		again = c.payment.TakeOver && !c.action.TakeOver
		c.action.TakeOver = c.payment.TakeOver
		return again, Result{State: InDoubt}
	}
	return false, Result{State: Unanswered, Err: fmt.Errorf("the answer permits nothing: the payment is %s", spend.Printable(p.State))}
}

// answer sends a request until it has an answer, or it was repeated for long enough.
func (c *call) answer(ctx context.Context) (*client.Result, error) {
	end := time.Now().Add(c.unanswered + c.action.Wait)
	for poll := firstPoll; ; poll = min(2*poll, mostPoll) {
		bounded, cancel := context.WithDeadline(ctx, end)
		check, err := c.api.Check(bounded, c.action)
		cancel()
		if !client.Temporary(err) || time.Now().Add(poll).After(end) {
			return check, err
		}
		if pause.For(ctx, poll) != nil {
			return nil, err
		}
	}
}
