package httpapi

import (
	"testing"

	"spendgate/audit/spend"
)

// plainCheck is a check as agents send them.
const plainCheck = `{"agent_id":"agent-support-7","policy_id":"refunds-eu","action_type":"refund","amount":129.95,` +
	`"currency":"EUR","counterparty":"customer-48213","payment_method":"card","idempotency_key":"order-99-refund-1",` +
	`"metadata":{"days_since_purchase":12,"country":"DE","category":"electronics","order_id":"A-9912"}}`

// bareCheck has no metadata.
const bareCheck = `{"agent_id":"agent-support-7","policy_id":"refunds-eu","action_type":"refund","amount":129.95,` +
	`"currency":"EUR","counterparty":"customer-48213","payment_method":"card","idempotency_key":"order-99-refund-1"}`

func benchmarkDecode(b *testing.B, body string) {
	b.Helper()
	raw := []byte(body)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		var a spend.Action
		err := readObject(raw, func(r *reader) { decodeCheck(r, &a) })
		if err != nil || a.Amount.IsZero() {
			b.Fatal(err, a)
		}
	}
}

func BenchmarkDecodeCheck(b *testing.B) {
	b.Run("metadata", func(b *testing.B) { benchmarkDecode(b, plainCheck) })
	b.Run("bare", func(b *testing.B) { benchmarkDecode(b, bareCheck) })
}

func BenchmarkAppendCheckResult(b *testing.B) {
	c := blockedCheck()
	dst := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendCheckResult(dst[:0], c)
	}
	if len(dst) == 0 {
		b.Fatal("nothing was written")
	}
}
