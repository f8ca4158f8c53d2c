package auditcmd

import (
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/checkpoint"
	"spendgate/audit/spend"
	"spendgate/audit/sqlite"
	"spendgate/bench/must"
	"spendgate/cmd/spendgate/cli"
)

func TestAuditKeygen(t *testing.T) {
	r := runWith(t, nil, "", "audit", "keygen")
	r.Check(t, 0, "secret ", "")
	fields := strings.Fields(r.Stdout)
	if len(fields) != 4 {
		t.Fatalf("printed %q", r.Stdout)
	}
	seed := must.Get(base64.StdEncoding.DecodeString(fields[1]))(t)
	key := must.Get(checkpoint.NewKey(seed))(t)
	if public, err := checkpoint.ParsePublicKey(fields[3]); err != nil || public.ID() != key.Public().ID() {
		t.Errorf("the public key is not the secret one's: %v", err)
	}
	if again := runWith(t, nil, "", "audit", "keygen"); again.Stdout == r.Stdout {
		t.Error("the same key twice")
	}
}

func TestAuditIsToldWhatItNeeds(t *testing.T) {
	database := "SPENDGATE_DATABASE_URL=postgres://nobody@127.0.0.1:1/none"
	lines := filepath.Join(t.TempDir(), "lines")
	must.Do(t, os.WriteFile(lines, nil, 0o600))
	for _, c := range []struct {
		args    string
		environ []string
		code    int
		stderr  string
	}{
		{"audit", nil, 2, "verify, checkpoint, keygen"},
		{"audit verify", nil, 1, "SPENDGATE_DATABASE_URL: is required"},
		{"audit verify now", []string{database}, 2, "takes no arguments"},
		{"audit verify --from yesterday", []string{database}, 2, `--from cannot be "yesterday": must be a date (2026-03-01)`},
		{"audit verify --from 2026-03-02 --to 2026-03-01", []string{database}, 2, "--from must not be later than --to"},
		{"audit verify --from 2999-01-01", []string{database}, 2, "--from lies in the future"},
		{"audit verify --checkpoint=", []string{database}, 2, "--checkpoint cannot be \"\": must not be empty"},
		{
			"audit show viol_0190aaaabbbb7ccc8ddd000000000001",
			[]string{database},
			2,
			"the check of that violation is chk_0190aaaabbbb7ccc8ddd000000000001",
		},
		{"audit verify --workers 0", []string{database}, 2, "at least one worker"},
		{"audit verify --checkpoint " + lines, []string{database}, 2, "needs --public-key"},
		{"audit verify --checkpoint " + lines + " --public-key x", []string{database}, 1, "32 bytes"},
		{"audit verify --checkpoint " + lines + "2 --public-key x", []string{database}, 1, "cannot open the checkpoints"},
		{"audit verify", []string{database}, 1, "cannot read the audit trail"},
		{"audit changes", nil, 1, "SPENDGATE_DATABASE_URL: is required"},
		{"audit changes all", []string{database}, 2, "takes no arguments"},
		{"audit changes --from yesterday", []string{database}, 2, `--from cannot be "yesterday": must be a date (2026-03-01)`},
		{"audit changes --kind policy.create", []string{database}, 2, "must be one of policy.created, "},
		{"audit changes --from 2026-03-02 --to 2026-03-01", []string{database}, 2, "--from must not be later than --to"},
		{"audit changes --key-id=", []string{database}, 2, "--key-id cannot be \"\": must not be empty"},
		{"audit changes --data-dir " + lines, nil, 1, "--data-dir: "},
		{"audit checkpoint", []string{database}, 1, "SPENDGATE_CHECKPOINT_KEY"},
	} {
		r := runWith(t, c.environ, "", strings.Fields(c.args)...)
		if r.Code != c.code || !strings.Contains(r.Stderr, c.stderr) || r.Stdout != "" {
			t.Errorf("%s: exit %d, %s", c.args, r.Code, r.Stderr)
		}
	}
}

// TestAuditChanges lists the changes in the store of a single node.
func TestAuditChanges(t *testing.T) {
	folder := t.TempDir()
	store := must.Get(sqlite.Open(t.Context(), filepath.Join(folder, cli.StoreFile), slog.New(slog.DiscardHandler)))(t)
	defer store.Close()
	began := time.Now()
	id := spend.NewID(began)
	key := &audit.Key{ID: id, Hash: spend.HashKey("secret"), Name: "till\x1b[2J", RateLimitRPM: 7, Active: true, CreatedAt: began}
	admin := audit.Actor{Credential: "0123abcd", RequestID: "req_1", Address: "192.0.2.1"}
	must.Do(t, store.CreateKey(t.Context(), audit.Actor{Principal: "spendgate dev"}, key))
	must.Get(store.UpdateKey(t.Context(), admin, id, audit.KeyChange{Active: new(false)}))(t)
	const policies = 501 // more than a page
	for range policies {
		p := &audit.Policy{PolicyID: "p", Name: "P", Rules: "[]"}
		must.Do(t, store.CreatePolicy(t.Context(), audit.Actor{KeyID: "key_1", Principal: "till 1"}, p, audit.NewBudgets{}, began))
	}
	list := func(args ...string) []string {
		r := runWith(t, nil, "", append([]string{"audit", "changes", "--data-dir", folder}, args...)...)
		if r.Code != 0 || r.Stderr != "" {
			t.Fatalf("%v: exit %d, %s", args, r.Code, r.Stderr)
		}
		return strings.Split(strings.TrimSpace(r.Stdout), "\n")
	}
	keyID := id.Text(spend.PrefixKey)
	table := list("--key-id", keyID)
	if len(table) != 3 || !strings.HasPrefix(table[0], "NO ") || strings.Contains(table[1], "\x1b") ||
		!strings.Contains(strings.Join(strings.Fields(table[1]), " "), "key.created "+keyID+" system - spendgate dev") ||
		!strings.Contains(strings.Join(strings.Fields(table[2]), " "), "key.changed "+keyID+" admin - 0123abcd 192.0.2.1 req_1") {
		t.Errorf("printed %q", table)
	}
	made := list("--policy-id", "p")[1]
	if !strings.Contains(strings.Join(strings.Fields(made), " "), "policy.created p version 1 key till 1 key_1") {
		t.Errorf("printed %q", made)
	}
	lines := list("--json", "--policy-id", "p", "--from", began.UTC().Add(-time.Minute).Format(time.RFC3339))
	last := `"kind":"policy.created","subject":"p","version":501,"actor":"key","key_id":"key_1","principal":"till 1","details":{"name":"P"}}`
	if len(lines) != policies || !strings.Contains(lines[policies-1], last) {
		t.Errorf("%d lines, the last is %s", len(lines), lines[len(lines)-1])
	}
	today := time.Now().UTC().Format(time.DateOnly)
	for args, want := range map[string]int{
		"--kind key": 2, "--kind key.changed": 1, "--kind key.changed --kind policy": policies + 1,
		"--principal ＴＩＬＬ\u00a01": policies, "--principal 0123ABCD": 0, "--principal 0123abcd": 1, "--principal key_1 --kind key": 0,
		"--from " + today + " --to " + today: policies + 2, "--to 2020-01-01": 0,
	} {
		var some []string
		for arg := range strings.SplitSeq(args, " ") {
			some = append(some, strings.ReplaceAll(arg, "\u00a0", " "))
		}
		if got := list(append(some, "--json")...); len(got) != max(want, 1) || (got[0] == "") != (want == 0) {
			t.Errorf("%s: %d changes, want %d", args, len(got), want)
		}
	}
	if later := list("--json", "--from", "2999-01-01"); len(later) != 1 || later[0] != "" {
		t.Errorf("printed %q", later)
	}
}
