package postgres

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// BenchmarkCommitCPU measures the processor time of commits on an otherwise
// idle store, of the server's session and of this process, in batches as the
// writer makes them at few and at many connections. Times on a busy machine say
// little; these are steady.
func BenchmarkCommitCPU(b *testing.B) {
	for _, size := range []int{1, 4, 8, 32, 128} {
		for _, budgets := range []bool{false, true} {
			b.Run(fmt.Sprintf("batch=%d,budgets=%t", size, budgets), func(b *testing.B) { benchmarkCommitCPU(b, size, budgets) })
		}
	}
}

func benchmarkCommitCPU(b *testing.B, size int, budgets bool) {
	s := open(b, migrated(b), true)
	f := newFence(b, s)
	batch := make([]*spend.Check, size)
	builder := chain.Builder{Chain: f.Node}
	entries := make([]chain.Entry, size)
	commit := func() {
		for i, c := range batch { // as the writer does
			entries[i] = chain.Entry{ID: c.ID, Row: chain.HashCheck(c)}
		}
		slices.SortFunc(entries, func(a, b chain.Entry) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		link := builder.Next(entries)
		must.Do(b, s.Commit(b.Context(), batch, nil, link))
		builder.Advance(link)
	}
	serial := 0
	renew := func() {
		for i := range batch {
			batch[i] = typical(f, serial)
			if budgets {
				charge(batch[i])
			}
			serial++
		}
	}
	for range 2 * cap(s.writers.idle) { // connect
		renew()
		commit()
	}
	pids := writerPIDs(b, s)
	var server, own, wall time.Duration
	for range b.N { // no timer: stopping it costs more than a commit
		renew()
		server -= sessionCPU(b, pids)
		own -= processCPU(b)
		started := time.Now()
		commit()
		wall += time.Since(started)
		own += processCPU(b)
		server += sessionCPU(b, pids)
	}
	perCommit := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(b.N) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(perCommit(wall), "µs/commit")
	b.ReportMetric(perCommit(server), "pg-µs/commit")
	b.ReportMetric(perCommit(own), "node-µs/commit")
	b.ReportMetric(perCommit(server)/float64(size), "pg-µs/check")
}

// BenchmarkRedemptionCPU measures what the server's sessions take for the commits of checks
// that are allowed, and of their redemptions: of remembered checks, of unread ones, and of payments that are
// redeemed in the commit of their checks.
func BenchmarkRedemptionCPU(b *testing.B) {
	for _, size := range []int{1, 4, 32} {
		for _, kind := range []struct{ unread, paid bool }{{}, {unread: true}, {paid: true}} {
			b.Run(fmt.Sprintf("batch=%d,unread=%t,paid=%t", size, kind.unread, kind.paid), func(b *testing.B) {
				benchmarkRedemptionCPU(b, size, kind.unread, kind.paid)
			})
		}
	}
}

func benchmarkRedemptionCPU(b *testing.B, size int, unread, paid bool) {
	s := open(b, migrated(b), true)
	f := newFence(b, s)
	builder := chain.Builder{Chain: f.Node}
	commit := func(checks []*spend.Check, outcomes []*spend.Outcome) {
		var entries []chain.Entry
		for _, c := range checks {
			entries = append(entries, chain.Entry{ID: c.ID, Row: chain.HashCheck(c)})
		}
		for _, o := range outcomes {
			entries = append(entries, chain.Entry{ID: o.ID, Row: chain.HashOutcome(o)})
		}
		slices.SortFunc(entries, func(a, b chain.Entry) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		link := builder.Next(entries)
		must.Do(b, s.Commit(b.Context(), checks, outcomes, link))
		builder.Advance(link)
	}
	var pids []int32
	var checking, redeeming, own time.Duration
	for n := range b.N + 6*cap(s.writers.idle) { // first connect, and have plans made that are kept
		if n == 6*cap(s.writers.idle) {
			pids, checking, redeeming, own = writerPIDs(b, s), 0, 0, 0
		}
		checks, redemptions := redeemedChecks(f, size)
		before := sessionCPU(b, pids)
		commit(checks, nil)
		between := sessionCPU(b, pids)
		if checks = nil; paid {
			checks, redemptions = redeemedChecks(f, size)
			payFor(checks, redemptions)
		}
		for _, o := range redemptions {
			o.Unread = unread
		}
		began := processCPU(b)
		commit(checks, redemptions)
		own += processCPU(b) - began
		checking, redeeming = checking+between-before, redeeming+sessionCPU(b, pids)-between
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(checking.Nanoseconds())/1e3/float64(b.N*size), "pg-µs/check")
	b.ReportMetric(float64(redeeming.Nanoseconds())/1e3/float64(b.N*size), "pg-µs/redemption")
	b.ReportMetric(float64(own.Nanoseconds())/1e3/float64(b.N*size), "node-µs/redemption")
}

// redeemedChecks returns allowed checks without idempotency keys, and their redemptions.
func redeemedChecks(f spend.Fence, size int) (checks []*spend.Check, redemptions []*spend.Outcome) {
	for range size {
		c := typical(f, 9)
		checks = append(checks, c)
		redemptions = append(redemptions, &spend.Outcome{
			ID: spend.NewOutcomeID(time.Now()), CheckID: c.ID, Step: 1, Status: spend.Redeemed, Release: spend.ReleaseNone, KeyID: c.KeyID,
			RequestID: c.RequestID, Fence: f, Check: c, RedeemBy: time.Now().Add(time.Minute),
			Replay: spend.RedemptionReplay(c.KeyID, c.ID.Text("")),
		})
	}
	return checks, redemptions
}

// payFor makes each check the first one of a payment.
func payFor(checks []*spend.Check, redemptions []*spend.Outcome) {
	for i, c := range checks {
		o := redemptions[i]
		to := spend.Payment{Namespace: "n", Key: c.ID.Text("order-")}
		to, c.Payment = to.WithCheck(c, 0, o.Replay)
		to, step := to.WithStep(o, c.Payment.Round, true)
		o.Payment.Of = append(o.Payment.Of, step)
		c.Payments, c.RedeemBy = []spend.PaymentChange{{To: to}}, o.RedeemBy
	}
}

// typical is one of the workload that bars are stated for: four of ten checks
// are violations, three have an idempotency key.
func typical(f spend.Fence, serial int) *spend.Check {
	id := spend.NewID(time.Now())
	ms := id.Time().UnixMilli()
	amount, _ := spend.ParseAmount("125.5")
	c := &spend.Check{
		ID: id, ActionType: spend.Refund, Fence: f, KeyID: "key_0123456789abcdef0123456789abcdef", RequestID: "req_0123456789ab",
		Action: spend.Action{
			AgentID: "agent-" + strconv.Itoa(serial%2000), PolicyID: "policy-" + strconv.Itoa(serial%10), Type: spend.Refund,
			Amount: amount, Currency: "USD", Counterparty: "customer-" + strconv.Itoa(serial), PaymentMethod: "card",
		},
		Decision: spend.Decision{Confidence: spend.High, PolicyVersion: 1, Message: "125.50 USD is within policy.", NextStep: "Proceed."},
		Pass:     spend.Pass{ClaimedMS: ms, UntilMS: ms + 5*60*1000},
	}
	c.Action.Metadata.JSON = `{"days_since_purchase":12,"country":"de","order":"A-1009"}`
	if serial%10 < 4 {
		d := &c.Decision
		d.Effect, d.Reason, d.RuleID, d.RuleDescription = spend.Block, "max_amount_exceeded", "cap", "No more than 500 USD."
		d.Message, d.NextStep = "600.00 USD exceeds the limit of 500.00 USD.", "Ask a human, or lower the amount."
	}
	if serial%10 >= 2 && serial%10 < 5 {
		c.Action.IdempotencyKey = "idem-" + strconv.Itoa(serial) + "-" + id.Text("")
	}
	c.Fingerprint = spend.FingerprintOf(&c.Action, c.ActionType)
	c.RequestSHA = spend.RequestSHA(&c.Action)
	return c
}

// writerPIDs are the server's processes behind the connections for commits.
func writerPIDs(b *testing.B, s *Store) (pids []int32) {
	b.Helper()
	var idle []*session
	for range cap(s.writers.idle) {
		idle = append(idle, <-s.writers.idle)
	}
	for _, session := range idle {
		s.writers.give(session)
		if session.conn == nil {
			continue
		}
		_, port, _ := strings.Cut(session.conn.LocalAddr().String(), ":")
		n := must.Get(strconv.Atoi(port))(b)
		var pid int32
		must.Do(b, s.Reads.QueryRow(b.Context(), "SELECT pid FROM pg_stat_activity WHERE client_port = $1", n).Scan(&pid))
		pids = append(pids, pid)
	}
	return pids
}

// sessionCPU is the time that the processes have spent on a processor.
func sessionCPU(b *testing.B, pids []int32) (sum time.Duration) {
	b.Helper()
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if err != nil {
			b.Skip("the server is not on this machine")
		}
		ran, _, _ := strings.Cut(string(text), " ")
		ns := must.Get(strconv.ParseInt(ran, 10, 64))(b)
		sum += time.Duration(ns)
	}
	return sum
}

func processCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
