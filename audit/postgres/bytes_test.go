package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// BenchmarkBytes measures the bytes that a typical check leaves in each table, indexes included,
// and in the write-ahead log, in commits of one check and of 32. Rows that belong to a check
// (outcomes, events) are measured for each row. Run it with -benchtime 20000x and a server of its
// own: fewer rows fill no pages, and other clients write to the log.
func BenchmarkBytes(b *testing.B) {
	for _, size := range []int{1, 32} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) { benchmarkBytes(b, size) })
	}
}

// weighed is a store that measures the bytes of each step.
type weighed struct {
	*Store
	*testing.B

	db      *pgx.Conn
	builder chain.Builder
	before  map[string]int64
}

func benchmarkBytes(b *testing.B, size int) {
	url := migrated(b)
	s := open(b, url, true)
	db := must.Get(pgx.Connect(b.Context(), url))(b)
	defer db.Close(context.Background()) //nolint:errcheck // the test is over
	f := newFence(b, s)
	w := &weighed{Store: s, B: b, db: db, builder: chain.Builder{Chain: f.Node}}
	w.before = w.weigh()
	b.ReportMetric(0, "ns/op")

	var checks, allowed []*spend.Check
	for serial := range b.N {
		c := typical(f, serial)
		checks = append(checks, c)
		if c.Decision.Effect == spend.Allow {
			allowed = append(allowed, c)
		}
	}
	for batch := range slices.Chunk(checks, size) {
		w.commit(batch, nil)
	}
	w.report("check", len(checks))
	var redeemed, reported []*spend.Outcome
	for i, c := range allowed {
		o := spend.Outcome{
			CheckID: c.ID, Status: spend.Redeemed, Step: 1, Release: spend.ReleaseNone, Check: c, KeyID: c.KeyID, RequestID: c.RequestID, Fence: f,
			RedeemBy: time.Now().Add(time.Hour),
		}
		copy(o.Replay[:], fmt.Sprintf("replay of %020d", i))
		redeemed = append(redeemed, &o)
		reported = append(reported, &spend.Outcome{
			CheckID: c.ID, Status: spend.Executed, Step: 2, Number: 1, Check: c, KeyID: c.KeyID, RequestID: c.RequestID, Fence: f,
			Amount: c.Action.Amount, Reference: fmt.Sprintf("payment-%08d", i), Release: spend.ReleaseNone,
		})
	}
	for i, steps := range [][]*spend.Outcome{redeemed, reported} {
		for batch := range slices.Chunk(steps, size) {
			for _, o := range batch {
				o.ID = spend.NewOutcomeID(time.Now())
			}
			w.commit(nil, batch)
		}
		w.report([]string{"redemption", "report"}[i], len(steps))
	}
	events := 0
	for q, more := (audit.EventQuery{Limit: 100}), true; more; {
		page := must.Get(s.Events(b.Context(), q))(b)
		events += len(page.Events)
		q.After, more = page.Next, page.More
	}
	w.report("event", events)
	w.payments(f, allowed, size)
}

// payments records checks of payments, each with its redemption, and then that they were executed.
func (w *weighed) payments(f spend.Fence, like []*spend.Check, size int) {
	var checks []*spend.Check
	var redeemed, reported []*spend.Outcome
	for i, of := range like {
		c := *of
		c.ID, c.Action.IdempotencyKey, c.Namespace = spend.NewID(time.Now()), "", "billing-agent"
		o := &spend.Outcome{
			ID: spend.NewOutcomeID(time.Now()), CheckID: c.ID, Status: spend.Redeemed, Step: 1, Release: spend.ReleaseNone, Check: &c,
			KeyID: c.KeyID, RequestID: c.RequestID, Fence: f, RedeemBy: time.Now().Add(time.Hour),
			Replay: spend.NonceHash(c.KeyID, fmt.Sprint("nonce ", i)),
		}
		p := spend.Payment{Namespace: c.Namespace, Key: fmt.Sprintf("order-%08d", i)}
		p, c.Payment = p.WithCheck(&c, 0, o.Replay)
		o.Payment.ExecutionID = p.ExecutionID(f.Epoch, 0)
		p, step := p.WithStep(o, 0, true)
		o.Payment.Of, c.Payments = append(o.Payment.Of, step), []spend.PaymentChange{{To: p}}
		r := &spend.Outcome{
			ID: spend.NewOutcomeID(time.Now()), CheckID: c.ID, Status: spend.Executed, Step: 2, Number: 1, Check: &c, KeyID: c.KeyID,
			RequestID: c.RequestID, Fence: f, Amount: c.Action.Amount, Reference: fmt.Sprintf("payment-%08d", i), Release: spend.ReleaseNone,
		}
		after, step := p.WithStep(r, 0, false)
		r.Payment.Of, r.Payments = append(r.Payment.Of, step), []spend.PaymentChange{{Seen: p.Version, To: after}}
		checks, redeemed, reported = append(checks, &c), append(redeemed, o), append(reported, r)
	}
	w.before = w.weigh()
	for i := 0; i < len(checks); i += size {
		end := min(i+size, len(checks))
		w.commit(checks[i:end], redeemed[i:end])
	}
	w.report("payment", len(checks))
	for batch := range slices.Chunk(reported, size) {
		w.commit(nil, batch)
	}
	w.report("executed", len(reported))
}

// commit commits as the writer does.
func (w *weighed) commit(checks []*spend.Check, outcomes []*spend.Outcome) {
	var entries []chain.Entry
	for _, c := range checks {
		entries = append(entries, chain.Entry{ID: c.ID, Row: chain.HashCheck(c)})
	}
	for _, o := range outcomes {
		entries = append(entries, chain.Entry{ID: o.ID, Row: chain.HashOutcome(o)})
	}
	slices.SortFunc(entries, func(a, b chain.Entry) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	link := w.builder.Next(entries)
	must.Do(w, w.Commit(w.Context(), checks, outcomes, link))
	w.builder.Advance(link)
}

// weigh returns the bytes of every table, and of the log.
func (w *weighed) weigh() map[string]int64 {
	rows, err := w.db.Query(w.Context(), `
		SELECT coalesce(p.inhparent, c.oid)::regclass::text, sum(pg_total_relation_size(c.oid))::bigint
			FROM pg_class AS c LEFT JOIN pg_inherits AS p ON p.inhrelid = c.oid
			WHERE c.relkind = 'r' AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) GROUP BY 1
		UNION ALL SELECT 'log', pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`)
	must.Do(w, err)
	sizes := make(map[string]int64)
	var name string
	var size int64
	must.Get(pgx.ForEachRow(rows, []any{&name, &size}, func() error { sizes[name] = size; return nil }))(w)
	return sizes
}

// report tells what n of something added to each table.
func (w *weighed) report(what string, n int) {
	now := w.weigh()
	for name, size := range now {
		if each := float64(size-w.before[name]) / float64(n); each >= 1 {
			w.ReportMetric(each, name+"-B/"+what)
		}
	}
	w.before = now
}
