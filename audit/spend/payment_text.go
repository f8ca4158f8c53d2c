package spend

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
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

// Append adds the payment as a check's row keeps it, JSON; nothing of nil.
func (p *CheckPayment) Append(b []byte) []byte {
	if p == nil {
		return b
	}
	b = appendText(append(b, `{"key":`...), p.Key)
	b = strconv.AppendInt(append(b, `,"version":`...), p.Version, 10)
	b = strconv.AppendInt(append(b, `,"attempt":`...), int64(p.Attempt), 10)
	b = appendPositive(b, `,"round":`, p.Round)
	b = appendPositive(b, `,"again_after_hours":`, p.Hours)
	if !p.Nonce.IsZero() {
		b = appendHash(append(b, `,"nonce":`...), p.Nonce)
	}
	return append(b, '}')
}

// Append adds what a step's row keeps, JSON; nothing if it says nothing.
func (p *OutcomePayment) Append(b []byte) []byte {
	start := len(b)
	b = appendList(b, `,"of":`, p.Of, appendStep)
	b = appendList(b, `,"flags":`, p.Flags, appendText)
	if p.ExecutionID != "" {
		b = appendText(append(b, `,"execution_id":`...), p.ExecutionID)
	}
	if len(b) == start {
		return b
	}
	b[start] = '{'
	return append(b, '}')
}

// Append adds the state as a payment's row keeps it, JSON.
func (s *PaymentState) Append(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"attempt":`...), int64(s.Attempt), 10)
	b = appendPositive(b, `,"round":`, s.Round)
	b = appendPositive(b, `,"again_after_hours":`, s.Hours)
	b = append(s.Current.Append(append(b, `,"current":`...), `"`), '"')
	b = appendPositive(b, `,"redeemed":`, s.Redeemed)
	b = appendList(b, `,"nonces":`, s.Nonces, appendHash)
	b = appendList(b, `,"executions":`, s.Executions, appendExecution)
	return append(b, '}')
}

func appendStep(b []byte, s PaymentStep) []byte {
	b = appendText(append(b, `{"namespace":`...), s.Namespace)
	b = appendText(append(b, `,"key":`...), s.Key)
	b = strconv.AppendInt(append(b, `,"version":`...), s.Version, 10)
	b = appendPositive(b, `,"round":`, s.Round)
	b = appendPositive(b, `,"earlier":`, s.Earlier)
	if s.ByNonce {
		b = append(b, `,"by_nonce":true`...)
	}
	return append(b, '}')
}

func appendExecution(b []byte, e Execution) []byte {
	b = append(e.Check.Append(append(b, `{"check":`...), `"`), '"')
	b = appendPositive(b, `,"round":`, e.Round)
	b = append(e.At.AppendFormat(append(b, `,"at":"`...), time.RFC3339Nano), '"')
	if e.Back {
		b = append(b, `,"back":true`...)
	}
	return append(b, '}')
}

// appendList adds a member with an array, each element by one; nothing if there are none.
func appendList[T any](b []byte, name string, list []T, one func([]byte, T) []byte) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(append(b, name...), '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, v)
	}
	return append(b, ']')
}

func appendText[T ~string](b []byte, text T) []byte {
	b, _ = jsontext.AppendQuote(b, string(text)) // it is valid UTF-8
	return b
}

func appendHash(b []byte, h Hash) []byte { return append(hex.AppendEncode(append(b, '"'), h[:]), '"') }

// appendPositive adds a member with a number; nothing of 0.
func appendPositive(b []byte, name string, n int) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), int64(n), 10)
}

// ParseCheckPayment is the inverse of CheckPayment.Append.
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

// ParseOutcomePayment is the inverse of OutcomePayment.Append.
func ParseOutcomePayment(text string) (p OutcomePayment, err error) {
	if text == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("cannot read the payments of a step: %w", err)
	}
	return p, nil
}

// ParsePaymentState is the inverse of PaymentState.Append.
func ParsePaymentState(text string) (s PaymentState, err error) {
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("cannot read the state of a payment: %w", err)
	}
	return s, nil
}
