package load

import (
	"errors"
	"fmt"
)

// Workload describes the actions that are sent.
type Workload struct {
	Seed     uint64
	Keys     int // API keys; each agent uses one
	Agents   int
	Policies int // each agent is decided by one
}

// DefaultWorkload returns the workload of the project's performance targets.
func DefaultWorkload(seed uint64) Workload {
	return Workload{Seed: seed, Keys: 200, Agents: 2000, Policies: 10}
}

// Validate reports every fault.
func (w Workload) Validate() error {
	var faults []error
	for name, n := range map[string]int{"keys": w.Keys, "agents": w.Agents, "policies": w.Policies} {
		if n < 1 {
			faults = append(faults, fmt.Errorf("%s must be at least 1, not %d", name, n))
		}
	}
	return errors.Join(faults...)
}

// The shares of the workload, in percent; what is neither Allowed nor Blocked escalates.
const (
	Allowed = 60
	Blocked = 25
	Keyed   = 30 // with an idempotency key
)

// Effect is a decision.
type Effect string

// The decisions, as spendgate spells them.
const (
	Allow    Effect = "allow"
	Block    Effect = "block"
	Escalate Effect = "escalate"
)

// Verdict is the right answer to an action.
type Verdict struct {
	Effect Effect
	RuleID string // of the rule that fires; empty on Allow
}

// Action is one request, before it is written in a server's protocol. Empty
// and negative fields are left out.
type Action struct {
	Serial          uint64
	Seed            uint64
	Agent           int
	Key             int
	Policy          int
	Type            string
	Cents           uint64
	Vendor          string // counterparty; empty means a customer named by Serial
	PaymentMethod   string
	Category        string
	Country         string
	DaysSince       int // the purchase
	DiscountPercent int
	Keyed           bool
	Want            Verdict
}

// Action makes the action of a serial number, the same every time. No two serials have the same
// agent, type, amount and counterparty: customers are named by the serial, and an agent's payments
// to one vendor differ in their amounts.
func (w Workload) Action(serial uint64, a *Action) {
	dice := newDice(w.Seed, serial)
	agent := int(serial % uint64(w.Agents))
	turn := serial / uint64(w.Agents)
	*a = Action{
		Serial: serial, Seed: w.Seed, Agent: agent, Key: agent % w.Keys, Policy: agent % w.Policies,
		Type:            actionTypes[pick(&dice, len(actionTypes))],
		Vendor:          Vendor(int(turn % Vendors)),
		PaymentMethod:   paymentMethods[pick(&dice, len(paymentMethods))],
		Category:        categories[pick(&dice, len(categories))],
		Country:         countries[pick(&dice, len(countries))],
		DaysSince:       pick(&dice, MaxDaysSince),
		DiscountPercent: pick(&dice, MaxDiscountPercent),
		Keyed:           pick(&dice, 100) < Keyed,
	}
	// A stride without a common factor with the range visits all of it.
	cents := (turn / Vendors * 61_681) % ordinaryCents
	switch share := pick(&dice, 100); {
	case share < Allowed:
		a.Cents, a.Want = minCents+cents, Verdict{Effect: Allow}
	case share < Allowed+Blocked:
		a.Cents = minCents + cents
		a.Want = Verdict{Block, a.offend(pick(&dice, offences), cents)}
	default:
		if a.Type == "discount" {
			a.Type = "refund" // discounts never escalate
		}
		a.Cents, a.Want = escalatingCents+cents, Verdict{Escalate, "needs-a-human"}
	}
	a.clearFields()
}

// offend makes the action break one rule and names it.
func (a *Action) offend(offence int, cents uint64) string {
	switch offence {
	case 0:
		a.Cents = blockedCents + cents
		return "cap"
	case 1:
		a.Category = BlockedCategories[a.Serial%uint64(len(BlockedCategories))]
		return "categories"
	case 2:
		a.PaymentMethod = BlockedRails[a.Serial%uint64(len(BlockedRails))]
		return "rails"
	case 3:
		a.Country = BlockedCountries[a.Serial%uint64(len(BlockedCountries))]
		return "countries"
	case 4:
		a.Type, a.Vendor = "spend", "" // a customer is on no allowlist
		return "vendors"
	case 5:
		a.Type, a.DaysSince = "refund", MaxDaysSince+1+a.DaysSince
		return "refund-age"
	default:
		a.Type, a.DiscountPercent = "discount", MaxDiscountPercent+1+a.DiscountPercent
		return "discount-cap"
	}
}

// clearFields clears the fields that the action's type does not have.
func (a *Action) clearFields() {
	if a.Type != "spend" {
		a.Vendor = ""
	}
	if a.Type != "refund" {
		a.DaysSince = -1
	}
	if a.Type != "discount" {
		a.DiscountPercent = -1
	}
}

// offences is how many ways there are to be blocked.
const offences = 7

// Amounts in cents: every range is ordinaryCents wide.
const (
	minCents        = 100
	ordinaryCents   = 89_989  // prime; up to 900.89
	escalatingCents = 200_000 // above every policy's threshold
	blockedCents    = 700_000 // above every policy's cap
)

// dice are random numbers that depend on nothing but seed and serial.
type dice uint64

func newDice(seed, serial uint64) dice {
	d := dice(seed*0x9e3779b97f4a7c15 ^ serial)
	d.roll()
	return d
}

// roll returns a step of SplitMix64.
func (d *dice) roll() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// pick returns a number below n.
func pick(d *dice, n int) int { return int(d.roll() >> 33 % uint64(n)) }
