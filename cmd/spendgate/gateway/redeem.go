package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"spendgate/hotpath/client"
)

// redemption is one that was asked for.
type redemption struct {
	key    string   // its idempotency key
	number int      // of the payment's lasting key, from 1
	passed []string // the checks that had the lasting keys before that
	again  bool     // it was asked for before: another gateway may have repeated the call since
}

func newRedemption(number int, passed []string) redemption {
	return redemption{key: "gw-" + rand.Text(), number: number, passed: passed}
}

// redemptions has the redemptions of which it is not known whether they were recorded, or given back,
// and whose calls were not made.
type redemptions struct {
	mu   sync.Mutex
	open map[string]redemption // by check
}

// take returns how to redeem a check: as an open redemption, which nobody else gets then,
// or a new one.
func (r *redemptions) take(checkID string) redemption {
	r.mu.Lock()
	defer r.mu.Unlock()
	of, open := r.open[checkID]
	delete(r.open, checkID)
	if !open {
		return newRedemption(1, nil)
	}
	of.again = true
	return of
}

// keep remembers a redemption for the next call.
func (r *redemptions) keep(checkID string, of redemption) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil || len(r.open) >= maxRemembered {
		r.open = make(map[string]redemption)
	}
	r.open[checkID] = of
}

// redeem redeems a check, once for each attempt to carry it out. Where it stayed
// unknown whether that was recorded, the next one asks for the same redemption. A
// payment for good has a lasting key for each redemption that was given back, and one more.
func (c *mappedCall) redeem(checkID string) (redemption, error) {
	for of := c.gw.redemptions.take(checkID); ; of = newRedemption(of.number+1, of.passed) {
		c.passed = of.passed
		asked := client.RedeemFor(c.action)
		asked.IdempotencyKey = of.key
		if c.t.Once {
			asked.Once = c.lastingKey(of.number)
		}
		ctx, cancel := c.asking(context.WithoutCancel(c.ctx))
		_, err := c.gw.api.Redeem(ctx, checkID, asked)
		cancel()
		if err == nil {
			return of, nil
		}
		refused, ok := errors.AsType[*client.Error](err)
		if !ok || refused.Status != http.StatusConflict {
			c.gw.redemptions.keep(checkID, of)
			return of, err
		}
		earlier := checkIn(refused.Message)
		if refused.Code != client.CodeOnceUsed || of.number == maxAttempts || !c.gaveBack(earlier) {
			return of, err
		}
		of.passed = append(slices.Clone(of.passed), earlier)
	}
}

// passedBefore finds the checks that had the lasting keys of a payment before a redeemed check
// had one: whoever redeemed it passed them, and people may have found out since that one was
// carried out. It reports whether it found all, and that the check has a lasting key.
func (c *mappedCall) passedBefore(checkID string) bool {
	var passed []string
	for number := 1; number <= maxLeft+1; number++ {
		asked := client.RedeemFor(c.action)
		asked.IdempotencyKey, asked.Once = "gw-"+rand.Text(), c.lastingKey(number)
		ctx, cancel := c.asking(c.ctx)
		_, err := c.gw.api.Redeem(ctx, checkID, asked) // which is refused, and names who has the lasting key
		cancel()
		refused, ok := errors.AsType[*client.Error](err)
		if !ok || refused.Code != client.CodeCheckAlreadyRedeemed {
			return false
		}
		switch other := checkIn(refused.Message); other {
		case "":
			return false
		case checkID:
			c.passed = passed
			return true
		default:
			passed = append(passed, other)
		}
	}
	return false
}

// lastingKey returns a lasting key of the payment, counted from 1.
func (c *mappedCall) lastingKey(number int) string { return fmt.Sprintf("%s-%d", c.payment, number) }

// gaveBack reports whether a redeemed check was carried out by nobody, and is over.
func (c *mappedCall) gaveBack(checkID string) bool {
	ctx, cancel := c.asking(context.WithoutCancel(c.ctx))
	defer cancel()
	check, err := c.gw.api.GetCheck(ctx, checkID)
	return err == nil && (check.Outcome.Status == outcomeFailed || check.Outcome.Status == outcomeVoided) && !check.Outcome.ReleasePending
}

// doubted reports whether it is recorded that a check is in doubt, which is repeated then.
func (c *mappedCall) doubted(checkID string) bool {
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	return c.gw.doubt(ctx, checkID, repeatedNote)
}

// doubt records that nobody knows what became of a redeemed check. Where that fails it is
// false, and the service does it by itself, later.
func (g *Gateway) doubt(ctx context.Context, checkID, note string) bool {
	_, err := g.api.ReportInDoubt(ctx, checkID, note)
	if err != nil {
		g.log.Warn("what is in doubt was not recorded; the service does it by itself", "check_id", checkID, "error", err)
	}
	return err == nil
}
