package spend

import (
	"encoding/json"
	"fmt"
)

// CheckPayment is what a check's row says of its payment. The namespace is the check's.
type CheckPayment struct {
	Key     string `json:"key"`
	Version int64  `json:"version"` // that the check made
	Attempt int    `json:"attempt"`
	Round   int    `json:"round,omitempty"`
	Hours   int    `json:"again_after_hours,omitempty"` // until the payment is free again; 0: never
	Nonce   Hash   `json:"nonce,omitzero"`              // of a request with `redeem`; zero without one
}

// PaymentStep is what a step's row says of a payment that its check belongs to.
type PaymentStep struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
	Version   int64  `json:"version"` // that the step made
	Round     int    `json:"round,omitempty"`
	Earlier   int    `json:"earlier,omitempty"`  // of a redemption: how many checks of the payment were redeemed before
	ByNonce   bool   `json:"by_nonce,omitempty"` // of a redemption: under the payment, and not by the check's identifier
}

// Flag marks a step that is not as most are (S84).
type Flag string

// The flags.
const (
	FlagLapsed     Flag = "lapsed"     // voided by the service, since nobody redeemed the check in time
	FlagStopped    Flag = "stopped"    // voided by the service, since what the check's key was allowed was stopped (S87)
	FlagReplaced   Flag = "replaced"   // voided, since the payment was judged for another action
	FlagSuperseded Flag = "superseded" // voided, since another check of the payment was executed
	FlagUnredeemed Flag = "unredeemed" // executed without a redemption
	FlagPaidTwice  Flag = "paid_twice" // another check of the payment's round is executed, too
)

// OutcomePayment is what a step's row says of payments.
type OutcomePayment struct {
	Of    []PaymentStep `json:"of,omitempty"` // first the one under which the check was redeemed
	Flags []Flag        `json:"flags,omitempty"`
	// ExecutionID, of a redemption, identifies the attempt to whoever moves the money.
	ExecutionID string `json:"execution_id,omitempty"`
}

// Step returns what the step's row says of a payment; nil if the step is of other payments.
func (p *OutcomePayment) Step(namespace, key string) *PaymentStep {
	for i := range p.Of {
		if p.Of[i].Namespace == namespace && p.Of[i].Key == key {
			return &p.Of[i]
		}
	}
	return nil
}

// Text returns the payment as a check's row keeps it, JSON; empty of nil.
func (p *CheckPayment) Text() string {
	if p == nil {
		return ""
	}
	return textOf(p)
}

// ParseCheckPayment is the inverse of CheckPayment.Text.
func ParseCheckPayment(text string) (*CheckPayment, error) {
	if text == "" {
		return nil, nil
	}
	p := new(CheckPayment)
	if err := json.Unmarshal([]byte(text), p); err != nil {
		return nil, fmt.Errorf("cannot read the payment of a check: %w", err)
	}
	return p, nil
}

// Text returns what a step's row keeps, JSON; empty if it says nothing.
func (p OutcomePayment) Text() string {
	if len(p.Of) == 0 && len(p.Flags) == 0 && p.ExecutionID == "" {
		return ""
	}
	return textOf(p)
}

// ParseOutcomePayment is the inverse of OutcomePayment.Text.
func ParseOutcomePayment(text string) (p OutcomePayment, err error) {
	if text == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("cannot read the payments of a step: %w", err)
	}
	return p, nil
}

// Text returns the state as a payment's row keeps it, JSON.
func (s PaymentState) Text() string { return textOf(s) }

// ParsePaymentState is the inverse of PaymentState.Text.
func ParsePaymentState(text string) (s PaymentState, err error) {
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("cannot read the state of a payment: %w", err)
	}
	return s, nil
}

// textOf returns the JSON of a value that always has one.
func textOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("BUG: what is recorded of a payment has no JSON: %v", err))
	}
	return string(text)
}
