package audittest

import (
	"fmt"
	"testing"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// Benchmark measures Commit for batches like those of the writer: every fourth check is a violation
// and has an idempotency key. Only checks whose commit was confirmed count.
func Benchmark(b *testing.B, open func(b *testing.B) audit.Store) {
	for _, size := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			s := open(b)
			f := fence(b, s)
			batch := make([]*spend.Check, size)
			for i := range batch {
				if batch[i] = newCheck(f); i%4 == 3 {
					blocked(batch[i])
				}
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				b.StopTimer()
				renew(batch)
				b.StartTimer()
				mustCommit(b, s, batch...)
				n += size
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "checks/s")
			mustHave(b, s, batch...)
		})
	}
}

// renew gives the checks new identities.
func renew(batch []*spend.Check) {
	for i, c := range batch {
		c.ID = spend.NewID(now())
		c.Fingerprint = spend.HashKey(c.ID.Text(""))
		if i%4 == 3 {
			c.Action.IdempotencyKey = c.ID.Text("")
		}
	}
}
