package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"spendgate/hotpath/client"
)

// kind is the kind of a step.
type kind int

const (
	fresh     kind = iota // an action of its own
	replay                // an earlier request again, with its idempotency key
	duplicate             // an earlier action again, as a loop or a bug sends it
	misuse                // an earlier idempotency key for another amount
)

// step is one request of the script.
type step struct {
	kind   kind
	of     int // the earlier step, unless fresh
	action client.Action
}

// writer draws a script.
type writer struct {
	random *rand.Rand
	run    string
	steps  []step
	used   map[string]bool // fingerprints, so that only duplicates are duplicates
}

// script writes count steps. Of ten, eight are fresh; the others repeat earlier
// ones.
func script(random *rand.Rand, run string, count int) []step {
	w := writer{random: random, run: run, used: make(map[string]bool)}
	for len(w.steps) < count {
		s := step{kind: fresh}
		if len(w.steps) > 5 {
			switch draw := w.random.IntN(100); {
			case draw < 9:
				s = w.again(replay)
			case draw < 18:
				s = w.again(duplicate)
			case draw < 20:
				s = w.again(misuse)
			}
		}
		if s.kind == fresh {
			s.action = w.fresh()
		}
		w.steps = append(w.steps, s)
	}
	return w.steps
}

// again repeats one of the latest fresh steps; only those with a key can be
// replayed. It returns a fresh step when there is none.
func (w *writer) again(k kind) step {
	for range 20 {
		i := len(w.steps) - 1 - w.random.IntN(min(len(w.steps), 25))
		s := w.steps[i]
		if s.kind != fresh || k != duplicate && s.action.IdempotencyKey == "" {
			continue
		}
		a := s.action
		switch k {
		case duplicate:
			a.IdempotencyKey = ""
		case misuse:
			a.Amount = parse(a.Amount.String() + "9") // another amount
		case fresh, replay:
		}
		return step{kind: k, of: i, action: a}
	}
	return step{kind: fresh}
}

// fresh draws an action that no earlier one equals.
func (w *writer) fresh() client.Action {
	for {
		var a client.Action
		switch draw := w.random.IntN(100); {
		case draw < 35:
			a = w.refund()
		case draw < 55:
			a = w.discount()
		case draw < 78:
			a = w.purchase()
		default:
			a = w.expense()
		}
		a.AgentID += "-" + w.run
		if w.chance(55) {
			a.IdempotencyKey = fmt.Sprintf("demo-%s-%d", w.run, len(w.steps))
		}
		fingerprint := a.AgentID + " " + a.Amount.String() + " " + a.Counterparty
		if !w.used[fingerprint] {
			w.used[fingerprint] = true
			return a
		}
	}
}

func (w *writer) refund() client.Action {
	a := client.Action{
		AgentID: w.pick("support-1", "support-2", "support-3"), PolicyID: "refund-desk", ActionType: "refund",
		Amount: w.amount(15, 240), Currency: w.pick("USD", "USD", "USD", "EUR"), Counterparty: w.customer(),
		Metadata: map[string]any{"days_since_purchase": 1 + w.random.IntN(36)},
	}
	switch draw := w.random.IntN(100); {
	case draw < 10:
		a.Amount = w.amount(400, 900)
	case draw < 14:
		a.Currency = "CHF" // a currency without a cap
	case draw < 20:
		a.Metadata = nil // without the age of the purchase
	case draw < 35:
		a.ActionType, a.Amount, a.Metadata = "credit", w.amount(5, 80), nil
	}
	if w.chance(30) {
		a.ReasonText = map[client.ActionType]string{
			"refund": w.pick("customer returned the damaged shoes and wants the money back",
				"refund for order 4411, it never arrived", "reverse the duplicate charge on the card"),
			"credit": w.pick("goodwill credit for the late delivery", "store credit for the inconvenience"),
		}[a.ActionType]
		a.ActionType = ""
	}
	return a
}

func (w *writer) discount() client.Action {
	a := client.Action{
		AgentID: w.pick("sales-1", "sales-2"), PolicyID: "discounts", ActionType: "discount",
		Amount: w.amount(10, 280), Currency: "USD", Counterparty: w.customer(),
		Metadata: map[string]any{
			"discount_percent": json.Number(fmt.Sprintf("%d.5", 3+w.random.IntN(21))),
			"category":         w.pick("shoes", "garden", "kitchen", "toys", "books", "gift_cards"),
		},
	}
	switch draw := w.random.IntN(100); {
	case draw < 7:
		a.Amount = w.amount(1001, 1800)
	case draw < 12:
		delete(a.Metadata, "discount_percent")
	}
	if w.chance(30) {
		a.ReasonText = w.pick("10 percent off to close the deal", "loyalty discount on the renewal", "apply the spring promo code")
		a.ActionType = ""
	}
	return a
}

func (w *writer) purchase() client.Action {
	a := client.Action{
		AgentID: w.pick("buyer-1", "buyer-2"), PolicyID: "procurement", ActionType: "spend",
		Amount: w.amount(40, 1400), Currency: w.pick("USD", "USD", "EUR"),
		Counterparty:  w.pick("aws", "cloudflare", "dell", "figma", "github", "staples"),
		PaymentMethod: w.pick("card", "ach"), Metadata: map[string]any{"country": w.pick("US", "US", "IE", "NO")},
	}
	switch draw := w.random.IntN(100); {
	case draw < 14:
		a.Counterparty = w.pick("acme-resale", "cheap-laptops", "aws-billing-support")
	case draw < 22:
		a.PaymentMethod = w.pick("crypto", "gift_card", "")
	case draw < 28:
		a.Metadata = map[string]any{"country": w.pick("KP", "IR", "sy")}
	case draw < 34:
		a.Amount = w.amount(9001, 14000)
	}
	if w.chance(20) {
		a.ReasonText = w.pick("pay the invoice for cloud hosting", "order twelve laptops for the new team", "renew the design tool licences")
		a.ActionType = ""
	}
	return a
}

func (w *writer) expense() client.Action {
	a := client.Action{
		AgentID: w.pick("travel-1", "travel-2", "office-1"), PolicyID: "employee-expenses", ActionType: "spend",
		Amount: w.amount(8, 310), Currency: w.pick("USD", "EUR", "GBP"),
		Counterparty: w.pick("hotel-astoria", "railways", "airline-7", "bistro-luna", "taxi-coop", "paper-and-pens"), PaymentMethod: "card",
		Metadata: map[string]any{
			"category": w.pick("travel", "meals", "lodging", "office", "training"),
			"country":  w.pick("DE", "FR", "GB", "US", "NO"),
		},
	}
	switch draw := w.random.IntN(100); {
	case draw < 10:
		a.Counterparty, a.Metadata["category"] = "casino-royal", "gambling"
	case draw < 16:
		a.PaymentMethod = w.pick("crypto", "wire")
	case draw < 22:
		a.Metadata = nil
	case draw < 28:
		a.Amount = w.amount(1601, 2600)
	}
	if w.chance(20) {
		a.ReasonText = w.pick("book two nights at the hotel for the conference", "taxi from the airport", "buy lunch for the workshop")
		a.ActionType = ""
	}
	return a
}

// amount draws whole units from a range and cents.
func (w *writer) amount(from, to int) client.Amount {
	return parse(fmt.Sprintf("%d.%02d", from+w.random.IntN(to-from), w.random.IntN(20)*5))
}

func parse(amount string) client.Amount {
	a, err := client.ParseAmount(amount)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return a
}

func (w *writer) customer() string { return fmt.Sprintf("customer-%04d", 1+w.random.IntN(9999)) }

func (w *writer) pick(of ...string) string { return of[w.random.IntN(len(of))] }

func (w *writer) chance(percent int) bool { return w.random.IntN(100) < percent }
