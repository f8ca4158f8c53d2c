package e2e_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// checkpointKey signs the checkpoints of the fleets under test.
var checkpointKey = strings.Repeat("c4", 32)

// prove runs the verifier on the trail as it is.
func (s *suite) prove(t *testing.T) (code int, output string) {
	t.Helper()
	code, output, err := fleet.Run(limited(t, patience), s.binary, t.TempDir(),
		fleet.Settings{"DATABASE_URL": s.Postgres.URL, "CHECKPOINT_KEY": checkpointKey, "CHECKPOINT_FILE": s.checkpoints},
		"audit", "verify", "--checkpoint", s.checkpoints)
	must.Do(t, err)
	return code, output
}

// G8: a node is killed in the middle of a commit, others go on, and after all
// faults of this suite, under load, the trail verifies. Then a row is changed, and
// the verifier names it.
func (s *suite) trailIsProved(t *testing.T) {
	_, claimed := s.dieCommitting(t, "87")
	claimed()
	for range 3 {
		check(t, s.client(0), s.action("88"))
		if code, output := s.prove(t); code != 0 || !strings.Contains(output, "\nclean ") {
			t.Fatalf("exit %d\n%s", code, output)
		}
	}
	ctx := limited(t, patience)
	alter := func(sql string) (id string) {
		t.Helper()
		tx, err := s.Postgres.Pool.Begin(ctx)
		must.Do(t, err)
		_, err = tx.Exec(ctx, "SET LOCAL session_replication_role = replica") // no trigger fires
		must.Do(t, err)
		var raw [16]byte
		must.Do(t, tx.QueryRow(ctx, sql).Scan(&raw))
		must.Do(t, tx.Commit(ctx))
		return hex.EncodeToString(raw[:])
	}
	const last = "WHERE check_id = (SELECT check_id FROM checks ORDER BY check_id DESC LIMIT 1) RETURNING check_id"
	id := alter("UPDATE checks SET amount = amount + 1 " + last)
	if code, output := s.prove(t); code != 1 || !strings.Contains(output, fmt.Sprintf("altered check chk_%s: ", id)) {
		t.Errorf("a row was altered: exit %d\n%s", code, output)
	}
	alter("UPDATE checks SET amount = amount - 1 " + last)
	if code, output := s.prove(t); code != 0 {
		t.Errorf("a row was put back: exit %d\n%s", code, output)
	}
}
