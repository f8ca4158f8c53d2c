package spend

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
)

// RedeemTerms are a policy's terms for the redemption of the checks that it allows (S74). The zero
// value sets none.
type RedeemTerms struct {
	Required      bool `json:"required,omitempty"`       // executed is taken of a redeemed check only
	WithinMinutes int  `json:"within_minutes,omitempty"` // 0: defaultRedeemMinutes
}

const (
	defaultRedeemMinutes = 15
	// MaxRedeemMinutes is the longest that a policy may give.
	MaxRedeemMinutes = 1440
)

// SystemKey is the key ID of steps that the service makes.
const SystemKey = "system"

// DoubtAfter is how long after its redemption a check without a report is in doubt.
const DoubtAfter = 15 * time.Minute

// Within returns how old a check may be that is redeemed.
func (t RedeemTerms) Within() time.Duration {
	if t.WithinMinutes == 0 {
		return defaultRedeemMinutes * time.Minute
	}
	return time.Duration(t.WithinMinutes) * time.Minute
}

// Text returns the terms as a policy's row keeps them, JSON; empty when they say nothing.
func (t RedeemTerms) Text() string {
	if t == (RedeemTerms{}) {
		return ""
	}
	text, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("BUG: the terms of redemptions have no JSON: %v", err))
	}
	return string(text)
}

// ParseRedeemTerms is the inverse of Text.
func ParseRedeemTerms(text string) (t RedeemTerms, err error) {
	if text == "" {
		return t, nil
	}
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return t, fmt.Errorf("cannot read what a policy says of redemptions: %w", err)
	}
	return t, nil
}

// RedemptionReplay returns a hash that identifies repeats of a redemption: of its API key and its
// idempotency key. It is zero without an idempotency key.
func RedemptionReplay(keyID, idempotencyKey string) Hash {
	if idempotencyKey == "" {
		return Hash{}
	}
	return hashPair("spendgate redemption 1\n", keyID, idempotencyKey)
}

// NonceHash returns a hash that identifies the requests of a nonce: of its API key and the nonce (S84). It is zero without
// a nonce.
func NonceHash(keyID, nonce string) Hash {
	if nonce == "" {
		return Hash{}
	}
	return hashPair("spendgate nonce 1\n", keyID, nonce)
}

func hashPair(domain, first, second string) Hash {
	b := append(make([]byte, 0, 512), domain...)
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(first))), first...)
	return sha256.Sum256(append(b, second...))
}
