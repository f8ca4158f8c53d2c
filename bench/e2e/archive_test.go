package e2e_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spendgate/audit/audittest"
	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// testArchive runs the runbook's commands for old days while nodes serve: the
// days are archived and verified, and only requests for their checks notice.
func testArchive(t *testing.T, binary string) {
	b := newBackup(t, binary)
	now := time.Now().UTC()
	before := time.Date(now.Year(), now.Month()-1, 1, 0, 0, 0, 0, time.UTC)
	old := b.recordOld(t, before.AddDate(0, 0, -2))
	nodes := b.start(t)
	var err error
	_, b.key, err = nodes[0].Admin(b.AdminKey).CreateKey(t.Context(), "test", plenty)
	must.Do(t, err)
	ok(t, must.Get(nodes[0].Client(b.key).PostPolicy(t.Context(), standardPolicy()))(t), http.StatusCreated)
	ok(t, must.Get(nodes[0].Client(b.key).GetCheck(t.Context(), old[0]))(t), http.StatusOK)

	folder := filepath.Join(b.dir, "archive")
	must.Do(t, os.Mkdir(folder, 0o700))
	stop := b.load(t, nodes)
	eventually(t, patience, "nodes are at work", func() bool { return b.count() > 20 })
	printed := b.typed(t, "Archive old days", "audit detach", "2026-09-01", before.Format(time.DateOnly), "/srv/archive", folder)
	stop() // which fails the test if any check was refused meanwhile
	for _, want := range []string{"to be archived, to be detached", "archived, detached, 1 checks", "clean as far as it can be told"} {
		if !strings.Contains(printed, want) {
			t.Errorf("the runbook's commands do not say %q:\n%s", want, printed)
		}
	}

	gone := must.Get(nodes[1].Client(b.key).GetCheck(t.Context(), old[0]))(t)
	if gone.Status != http.StatusNotFound || gone.ErrorCode() != "check_not_found" || !strings.Contains(string(gone.Body), "archive") {
		t.Errorf("an archived check is answered %s", gone)
	}
	if list := ok(t, must.Get(nodes[1].Client(b.key).Violations(t.Context(), "agent_id=old-agent"))(t),
		http.StatusOK); !strings.Contains(string(list.Body), `"total_count":2`) {
		t.Errorf("the violations of archived days: %s", list)
	}
	run := func(url string, code int, want string, args ...string) {
		t.Helper()
		got, out, err := fleet.Run(limited(t, patience), binary, b.dir, fleet.Settings{"DATABASE_URL": url},
			append([]string{"audit"}, args...)...)
		if err != nil || got != code || !strings.Contains(out, want) {
			t.Errorf("audit %q: exit %d, %v, want %d and %q in\n%s", args, got, err, code, want, out)
		}
	}
	run(b.service, 1, "unchecked day "+before.AddDate(0, 0, -2).Format(time.DateOnly), "verify")
	run(b.service, 1, "give --archive", "show", old[0])
	run(b.service, 0, "read from           "+folder, "show", "--archive", folder, old[0])
	run(b.service, 0, `"holds": true`, "show", "--archive", folder, "--json", old[1])
	run(b.service, 1, "is not in the record", "show", "chk_00000000000070008000000000000000")
	run(b.owner, 0, "no day before", "detach", "--before", before.Format(time.DateOnly), "--archive", folder)
	run(b.service, 1, "only the role that owns", "detach", "--before", before.Format(time.DateOnly), "--archive", folder, "--drop")
	run(b.owner, 1, "still needed", "detach", "--before", time.Now().UTC().Format(time.DateOnly), "--archive", folder)
	run(b.owner, 0, "dropped", "detach", "--before", before.Format(time.DateOnly), "--archive", folder, "--drop")
	run(b.owner, 0, "\nclean ", "verify", "--archive", folder)
	b.archiveViolations(t, nodes, folder, before, run)
	t.Run("the service's role can change nothing", b.refused)

	// A change that bypasses the triggers is detected.
	altered := must.Get(nodes[0].Client(b.key).Check(t.Context(), b.action("altered", "")))(t).Result().CheckID
	_, err = b.Postgres.Pool.Exec(t.Context(), "SET session_replication_role = replica; "+
		"UPDATE spendgate.checks SET amount = 3 WHERE counterparty = 'altered'; RESET session_replication_role")
	must.Do(t, err)
	run(b.service, 1, "ALTERED", "show", altered)
	inserted := spend.NewID(time.Now())
	linked := must.Get(nodes[0].Client(b.key).Check(t.Context(), b.action("linked", "")))(t).Result().CheckID
	run(b.service, 0, "the row is the one that the batch lists", "show", linked)
	_, err = b.Postgres.Pool.Exec(t.Context(), fmt.Sprintf(`SET session_replication_role = replica;
		CREATE TEMPORARY TABLE copy AS SELECT * FROM spendgate.checks WHERE counterparty = 'linked'; UPDATE copy SET check_id = '%s';
		INSERT INTO spendgate.checks SELECT * FROM copy; DROP TABLE copy;
		UPDATE spendgate.batches SET head = sha256(head) WHERE position('\x%s'::bytea IN entries) > 0; RESET session_replication_role`,
		inserted.Text(""), strings.TrimPrefix(linked, spend.PrefixCheck)))
	must.Do(t, err)
	run(b.service, 1, "INSERTED", "show", inserted.Text(spend.PrefixCheck))
	run(b.service, 1, "does not follow from the one before", "show", linked)
}

// archiveViolations runs the runbook's commands for the violations of those days: they are no
// longer listed, and the feed still has their events.
func (b *backup) archiveViolations(
	t *testing.T, nodes []*fleet.Node, folder string, before time.Time, run func(url string, code int, want string, args ...string),
) {
	month, date := before.AddDate(0, 0, -1).Format("2006-01"), before.Format(time.DateOnly)
	stop := b.load(t, nodes)
	printed := b.typed(t, "Archive old violations", "audit detach", "2026-09-01", date, "/srv/archive", folder)
	stop()
	for _, want := range []string{
		month + ": to be archived, to be detached\n", month + ": archived, detached, 2 violations\n", "clean as far as it can be told",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("the runbook's commands do not say %q:\n%s", want, printed)
		}
	}
	client := nodes[1].Client(b.key)
	for _, drop := range []string{"", "--drop"} {
		if drop != "" {
			run(b.owner, 0, month+": dropped, 2 violations", "detach", "--violations", "--before", date, "--archive", folder, drop)
		}
		if list := ok(t, must.Get(client.Violations(t.Context(), "agent_id=old-agent"))(t), http.StatusOK); !strings.Contains(string(list.Body),
			`"total_count":0`) {
			t.Errorf("the violations of an archived month: %s", list)
		}
		feed := ok(t, must.Get(client.Do(t.Context(), http.MethodGet, "/v1/events?limit=100", nil))(t), http.StatusOK)
		if n := strings.Count(string(feed.Body), `"data":{"policy_id":"`+standard+`","agent_id":"old-agent"}`); n != 2 {
			t.Errorf("%d events of archived violations in %s", n, feed)
		}
	}
	run(b.service, 1, "unchecked month "+month, "verify")
	run(b.service, 0, "\nclean ", "verify", "--archive", folder)
	run(b.owner, 0, "no month before", "detach", "--violations", "--before", date, "--archive", folder)
	run(b.service, 1, "only the role that owns", "detach", "--violations", "--before", date, "--archive", folder)
}

// recordOld commits a blocked check on each of two days, as nodes did then.
func (b *backup) recordOld(t *testing.T, first time.Time) (ids []string) {
	t.Helper()
	store := must.Get(postgres.Open(t.Context(), postgres.Options{URL: b.owner, Logger: slog.New(slog.DiscardHandler)}))(t)
	defer store.Close()
	epoch, err := store.Epoch(t.Context())
	must.Do(t, err)
	for d := range 2 {
		day := first.AddDate(0, 0, d)
		_, err = b.Postgres.Pool.Exec(t.Context(), fmt.Sprintf("SELECT spendgate.make_partition('%s')", day.Format(time.DateOnly)))
		must.Do(t, err)
		c := &spend.Check{
			ID: spend.NewID(day.Add(13 * time.Hour)), ActionType: spend.Spend, Fence: spend.Fence{Node: spend.NewID(time.Now()), Epoch: epoch},
			Action:   spend.Action{AgentID: "old-agent", PolicyID: standard, Currency: "USD", Counterparty: "vendor"},
			Decision: spend.Decision{Effect: spend.Block, Reason: spend.ReasonMaxAmount, RuleID: "cap", RuleDescription: "a cap", PolicyVersion: 1},
		}
		must.Do(t, store.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(1, c)))
		ids = append(ids, c.ID.Text(spend.PrefixCheck))
	}
	return ids
}
