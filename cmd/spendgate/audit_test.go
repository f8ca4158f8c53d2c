package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spendgate/audit/checkpoint"
)

func TestAuditKeygen(t *testing.T) {
	r := runWith(t, nil, "", "audit", "keygen")
	r.check(t, 0, "secret ", "")
	fields := strings.Fields(r.stdout)
	if len(fields) != 4 {
		t.Fatalf("printed %q", r.stdout)
	}
	seed, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	key, err := checkpoint.NewKey(seed)
	if err != nil {
		t.Fatal(err)
	}
	if public, err := checkpoint.ParsePublicKey(fields[3]); err != nil || public.ID() != key.Public().ID() {
		t.Errorf("the public key is not the secret one's: %v", err)
	}
	if again := runWith(t, nil, "", "audit", "keygen"); again.stdout == r.stdout {
		t.Error("the same key twice")
	}
}

func TestAuditIsToldWhatItNeeds(t *testing.T) {
	database := "SPENDGATE_DATABASE_URL=postgres://nobody@127.0.0.1:1/none"
	lines := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(lines, nil, 0o600); err != nil {
		t.Fatal(err)
	}
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
		{"audit show viol_0190aaaabbbb7ccc8ddd000000000001", []string{database}, 2, "the check of that violation is chk_0190aaaabbbb7ccc8ddd000000000001"},
		{"audit verify --workers 0", []string{database}, 2, "at least one worker"},
		{"audit verify --checkpoint " + lines, []string{database}, 2, "needs --public-key"},
		{"audit verify --checkpoint " + lines + " --public-key x", []string{database}, 1, "32 bytes"},
		{"audit verify --checkpoint " + lines + "2 --public-key x", []string{database}, 1, "cannot open the checkpoints"},
		{"audit verify", []string{database}, 1, "cannot read the audit trail"},
		{"audit checkpoint", []string{database}, 1, "SPENDGATE_CHECKPOINT_KEY"},
	} {
		r := runWith(t, c.environ, "", strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.stderr) || r.stdout != "" {
			t.Errorf("%s: exit %d, %s", c.args, r.code, r.stderr)
		}
	}
}
