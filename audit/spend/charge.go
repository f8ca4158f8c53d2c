package spend

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Counter identifies a counter of a budget: one row per window, or per bucket of a rolling window
// (S37).
type Counter struct {
	// ID is a hash of the budget, the version since which it counts, and the subject (CounterID).
	ID ID
	// StartMS names the window or bucket. A bucket has the Unix milliseconds at which it begins. A calendar
	// window has what clocks in its zone show at its beginning, as though in UTC: its local date. So a
	// counter goes on when newer rules of the zone move the window's ends. A lifetime has 0.
	StartMS int64
	// BucketMS is the length of a rolling window's bucket; 0 for a calendar window. The bucket and the
	// RollingBuckets before it count (S34).
	BucketMS int64
}

// RollingBuckets is the number of buckets of a rolling window.
const RollingBuckets = 60

const counterDomain = "spendgate counter 1\n"

// CounterID returns the ID of the counter of a policy's budget that counts since
// that version, for the subject.
func CounterID(policyID, ruleID string, since int, subject string) ID {
	var buf [512]byte
	b := append(buf[:0], counterDomain...)
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(policyID))), policyID...)
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(ruleID))), ruleID...)
	b = binary.BigEndian.AppendUint32(b, uint32(since))
	sum := sha256.Sum256(append(b, subject...))
	return ID(sum[:16])
}

// SubjectOf returns for whom a counter counts that has these values of `per`: a JSON
// array of them in NFC, as rows keep it.
func SubjectOf(values ...string) string {
	var buf [192]byte // one string is made
	b := append(buf[:0], '[')
	for i, value := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, NFC(value)) // it is valid UTF-8
	}
	return string(append(b, ']'))
}

// BudgetSince says since when a budget counts: since the first of the versions,
// up to this one, in which it is the same (S37).
type BudgetSince struct {
	Identity Hash // of the parameters that identify the budget
	Version  int
	At       time.Time // when that version was created
}

// Charge is what a check takes from one counter if it is allowed, and the condition on the counter,
// which an escalated check must meet as well (S35). A check has one for each budget that judges it, in
// the policy's order.
type Charge struct {
	Counter Counter
	RuleID  string
	Since   int    // the version of the policy since which the counter counts
	Subject string // for whom the budget counts: a JSON array of the values of `per`, in the order of S33
	AgentID string // the subject's; empty unless the budget is per agent
	Amount  Amount
	// NoCurrency: the budget has no currency, and counts no amount.
	NoCurrency bool

	// The limits of the policy's version with what is Granted. Exactly the limit is within it.
	Limited  bool
	Limit    Total
	Counted  bool
	MaxCount int64
	NotifyAt Percentages
	Granted  Usage // what open grants add to the limits (S91)
	// Raised is the last change of the counter's grants by which the charge was judged; 0 without an open grant.
	Raised int64

	// Lifted: taken whether there is room or not (S47).
	Lifted bool
	// Freed is what the check's commit gives back of the same window, of the check that it replaces (S84): the charge meets
	// what is left. Nil for nothing. Not in rows.
	Freed *Usage
	// OffsetMS is how far the zone's clocks were ahead of UTC at the beginning of a calendar window, by the
	// rules of the zone that the node had.
	OffsetMS int64
	// EndMS is when the counter is no longer needed to judge, in Unix
	// milliseconds; 0 of a lifetime.
	EndMS int64
}

// BeginMS returns when the window or bucket began, in Unix milliseconds; 0 of a lifetime.
func (c *Charge) BeginMS() int64 { return c.Counter.StartMS - c.OffsetMS }

// Usage is what was taken from a counter; for a rolling window, from all of its buckets that count.
type Usage struct {
	Used  Total
	Count int64
}

// Add returns the sum of both.
func (u Usage) Add(other Usage) Usage { return Usage{u.Used.Plus(other.Used), u.Count + other.Count} }

// Plus returns the usage with the charge taken.
func (u Usage) Plus(c *Charge) Usage {
	return Usage{u.Used.Plus(c.Amount.Total()), u.Count + 1}
}

// Before returns the usage that the charge meets, of what is recorded.
func (c *Charge) Before(recorded Usage) Usage {
	if c.Freed == nil {
		return recorded
	}
	left, _ := recorded.Used.Minus(c.Freed.Used) // never more than was taken
	return Usage{left, recorded.Count - c.Freed.Count}
}

// Free notes what of the charge's window is given back: what an allowed check took, of which nothing was reported.
func (c *Charge) Free(taken []Charge) {
	for i := range taken {
		of := &taken[i].Counter
		if of.ID == c.Counter.ID && of.BucketMS == c.Counter.BucketMS &&
			(of.StartMS == c.Counter.StartMS || of.BucketMS > 0 && of.StartMS >= c.Counter.StartMS-RollingBuckets*of.BucketMS) {
			c.Freed = &Usage{taken[i].Amount.Total(), 1}
		}
	}
}

// Fits reports whether there is room for the charge.
func (c *Charge) Fits(u Usage) bool {
	return c.Lifted || c.FitsLimit(u) && c.FitsCount(u)
}

// FitsLimit reports whether there is room for the charge's amount.
func (c *Charge) FitsLimit(u Usage) bool {
	return !c.Limited || u.Used.Plus(c.Amount.Total()).Cmp(c.Limit) <= 0
}

// Grant raises the limits that the charge has, by a grant that was opened by the change of that number.
func (c *Charge) Grant(used Total, count, change int64) {
	if c.Limited && !used.IsZero() {
		c.Limit, c.Granted.Used, c.Raised = c.Limit.Plus(used), c.Granted.Used.Plus(used), max(c.Raised, change)
	}
	if c.Counted && count > 0 {
		c.MaxCount, c.Granted.Count, c.Raised = c.MaxCount+count, c.Granted.Count+count, max(c.Raised, change)
	}
}

// FitsCount reports whether there is room for one more.
func (c *Charge) FitsCount(u Usage) bool { return !c.Counted || u.Count < c.MaxCount }

// AppendTaken appends the charges as a check's row keeps them, JSON; nothing when
// nothing was taken. Only an allowed check takes (S34).
func (c *Check) AppendTaken(b []byte) []byte {
	if c.Decision.Effect != Allow || len(c.Charges) == 0 {
		return b
	}
	start := len(b)
	for i := range c.Charges {
		ch := &c.Charges[i]
		b = append(b, `,{"rule_id":`...)
		b, _ = jsontext.AppendQuote(b, ch.RuleID) // it is valid UTF-8
		b = append(b, `,"since":`...)
		b = strconv.AppendInt(b, int64(ch.Since), 10)
		b = append(append(b, `,"per":`...), ch.Subject...)
		b = append(b, `,"start_ms":`...)
		b = strconv.AppendInt(b, ch.Counter.StartMS, 10)
		if ch.OffsetMS != 0 {
			b = append(b, `,"offset_ms":`...)
			b = strconv.AppendInt(b, ch.OffsetMS, 10)
		}
		b = append(b, `,"bucket_ms":`...)
		b = strconv.AppendInt(b, ch.Counter.BucketMS, 10)
		b = append(b, `,"end_ms":`...)
		b = strconv.AppendInt(b, ch.EndMS, 10)
		if !ch.NoCurrency {
			b = ch.Amount.Append(append(b, `,"amount":`...))
		}
		if !ch.Granted.Used.IsZero() {
			b = ch.Granted.Used.Append(append(b, `,"granted":`...))
		}
		if ch.Granted.Count > 0 {
			b = strconv.AppendInt(append(b, `,"granted_count":`...), ch.Granted.Count, 10)
		}
		b = append(b, '}')
	}
	b[start] = '['
	return append(b, ']')
}

// ParseTaken is the inverse of AppendTaken, as far as rows keep charges: without their
// conditions.
func ParseTaken(policyID, text string) ([]Charge, error) {
	if text == "" {
		return nil, nil
	}
	var kept []struct {
		RuleID   string          `json:"rule_id"`
		Since    int             `json:"since"`
		Per      json.RawMessage `json:"per"`
		StartMS  int64           `json:"start_ms"`
		OffsetMS int64           `json:"offset_ms"`
		BucketMS int64           `json:"bucket_ms"`
		EndMS    int64           `json:"end_ms"`
		Amount   *Amount         `json:"amount"`
		Granted  Total           `json:"granted"`
		GrantedN int64           `json:"granted_count"`
	}
	if err := json.Unmarshal([]byte(text), &kept); err != nil {
		return nil, fmt.Errorf("cannot read the charges of a check: %w", err)
	}
	charges := make([]Charge, len(kept))
	for i, k := range kept {
		subject := string(k.Per)
		charges[i] = Charge{
			Counter: Counter{CounterID(policyID, k.RuleID, k.Since, subject), k.StartMS, k.BucketMS},
			RuleID:  k.RuleID, Since: k.Since, Subject: subject, OffsetMS: k.OffsetMS, EndMS: k.EndMS,
			Granted: Usage{k.Granted, k.GrantedN},
		}
		if k.Amount == nil {
			charges[i].NoCurrency = true
		} else {
			charges[i].Amount = *k.Amount
		}
	}
	return charges, nil
}
