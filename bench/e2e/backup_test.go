package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// backup is a fleet set up as the pages say, and the answers that it gave.
type backup struct {
	*roles
	binary string
	dir    string // where the pages' commands are typed
	key    string
	mu     sync.Mutex
	given  map[string][]byte // the answers, by check, where there was one
}

// newBackup starts servers, and makes roles and schema as the pages say.
func newBackup(t *testing.T, binary string) *backup {
	t.Helper()
	b := &backup{
		roles: &roles{
			Fleet:     startFleet(t, fleet.Options{Binary: binary}),
			variables: map[string]string{"owner": "owner", "service": "spendgate", "schema": "spendgate"},
		},
		binary: binary, dir: t.TempDir(), given: make(map[string][]byte),
	}
	b.prepare(t)
	b.typed(t, "Roles in PostgreSQL", "migrate")
	return b
}

// testBackup runs the pages' own commands: a dump under load, more checks,
// the loss of the server, a restore into an empty one. Nothing from before the
// dump is lost, and claims of later checks in Redis have no effect.
func testBackup(t *testing.T, binary string) {
	b := newBackup(t, binary)
	nodes := b.start(t)
	admin := nodes[0].Admin(b.AdminKey)
	var err error
	_, b.key, err = admin.CreateKey(t.Context(), "test", plenty)
	must.Do(t, err)
	ok(t, must.Get(nodes[0].Client(b.key).PostPolicy(t.Context(), standardPolicy()))(t), http.StatusCreated)

	stop := b.load(t, nodes)
	eventually(t, patience, "there is something to back up", func() bool { return b.count() > 200 })
	before := b.answers()
	owned := b.owned(t)
	b.typed(t, "Back up", "pg_dump")
	eventually(t, patience, "checks went on during the dump and after it", func() bool { return b.count() > len(before)+100 })
	stop()
	lost := b.check(t, nodes[0], b.action("after the dump", ""))
	oldEpoch := b.epoch(t)
	oldNode := b.lastNode(t)

	if code, out, err := fleet.Run(limited(t, patience), binary, b.dir, fleet.Settings{"DATABASE_URL": b.owner}, "audit",
		"restored"); err != nil || code != 1 || !strings.Contains(out, "stop them first") {
		t.Errorf("audit restored beside nodes: %d, %v\n%s", code, err, out)
	}
	checkpoints := fleet.Settings{
		"DATABASE_URL": b.service, "CHECKPOINT_KEY": checkpointKey, "CHECKPOINT_FILE": filepath.Join(b.dir, "checkpoints"),
	}
	if code, out, err := fleet.Run(limited(t, patience), binary, b.dir, checkpoints, "audit", "checkpoint"); err != nil || code != 0 {
		t.Fatalf("audit checkpoint: %d, %v\n%s", code, err, out)
	}

	b.replaceServer(t, nodes)
	said := b.typed(t, "Restore", "pg_restore")
	frozen := regexp.MustCompile("frz_[0-9a-f]{32}").FindString(said)
	if !strings.Contains(said, "the record ends with chk_") || frozen == "" {
		t.Errorf("the restore says\n%s", said)
	}
	if again := b.owned(t); again != owned {
		t.Errorf("owners, triggers, rights or functions differ after the restore:\n%s\nbefore:\n%s", again, owned)
	}
	b.refuseOldClaims(t, oldNode, oldEpoch)
	// Only the checkpoint shows the loss: the ends of the chains that continued.
	checkpoints["DATABASE_URL"] = b.service
	code, out, err := fleet.Run(limited(t, patience), binary, b.dir, checkpoints, "audit", "verify", "--checkpoint",
		checkpoints["CHECKPOINT_FILE"])
	if err != nil || code != 1 || !strings.Contains(out, "chain "+strings.ReplaceAll(oldNode, "-", "")+": its end is cut off") ||
		strings.Contains(out, "altered") {
		t.Errorf("audit verify with the checkpoint of before the loss: %d, %v\n%s", code, err, out)
	}
	nodes = b.start(t)
	if reason := b.check(t, nodes[0], b.action("while it is frozen", "")).Result().ReasonCode; reason == nil || *reason != "frozen" {
		t.Errorf("a check before people have released the freeze: %v", reason)
	}
	ok(t, must.Get(nodes[1].Admin(b.AdminKey).Do(t.Context(), http.MethodPost, "/v1/freezes/"+frozen+"/release",
		map[string]string{"note": "compared"}))(t), http.StatusOK)
	b.serve(t, nodes, before, lost)
	t.Run("the service's role can change nothing", b.refused)
}

// typed runs the block with the word in a section of the operators' pages,
// in a folder with copies of deploy/postgres and the binary.
// instead replaces texts of the page: old, new, old, new.
func (b *backup) typed(t *testing.T, section, word string, instead ...string) string {
	t.Helper()
	text := ""
	for _, page := range []string{"maintenance.md", "backup.md", "archive.md"} {
		content := must.Get(os.ReadFile("../../docs/operate/" + page))(t)
		text += string(content)
	}
	_, text, _ = strings.Cut(text, "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(text, -1) {
		if !strings.Contains(block[1], word) {
			continue
		}
		// Passwords are typed in; the test has set them.
		script := regexp.MustCompile(`(?m)^psql "\$ADMIN_URL" +#.*$`).ReplaceAllString(block[1], "")
		script = strings.NewReplacer(instead...).Replace(script)
		bash := exec.CommandContext(limited(t, time.Minute), "bash", "-euo", "pipefail", "-c", script)
		bash.Dir = b.dir
		bash.Env = []string{
			"PATH=" + filepath.Dir(b.binary) + ":" + filepath.Dir(b.Postgres.Tool("psql")) + ":" + os.Getenv("PATH"), "HOME=" + b.dir, "LC_ALL=C",
			"ADMIN_URL=" + b.Postgres.URL, "OWNER_URL=" + b.owner,
		}
		out, err := bash.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s\n%s", section, err, script, out)
		}
		return string(out)
	}
	t.Fatalf("the section %s has no block with %s", section, word)
	return ""
}

// prepare makes the roles and the folder in which the commands are typed.
func (b *backup) prepare(t *testing.T) {
	b.roles.prepare(t)
	must.Do(t, os.MkdirAll(filepath.Join(b.dir, "deploy"), 0o700))
	must.Do(t, os.CopyFS(filepath.Join(b.dir, "deploy", "postgres"), os.DirFS("../../deploy/postgres")))
}

// start starts two nodes of the service's role.
func (b *backup) start(t *testing.T) (nodes []*fleet.Node) {
	t.Helper()
	for range 2 {
		node := must.Get(b.AddNode(fleet.Settings{"DATABASE_URL": b.service}))(t)
		must.Do(t, node.Start(limited(t, patience)))
		nodes = append(nodes, node)
	}
	return nodes
}

func (b *backup) action(counterparty, key string) fleet.Action {
	return fleet.Action{
		AgentID: "agent", PolicyID: standard, ActionType: "refund", Amount: "300", Currency: "USD", Counterparty: counterparty,
		IdempotencyKey: key,
	}
}

func (b *backup) check(t *testing.T, n *fleet.Node, a fleet.Action) fleet.Answer {
	t.Helper()
	return check(t, n.Client(b.key), a)
}

// load sends checks from several agents until it is stopped. Some have keys.
func (b *backup) load(t *testing.T, nodes []*fleet.Node) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var agents sync.WaitGroup
	for i := range 4 {
		agents.Go(func() {
			client := nodes[i%len(nodes)].Client(b.key)
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("keyless-%d-%d", i, n)
				key := ""
				if n%3 == 0 {
					name = fmt.Sprintf("keyed-%d-%d", i, n)
					key = name
				}
				answer, err := client.Check(context.WithoutCancel(ctx), b.action(name, key))
				if err != nil || answer.Status != http.StatusOK {
					t.Errorf("%s: %v %s", name, err, answer)
					return
				}
				b.mu.Lock()
				b.given[name] = answer.Body
				b.mu.Unlock()
				time.Sleep(20 * time.Millisecond) // below the key's rate limit
			}
		})
	}
	return func() { cancel(); agents.Wait() }
}

func (b *backup) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.given)
}

func (b *backup) answers() map[string][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.given)
}

// replaceServer replaces the database's server by an empty one. Redis keeps its
// data.
func (b *backup) replaceServer(t *testing.T, nodes []*fleet.Node) {
	for _, n := range nodes {
		must.Do(t, n.Kill())
	}
	must.Do(t, b.Postgres.Close())
	dir, err := os.MkdirTemp("", "spendgate-restored-") //nolint:usetesting // PostgreSQL's user needs access
	must.Do(t, err)
	must.Do(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { must.Do(t, os.RemoveAll(dir)) })
	b.Postgres, err = fleet.StartPostgres(limited(t, patience), filepath.Join(dir, "postgres"))
	must.Do(t, err)
	b.prepareAgain(t)
}

// prepareAgain sets the passwords in advance, so that the runbook's commands run
// without a prompt.
func (b *backup) prepareAgain(t *testing.T) {
	ctx := limited(t, patience)
	for role, url := range map[string]*string{"owner": &b.owner, "spendgate": &b.service} {
		password := rand.Text()
		_, err := b.Postgres.Pool.Exec(ctx, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", role, password))
		must.Do(t, err)
		*url, err = b.Postgres.As(role, password)
		must.Do(t, err)
	}
}

// owned describes all that a restore must bring back besides rows.
func (b *backup) owned(t *testing.T) (all string) {
	t.Helper()
	err := b.Postgres.Pool.QueryRow(t.Context(), `SELECT concat_ws(E'\n',
		(SELECT string_agg(concat_ws(' ', tgrelid::regclass, tgname, tgenabled, pg_get_triggerdef(t.oid)), E'\n'
		ORDER BY tgrelid::regclass::text, tgname)
			FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = tgrelid WHERE relnamespace = 'spendgate'::regnamespace AND NOT tgisinternal),
		(SELECT string_agg(concat_ws(' ', relname, relowner::regrole, (SELECT string_agg(a::text, ',' ORDER BY a::text) FROM unnest(relacl) AS a),
			pg_get_expr(relpartbound, c.oid)), E'\n' ORDER BY relname)
			FROM pg_class AS c WHERE relnamespace = 'spendgate'::regnamespace AND relkind IN ('r', 'p')),
		(SELECT string_agg(concat_ws(' ', p.oid::regprocedure, proowner::regrole, prosecdef, proconfig,
			(SELECT string_agg(a::text, ',' ORDER BY a::text) FROM unnest(proacl) AS a), md5(prosrc)), E'\n' ORDER BY p.oid::regprocedure::text)
			FROM pg_proc AS p WHERE pronamespace = 'spendgate'::regnamespace))`).Scan(&all)
	must.Do(t, err)
	for _, part := range []string{"immutable_truncate", "make_partition", "owner=arwdDxt"} {
		if !strings.Contains(all, part) {
			t.Fatalf("%q is missing in\n%s", part, all)
		}
	}
	return all
}

func (b *backup) epoch(t *testing.T) (epoch string) {
	t.Helper()
	must.Do(t, b.Postgres.Pool.QueryRow(t.Context(), "SELECT id::text FROM spendgate.epoch").Scan(&epoch))
	return epoch
}

func (b *backup) lastNode(t *testing.T) (node string) {
	t.Helper()
	must.Do(t, b.Postgres.Pool.QueryRow(t.Context(), "SELECT node::text FROM spendgate.checks ORDER BY check_id DESC LIMIT 1").Scan(&node))
	return node
}

// refuseOldClaims: the dump lacks later fences, so no claim from before the
// restore may be recorded.
func (b *backup) refuseOldClaims(t *testing.T, node, epoch string) {
	t.Helper()
	if b.epoch(t) == epoch {
		t.Error("the epoch is the one from before the restore")
	}
	service := must.Get(pgx.Connect(t.Context(), b.service))(t)
	defer service.Close(t.Context()) //nolint:errcheck // no query is in flight
	if _, err := service.Exec(t.Context(), "SELECT begin_commit($1, $2)", node, epoch); err == nil || !strings.Contains(err.Error(), "SG001") {
		t.Errorf("a commit that was claimed before the restore is answered %v", err)
	}
}

// serve: answers from before the dump are unchanged, later checks are lost and
// their actions are evaluated again.
func (b *backup) serve(t *testing.T, nodes []*fleet.Node, before map[string][]byte, lost fleet.Answer) {
	client := nodes[1].Client(b.key)
	keyed, keyless := 0, 0
	for name, body := range before {
		first := fleet.Answer{Status: http.StatusOK, Body: body}.Result()
		if again := must.Get(client.GetCheck(t.Context(), first.CheckID))(t); !bytes.Equal(again.Body, body) {
			t.Errorf("%s is read as %s, was %s", first.CheckID, again, body)
		}
		if strings.HasPrefix(name, "keyed") {
			keyed++
			if again := b.check(t, nodes[0], b.action(name, name)); !again.Replayed() || !bytes.Equal(again.Body, body) {
				t.Errorf("a retry of %s is answered %s, was %s", name, again, body)
			}
			continue
		}
		keyless++
		if again := b.check(t, nodes[0], b.action(name, "")).Result(); !again.Duplicate() || named(t, again) != first.CheckID {
			t.Errorf("%s is answered %+v, was %s", name, again, body)
		}
	}
	if keyed < 20 || keyless < 20 {
		t.Errorf("%d with keys and %d without prove little", keyed, keyless)
	}
	if a := must.Get(client.GetCheck(t.Context(), lost.Result().CheckID))(t); a.ErrorCode() != "check_not_found" {
		t.Errorf("a check of after the dump: %s", a)
	}
	// Redis still has its claim, of an epoch that is over.
	if again := b.check(t, nodes[0], b.action("after the dump", "")); again.Result().Duplicate() || again.Result().Decision != "escalate" {
		t.Errorf("the action of a lost check is answered %s", again)
	}
	log := func() string { return nodes[0].Log() + nodes[1].Log() }
	eventually(t, patience, "a node says that it began an epoch", func() bool { return strings.Contains(log(), "a new epoch began") })
	if text := log(); strings.Contains(text, "denied") {
		t.Errorf("no rights:\n%s", tail(text))
	}
	b.show(t, before)
	eventually(t, patience, "the windows are loaded again", func() bool {
		text := string(must.Get(nodes[0].Metrics(t.Context()))(t).Body) + string(must.Get(nodes[1].Metrics(t.Context()))(t).Body)
		return strings.Count(text, "\nspendgate_guard_windows_lazy 0") == 2 &&
			regexp.MustCompile(`\nspendgate_guard_fingerprints_loaded_total [1-9]`).MatchString(text)
	})
	var counted bool
	must.Do(t, b.Postgres.Pool.QueryRow(t.Context(),
		"SELECT cluster = system_identifier FROM spendgate.violation_count_state, pg_control_system()").Scan(&counted))
	if !counted {
		t.Error("violations are counted by another server's transactions")
	}
	page := ok(t, must.Get(client.Violations(t.Context(), "limit=1"))(t), http.StatusOK)
	var total int
	must.Do(t, b.Postgres.Pool.QueryRow(t.Context(), "SELECT count(*) FROM spendgate.violations").Scan(&total))
	if want := fmt.Sprintf(`"has_more":true,"total_count":%d`, total); !strings.Contains(string(page.Body), want) {
		t.Errorf("violations: %s, want %s", page, want)
	}
}

// show prints a check from before the dump with the service's rights, and
// verifies the whole trail.
func (b *backup) show(t *testing.T, before map[string][]byte) {
	t.Helper()
	settings := fleet.Settings{"DATABASE_URL": b.service}
	for name, body := range before {
		first := fleet.Answer{Status: http.StatusOK, Body: body}.Result()
		code, out, err := fleet.Run(limited(t, patience), b.binary, b.dir, settings, "audit", "show", first.CheckID)
		for _, want := range []string{
			first.CheckID + ": escalate", "counterparty        " + name, "rule                ask, of type escalate_if",
			"parameter           amount_above = 200",
			"API key             key_", ", test", "the row is the one that the batch lists", "read from           PostgreSQL",
		} {
			if err != nil || code != 0 || !strings.Contains(out, want) {
				t.Fatalf("audit show: %d, %v, want %q in\n%s", code, err, want, out)
			}
		}
		break
	}
	code, out, err := fleet.Run(limited(t, patience), b.binary, b.dir, settings, "audit", "verify")
	if err != nil || code != 0 || !strings.Contains(out, "\nclean ") {
		t.Errorf("audit verify after the restore: %d, %v\n%s", code, err, out)
	}
}
