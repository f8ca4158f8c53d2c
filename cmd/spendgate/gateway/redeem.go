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

// redemption is a redemption that the service was asked for.
type redemption struct {
	key    string   // the redemption's idempotency key
	number int      // of the payment's lasting key, from 1
	passed []string // the checks that have the lasting keys of lower numbers
	again  bool     // an earlier call asked for it, too: another gateway may have repeated the call since
}

func newRedemption(number int, passed []string) redemption {
	return redemption{key: "gw-" + rand.Text(), number: number, passed: passed}
}

// redemptions has the open redemptions: it is unknown whether they were recorded, or whether they
// were given back, and their calls were not made.
type redemptions struct {
	mu   sync.Mutex
	open map[string]redemption // by check
}

// take returns the open redemption of a check, and removes it so that no other call gets it. If
// there is none, it returns a new one.
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

// redeem redeems a check, once for each attempt to carry it out. If it is unknown whether the
// redemption was recorded, the next attempt asks for the same one. A payment that is made only
// once has a lasting key for each redemption that was given back, and one more.
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
		earlier := refused.CheckID
		if refused.Code != client.CodeOnceUsed || of.number == maxAttempts || !c.gaveBack(earlier) {
			return of, err
		}
		of.passed = append(slices.Clone(of.passed), earlier)
	}
}

// passedBefore finds the checks that have the lasting keys of a payment before the key of a redeemed
// check. The gateway that redeemed the check passed them over as given back, but people may have
// found out since that one was carried out. It reports whether it found all of them and the check
// has a lasting key.
func (c *mappedCall) passedBefore(checkID string) bool {
	var passed []string
	for number := 1; number <= maxLeft+1; number++ {
		asked := client.RedeemFor(c.action)
		asked.IdempotencyKey, asked.Once = "gw-"+rand.Text(), c.lastingKey(number)
		ctx, cancel := c.asking(c.ctx)
		_, err := c.gw.api.Redeem(ctx, checkID, asked) // it is refused, and the error names the check that has the lasting key
		cancel()
		refused, ok := errors.AsType[*client.Error](err)
		if !ok || refused.Code != client.CodeCheckAlreadyRedeemed {
			return false
		}
		switch other := refused.CheckID; other {
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

// gaveBack reports whether a redeemed check was not carried out, and is over.
func (c *mappedCall) gaveBack(checkID string) bool {
	ctx, cancel := c.asking(context.WithoutCancel(c.ctx))
	defer cancel()
	check, err := c.gw.api.GetCheck(ctx, checkID)
	return err == nil && (check.Outcome.Status == outcomeFailed || check.Outcome.Status == outcomeVoided) && !check.Outcome.ReleasePending
}

// doubted records that a check is in doubt, whose call is repeated then, and reports whether that
// succeeded.
func (c *mappedCall) doubted(checkID string) bool {
	ctx, cancel := c.asking(c.ctx)
	defer cancel()
	return c.gw.doubt(ctx, checkID, repeatedNote)
}

// doubt records that it is unknown what became of a redeemed check, and reports whether that
// succeeded. If it fails, the service records it by itself later.
func (g *Gateway) doubt(ctx context.Context, checkID, note string) bool {
	_, err := g.api.ReportInDoubt(ctx, checkID, client.Doubt{Note: note})
	if err != nil {
		g.log.Warn("what is in doubt was not recorded; the service does it by itself", "check_id", checkID, "error", err)
	}
	return err == nil
}
