package verify_test

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// interpreter is the Python of the tests, if one was named: what the PATH has may be a script that
// looks for it, for ten times as long as it takes to start.
func interpreter() string { return cmp.Or(os.Getenv("TEST_PYTHON"), "python3") }

// strangersEnviron has Python keep the program compiled, as it does for modules only, and the psql of
// the server found before Debian's, a script that looks for it. Either takes longer than to verify.
func strangersEnviron() []string {
	environ := append(os.Environ(), "PYTHONPATH=../../deploy/audit", "PYTHONPYCACHEPREFIX=../../.bin/python",
		"PYTHONDONTWRITEBYTECODE=")
	if dir := os.Getenv("TEST_POSTGRES_BIN"); dir != "" {
		environ = append(environ, "PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	return environ
}

// stranger verifies with the program that was written from the document alone, and returns its
// findings, sorted.
func (tr *trail) stranger(held bool, more ...string) []string {
	tr.t.Helper()
	for _, tool := range []string{interpreter(), "psql"} {
		if _, err := exec.LookPath(tool); err != nil {
			if testing.Short() {
				tr.t.Skip(err)
			}
			tr.t.Fatalf("%v: install it, or test with -short", err)
		}
	}
	args := []string{"-m", "verify", tr.psqlURL(), "--schema", "../postgres/snapshot"}
	if held {
		args = append(args, "--checkpoint", tr.file, "--public-key", base64.StdEncoding.EncodeToString(tr.key))
	}
	args = append(args, more...)
	command := exec.CommandContext(tr.t.Context(), interpreter(), args...)
	command.Env = strangersEnviron()
	output, err := command.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1 || len(exit.Stderr) > 0) {
		tr.t.Fatalf("%v\n%s", err, exit.Stderr)
	}
	found := strings.Split(strings.TrimSpace(string(output)), "\n")
	const entries = "batches, generate_series(1, length(entries), 48)"
	const folded = "folded_chains, generate_series(1, entries)"
	clean := fmt.Sprintf("clean: %d checks and outcomes in %d chains", tr.count(entries)+tr.count(folded),
		tr.count("(SELECT DISTINCT chain_id FROM batches) AS chains"))
	if err == nil && found[len(found)-1] == clean {
		found = found[:len(found)-1]
	}
	known := func(f string) bool { return strings.HasPrefix(f, "acknowledged ") }
	if (err == nil) != (len(slices.DeleteFunc(slices.Clone(found), known)) == 0) {
		tr.t.Errorf("%v, but found %v", err, found)
	}
	slices.Sort(found)
	return found
}

// psqlURL is the URL of the database as psql knows it.
func (tr *trail) psqlURL() string {
	tr.t.Helper()
	u := must.Get(url.Parse(tr.url))(tr.t)
	q := u.Query()
	q.Set("options", "-csearch_path="+q.Get("search_path"))
	q.Del("search_path") // psql does not know it
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	return u.String()
}

// TestWithoutSchema: without the folder of the schema the second verifier compares the rest, and says so.
func TestWithoutSchema(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	tr.exec("CREATE TRIGGER lost BEFORE INSERT ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION refuse_change()")
	command := exec.CommandContext(t.Context(), interpreter(), "-m", "verify", tr.psqlURL())
	command.Env = strangersEnviron()
	output, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "the schema is not compared") || !strings.Contains(string(output), "clean: ") {
		t.Errorf("%v\n%s", err, output)
	}
}

// bothHeld demands the same findings of both verifiers, held to the checkpoints.
func (tr *trail) bothHeld(want ...string) {
	tr.t.Helper()
	tr.finds(tr.held, want...)
	slices.Sort(want)
	if found := tr.stranger(true); !slices.Equal(found, slices.Compact(want)) {
		tr.t.Errorf("verify.py:\n  %s\nwant\n  %s", strings.Join(found, "\n  "), strings.Join(want, "\n  "))
	}
}

// bothFind checks that both verifiers have the same findings after tamper, and undoes the changes
// to the tables.
func (tr *trail) bothFind(tables, tamper string, want ...string) {
	tr.t.Helper()
	for table := range strings.FieldsSeq(tables) {
		tr.exec("CREATE TEMPORARY TABLE kept_%s AS SELECT * FROM %[1]s", table)
	}
	tr.exec("%s", tamper)
	tr.finds(nil, want...)
	slices.Sort(want)
	if found := tr.stranger(false); !slices.Equal(found, want) {
		tr.t.Errorf("verify.py after %s:\n  %s\nwant\n  %s", tamper, strings.Join(found, "\n  "), strings.Join(want, "\n  "))
	}
	for table := range strings.FieldsSeq(tables) {
		tr.exec("DELETE FROM %s; INSERT INTO %[1]s SELECT * FROM kept_%[1]s; DROP TABLE kept_%[1]s", table)
	}
}

// TestStrangerAgrees: two verifiers, one of them written from the document alone, have the same
// findings.
func TestStrangerAgrees(t *testing.T) {
	for name, tamper := range map[string]func(*trail){
		"clean": func(*trail) {},
		"checks": func(tr *trail) {
			tr.exec("UPDATE checks SET message = 'x' WHERE check_id = '%s'", tr.records[0][0].ID.Text(""))
			tr.exec("DELETE FROM checks WHERE check_id = '%s'", tr.records[1][0].ID.Text(""))
			tr.exec(`CREATE TEMPORARY TABLE copy AS SELECT * FROM checks LIMIT 1; UPDATE copy SET check_id = '%s';
				INSERT INTO checks SELECT * FROM copy`, spend.NewID(time.Now()).Text(""))
			tr.exec("UPDATE violations SET amount = amount + 1 WHERE id = '%s'", tr.records[2][0].ID.Text(""))
			tr.exec("DELETE FROM violations WHERE id = '%s'", tr.records[3][0].ID.Text(""))
		},
		"outcomes": func(tr *trail) {
			all := tr.report()
			tr.exec("UPDATE outcomes SET note = 'x' WHERE outcome_id = '%s'; DELETE FROM outcomes WHERE outcome_id = '%s'", all[0].ID.Text(""),
				all[1].ID.Text(""))
			tr.exec("CREATE TEMPORARY TABLE copy AS SELECT * FROM outcomes LIMIT 1; UPDATE copy "+
				"SET outcome_id = '%s', step = 7, number = 7; INSERT INTO outcomes SELECT * FROM copy",
				spend.NewOutcomeID(time.Now()).Text(""))
		},
		"idempotency keys": func(tr *trail) {
			of := func(i int) string { return tr.records[i][0].ID.Text("") }
			tr.exec("DELETE FROM idempotency_keys WHERE check_id IN ('%s', '%s')", of(0), of(1))
			again := checksOfAllSorts(tr.records[0][0].Fence)[0]
			again.Action.IdempotencyKey, again.Fence.Node = tr.records[0][0].Action.IdempotencyKey, spend.NewID(time.Now())
			must.Do(tr.t, tr.writer.Append(again).Final())
			tr.exec("UPDATE idempotency_keys SET check_id = '%s' WHERE check_id = '%s'", of(0), of(2))
			tr.exec("UPDATE idempotency_keys SET expires_at = now() WHERE check_id = '%s'", of(3))
			tr.exec("INSERT INTO idempotency_keys VALUES ('\\xee', '%s', now() + interval '1 hour')", of(4))
		},
		"null and empty": func(tr *trail) {
			tr.exec("UPDATE checks SET reason_text = '' WHERE check_id = '%s'", tr.records[0][1].ID.Text(""))
			tr.exec("UPDATE checks SET metadata = NULL WHERE check_id = '%s'", tr.records[1][0].ID.Text(""))
		},
		"batches": func(tr *trail) {
			tr.exec("UPDATE batches SET head = set_byte(head, 0, 255 - get_byte(head, 0)) WHERE chain_id = '%s' AND seq = 2", tr.chains[0].Text(""))
			tr.exec("UPDATE batches SET seq = CASE seq WHEN 2 THEN 30 WHEN 3 THEN 2 END WHERE chain_id = '%s' AND seq IN (2, 3)",
				tr.chains[1].Text(""))
			tr.exec("UPDATE batches SET seq = 3 WHERE chain_id = '%s' AND seq = 30", tr.chains[1].Text(""))
		},
		"before the first batch": func(tr *trail) {
			tr.exec(`INSERT INTO batches SELECT chain_id, 0, first_id, last_id, version, head, entries FROM batches WHERE chain_id = '%s'
				AND seq = 1`, tr.chains[0].Text(""))
		},
		"policies": func(tr *trail) {
			tr.exec("UPDATE policies SET rules = '[1]' WHERE version = 1; DELETE FROM policies WHERE version = 3")
			tr.exec("UPDATE changes SET head = set_byte(head, 0, 255 - get_byte(head, 0)) WHERE seq = 2")
		},
		"keys": func(tr *trail) {
			tr.addKey()
			tr.exec("UPDATE changes SET details = '{}' WHERE seq = 5")
			tr.exec("UPDATE keys SET hash = '\\x00'; INSERT INTO keys (id, hash, name, rpm, active, created_at, last_used, generation) "+
				"SELECT '%s', '\\x01', name, rpm, active, created_at, last_used, generation FROM keys",
				spend.NewID(time.Now()).Text(""))
			tr.exec("DELETE FROM policies WHERE version = 1")
		},
		"webhooks": func(tr *trail) {
			tr.addWebhook()
			tr.exec("UPDATE webhooks SET url = 'https://example.net/'; INSERT INTO webhooks SELECT '%s', url, event_types, active, "+
				"secret_sha256, created_at, generation FROM webhooks",
				spend.NewID(time.Now()).Text(""))
			tr.addWebhook()
			tr.exec("DELETE FROM webhooks WHERE url LIKE '%%.com%%'")
		},
		"counters": func(tr *trail) {
			tr.recordCharged(2)
			tr.sign()
			tr.exec("UPDATE budget_counters SET used = used + 0.5 WHERE rule_id = 'day'; DELETE FROM budget_counters WHERE rule_id = 'ever'")
			tr.exec(`INSERT INTO budget_counters SELECT counter_id, 0, bucket_ms, NULL, 1, since, noticed, used, policy_id, rule_id, subject
				FROM budget_counters WHERE rule_id = 'day'`)
			tr.exec("UPDATE budget_counters SET end_ms = end_ms - 1 WHERE rule_id = 'rolling' AND start_ms >= 0")
		},
		"cut off": func(tr *trail) {
			tr.forget(tr.chains[0], tr.last(tr.chains[0]))
			tr.forget(tr.chains[1], 1)
		},
		"rewritten": func(tr *trail) {
			tr.exec("UPDATE checks SET request_id = 'someone' WHERE check_id = '%s'", tr.entries(tr.chains[0], 1)[0].ID.Text(""))
			tr.rewrite(tr.chains[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTrail(t)
			tr.recordMore()
			tr.recordCharged(1)
			tr.sign()
			tamper(tr)
			for _, held := range []bool{false, true} {
				own, _, err := tr.verify(func(o *verify.Options) {
					if held {
						tr.held(o)
					}
				})
				own = slices.Compact(own)
				if theirs := tr.stranger(held); err != nil || !slices.Equal(own, theirs) {
					t.Errorf("held to checkpoints %v, %v:\n  %s\nthe stranger:\n  %s", held, err, strings.Join(own, "\n  "), strings.Join(theirs, "\n  "))
				}
				if held && len(own) == 0 && name != "clean" {
					t.Error("nothing was found")
				}
			}
		})
	}
}
