package verify_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/checkpoint"
	"spendgate/audit/commit"
	"spendgate/audit/postgres"
	"spendgate/audit/postgres/snapshot"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// trail is an audit trail made by the real writer and store, with a superuser's connection that
// bypasses both.
type trail struct {
	t           *testing.T
	url         string
	sessions    *pgxpool.Pool // that verify; nil for new ones each time
	store       *postgres.Store
	writer      *commit.Writer
	conn        *pgx.Conn
	checkpoints *checkpoint.Writer
	file        string // of checkpoints
	key         checkpoint.PublicKey

	chains  []spend.ID
	records [][]*spend.Check // of chain 0, then of chain 1

	altersSchema bool   // for what the test needs, which is then no finding
	notify       string // of the budget that is used up: a parameter behind a comma
}

const (
	perChain  = 4 // batches, at least
	perRecord = 5 // checks: full, sparse, allowed, blocked, escalated
)

// newTrail makes two chains of four batches, three versions of a policy and a checkpoint after all
// of them.
func newTrail(t *testing.T) *trail {
	t.Helper()
	tr := newTrailIn(t, fleet.TestMigrated(t, postgres.Migrate))
	var err error
	if tr.sessions, err = pgxpool.New(t.Context(), tr.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.sessions.Close)
	return tr
}

// newTrailIn is newTrail in a database whose defaults for new sessions a test may alter.
func newTrailIn(t *testing.T, url string) *trail {
	t.Helper()
	tr := &trail{t: t, url: url, file: filepath.Join(t.TempDir(), "checkpoints.jsonl")}
	var err error
	options := postgres.Options{URL: tr.url, Logger: slog.New(slog.DiscardHandler), Migrate: true}
	if tr.store, err = postgres.Open(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.store.Close)
	tr.conn = connect(t, tr.url)
	tr.exec("SET session_replication_role = replica") // no trigger fires
	for i := range 3 {
		p := &audit.Policy{PolicyID: "refunds", Name: fmt.Sprint("Refunds ", i), Rules: `[]`, Metadata: `{"ü":1}`}
		must.Do(t, tr.store.CreatePolicy(t.Context(), audit.Actor{}, p, audit.NewBudgets{}, time.Now()))
	}
	tr.writer = audittest.NewWriter(t, tr.store)
	for range 2 {
		chainID := spend.NewID(time.Now())
		tr.chains = append(tr.chains, chainID)
		for range perChain {
			tr.records = append(tr.records, tr.record(tr.writer, chainID))
		}
	}
	tr.checkpoints = tr.newCheckpoints()
	tr.sign()
	return tr
}

// newCheckpoints begins, or goes on with, the trail's file.
func (tr *trail) newCheckpoints() *checkpoint.Writer {
	tr.t.Helper()
	key := must.Get(checkpoint.NewKey(bytes.Repeat([]byte{7}, 32)))(tr.t)
	tr.key = key.Public()
	return checkpoint.NewWriter(checkpoint.Options{
		Heads: tr.store.Heads, HeadsAt: tr.store.HeadsAt, Key: key, File: tr.file, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
}

// record commits a check of every sort, in a batch or a few.
func (tr *trail) record(w *commit.Writer, chainID spend.ID) []*spend.Check {
	tr.t.Helper()
	epoch := must.Get(tr.store.Epoch(tr.t.Context()))(tr.t)
	batch := checksOfAllSorts(spend.Fence{Node: chainID, Epoch: epoch, Stops: tr.lastStop()})
	entries := make([]*commit.Entry, len(batch))
	for i, c := range batch {
		entries[i] = w.Append(c)
	}
	for _, e := range entries {
		must.Do(tr.t, e.Final())
	}
	return batch
}

// checksOfAllSorts are one with every field, one with none, and three between.
func checksOfAllSorts(f spend.Fence) []*spend.Check {
	amount := func(text string) spend.Amount {
		a, err := spend.ParseAmount(text)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return a
	}
	made := func() *spend.Check {
		id := spend.NewID(time.Now())
		return &spend.Check{
			ID: id, Fence: f, ActionType: spend.Refund, KeyID: "key_1", RequestID: "req_1",
			Action:      spend.Action{AgentID: "agent", PolicyID: "refunds", Amount: amount("125.5"), Currency: "USD", Counterparty: "customer"},
			Decision:    spend.Decision{PolicyVersion: 3, Confidence: spend.High},
			Fingerprint: spend.HashKey(id.Text("f")), RequestSHA: spend.HashKey(id.Text("r")),
		}
	}
	full, sparse, allowed, blocked, escalated := made(), made(), made(), made(), made()
	full.Action.Type, full.Action.PaymentMethod, full.Action.MerchantOrVendor = spend.Credit, "card – ü", "vendor"
	full.Action.ReasonText, full.Action.IdempotencyKey = "\U0001f4b8 tab\t\"quote\"", "key-"+full.ID.Text("")
	full.Action.Metadata.JSON = `{"a": 1,  "b":[]}`
	full.Decision = spend.Decision{
		Effect: spend.Block, Reason: spend.ReasonMaxAmount, RuleID: "cap", RuleDescription: "a cap", PolicyVersion: 1<<31 - 1,
		Confidence: spend.Low, Message: "too much", NextStep: "ask",
	}
	full.Principal, full.Owner, full.Namespace = "till 1", "payments – ü", "TILL 1"
	full.Action.Amount, full.LatencyMS = amount("999999999.999999999"), 17
	ms := full.ID.Time().UnixMilli()
	full.Pass = spend.Pass{ClaimedMS: ms, UntilMS: ms + 300_000}
	sparse.Action.Amount, sparse.KeyID = amount("0"), ""
	allowed.Pass = full.Pass
	blocked.Decision.Effect, blocked.Action.Amount = spend.Block, amount("100000")
	escalated.Decision.Effect, escalated.Decision.RuleID = spend.Escalate, "r"
	return []*spend.Check{full, sparse, allowed, blocked, escalated}
}

func (tr *trail) sign() {
	tr.t.Helper()
	must.Do(tr.t, tr.checkpoints.Write(tr.t.Context()))
}

func (tr *trail) exec(sql string, args ...any) {
	tr.t.Helper()
	if len(args) > 0 {
		sql = fmt.Sprintf(sql, args...)
	}
	if _, err := tr.conn.Exec(tr.t.Context(), sql); err != nil {
		tr.t.Fatalf("%s: %v", sql, err)
	}
}

func (tr *trail) count(table string) (n int) {
	tr.t.Helper()
	must.Do(tr.t, tr.conn.QueryRow(tr.t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// verify returns "kind subject" of each finding, sorted.
func (tr *trail) verify(change func(*verify.Options)) ([]string, verify.Summary, error) {
	tr.t.Helper()
	var found []string
	o := verify.Options{Workers: 2, Found: func(f verify.Finding) { found = append(found, string(f.Kind)+" "+f.Subject) }}
	if change != nil {
		change(&o)
	}
	var s *snapshot.Snapshot
	var err error
	if tr.sessions != nil { // most of a verification would be what a session has to learn first
		s, err = snapshot.Take(tr.t.Context(), tr.sessions)
	} else {
		s, err = snapshot.Open(tr.t.Context(), tr.url, o.Workers)
	}
	if err != nil {
		return nil, verify.Summary{}, err
	}
	defer s.Close()
	o.Evidence = s
	summary, err := verify.Verify(tr.t.Context(), o)
	if tr.altersSchema {
		found = slices.DeleteFunc(found, func(f string) bool { return strings.Contains(f, " constraint ") || strings.Contains(f, " index ") })
	}
	slices.Sort(found)
	return found, summary, err
}

// held holds the chains to the file of checkpoints.
func (tr *trail) held(o *verify.Options) {
	content := must.Get(os.ReadFile(tr.file))(tr.t)
	o.Checkpoints, o.PublicKey = []verify.Checkpoints{{Lines: bytes.NewReader(content)}}, tr.key
	o.FoldKeys = []checkpoint.PublicKey{tr.key}
}

// finds demands exactly these findings.
func (tr *trail) finds(change func(*verify.Options), want ...string) {
	tr.t.Helper()
	got, _, err := tr.verify(change)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		tr.t.Errorf("found, %v\n  %s\nwant\n  %s", err, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func check(kind string, c *spend.Check) string {
	return kind + " check " + c.ID.Text(spend.PrefixCheck)
}

func violation(kind string, c *spend.Check) string {
	return kind + " violation " + c.ID.Text(spend.PrefixViolation)
}
func chainFinding(kind string, id spend.ID) string { return kind + " chain " + id.Text("") }
func batch(kind string, seq int, id spend.ID) string {
	return fmt.Sprintf("%s batch %d of chain %s", kind, seq, id.Text(""))
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	ctx := context.Background() // cleaning up outlives the test's context
	conn := must.Get(pgx.Connect(ctx, url))(t)
	t.Cleanup(func() { _ = conn.Close(ctx) }) // nothing is in progress
	return conn
}
