package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// nextVersion is the version of the binary after this one.
const nextVersion = "the-next"

// upgrade is a fleet of three nodes of this version behind HAProxy. They
// connect to PostgreSQL with a role that cannot migrate.
type upgrade struct {
	*suite
	roles   *roles
	old     string // binaries
	next    string
	version int // of the old schema
}

// testUpgrade: nodes of this version and of the next one, whose schema is
// newer, work side by side, and one can go either way (G11 with a migration). The older
// nodes are of this version, or a build of the revision in TEST_UPGRADE_FROM: the release before.
func testUpgrade(t *testing.T, binary string) {
	o := fleet.Options{Binary: binary}
	if from := os.Getenv("TEST_UPGRADE_FROM"); from != "" {
		o.Binary = buildRevision(t, from)
		o.Seen = func(string, string, fleet.Answer) {} // nodes of another version have a document of their own
	}
	f := startFleet(t, o)
	u := &upgrade{
		suite: &suite{Fleet: f}, old: o.Binary, next: buildNext(t),
		roles: &roles{Fleet: f, variables: map[string]string{"owner": "owner", "service": "service", "schema": "gate"}},
	}
	u.begin(t)
	u.inOrder(t, []test{
		{"a new node waits for the migration", u.refusesOlderSchema},
		{"G11 upgraded under load", u.forward},
		{"G11 taken back under load", u.back},
	})
}

// buildNext compiles the version after this one: another migration, and
// commits that use it.
func buildNext(t *testing.T) string {
	t.Helper()
	const commit = "audit/postgres/commit.go"
	migration := must.Get(os.ReadFile("testdata/next.sql"))(t)
	source := must.Get(os.ReadFile(filepath.Join("../..", commit)))(t)
	call := regexp.MustCompile(`(record_checks\([$0-9, ]+)\)`)
	if n := len(call.FindAll(source, -1)); n != 1 {
		t.Fatalf("%d calls that commit in %s, want 1", n, commit)
	}
	return build(t, fleet.BuildOptions{Version: nextVersion, Overlay: map[string]string{
		"audit/postgres/migrations/9001_next.sql": string(migration),
		commit: string(call.ReplaceAll(source, []byte(`$1, '`+nextVersion+`')`))),
	}})
}

// buildRevision compiles the version that a commit or tag has.
func buildRevision(t *testing.T, revision string) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "tree")
	root := must.Get(fleet.ModuleRoot())(t)
	must.Do(t, git(t, "clone", "--quiet", "--shared", "--no-checkout", root, tree))
	must.Do(t, git(t, "-C", tree, "checkout", "--quiet", "--detach", revision))
	return build(t, fleet.BuildOptions{Module: tree})
}

func git(t *testing.T, args ...string) error {
	output, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return nil
}

// begin makes the roles, migrates and starts the fleet, all of this version.
func (u *upgrade) begin(t *testing.T) {
	t.Helper()
	ctx := limited(t, patience)
	u.roles.prepare(t)
	_, err := u.Postgres.Pool.Exec(ctx, "ALTER ROLE postgres SET search_path = gate") // so that the tests' questions find it
	must.Do(t, err)
	u.Postgres.Pool.Reset()
	u.migrate(t, u.old)
	must.Do(t, u.Postgres.Pool.QueryRow(ctx, "SELECT max(version) FROM migrations").Scan(&u.version))
	for range 3 {
		n := must.Get(u.AddNode(fleet.Settings{"DATABASE_URL": u.roles.service}))(t)
		must.Do(t, n.Start(ctx))
	}
	u.front, err = fleet.StartBalancer(ctx, t.TempDir(), u.Nodes)
	must.Do(t, err)
	t.Cleanup(func() {
		must.Check(t, u.front.Kill())
	})
	_, u.key = u.newKey(t, plenty)
	u.post(t, u.Nodes[0], standardPolicy())
}

// migrate migrates and grants as the owner, as docs/operate/maintenance.md has it.
func (u *upgrade) migrate(t *testing.T, binary string) {
	t.Helper()
	code, output, err := fleet.Run(limited(t, patience), binary, t.TempDir(), fleet.Settings{"DATABASE_URL": u.roles.owner},
		"migrate", "--service", u.roles.variables["service"])
	if err != nil || code != 0 {
		t.Fatalf("cannot migrate: %d, %v\n%s", code, err, output)
	}
}

// refusesOlderSchema: a node of the next version that cannot migrate ends with an
// error that says what to do.
func (u *upgrade) refusesOlderSchema(t *testing.T) {
	n := must.Get(u.AddNode(fleet.Settings{"DATABASE_URL": u.roles.service}))(t)
	n.Install(u.next)
	if err := n.Start(limited(t, patience)); err == nil || !strings.Contains(err.Error(), "spendgate migrate") {
		t.Errorf("a new node on the old schema: %v", err)
	}
}

// forward migrates while the old nodes serve, and replaces them one by one. No
// request fails.
func (u *upgrade) forward(t *testing.T) {
	remembered := u.remember(t)
	u.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		u.migrate(t, u.next)
		for _, n := range u.Nodes[:3] {
			ok(t, must.Get(n.Ready(t.Context()))(t), http.StatusOK)
		}
		remembered()
		if n := u.writtenBy(t, nextVersion); n != 0 {
			t.Errorf("%d checks of the next version before it runs", n)
		}
		for i, n := range u.Nodes[:3] {
			u.replace(t, n, u.next)
			if i == 0 {
				u.schemaWentBack(t, n, u.Nodes[1])
			}
			remembered()
			u.freshAcross(t)
		}
		return from, time.Now()
	}, unharmed)
	if n := u.writtenBy(t, nextVersion); n == 0 {
		t.Error("no check was recorded as the next version does")
	}
}

// back puts the old binary in the place of the new one; the schema stays.
func (u *upgrade) back(t *testing.T) {
	remembered := u.remember(t)
	u.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		for _, n := range u.Nodes[:3] {
			u.replace(t, n, u.old)
			remembered()
			u.freshAcross(t)
		}
		return from, time.Now()
	}, unharmed)
	written := u.writtenBy(t, nextVersion)
	remembered()
	if n := u.writtenBy(t, nextVersion); n != written {
		t.Errorf("%d checks were recorded as the next version does, which is gone", n-written)
	}
}

// unharmed returns the expectation that nothing fails.
func unharmed(_, _ time.Time) expectation {
	return expectation{mayFail: func(shot) bool { return false }, within: closedIn}
}

// replace restarts a node with another binary.
func (u *upgrade) replace(t *testing.T, n *fleet.Node, binary string) {
	t.Helper()
	signalled := time.Now()
	must.Do(t, n.Terminate())
	terminated(t, n, signalled)
	n.Install(binary)
	must.Do(t, n.Start(limited(t, patience)))
	runs := strings.Contains(string(must.Get(n.Metrics(t.Context()))(t).Body), `version="`+nextVersion+`"`)
	if runs != (binary == u.next) {
		t.Errorf("%s runs the next version: %t", n.Name, runs)
	}
	time.Sleep(time.Second) // until the balancer has checked the node
}

// remember makes checks whose answers must not change. The returned function
// reads them again on each node, and makes another for the next time.
func (u *upgrade) remember(t *testing.T) (again func()) {
	t.Helper()
	type answered struct {
		action fleet.Action
		answer fleet.Answer
	}
	var all []answered
	more := func() {
		for _, action := range []fleet.Action{u.action("42"), u.keyed("900")} {
			n := u.Nodes[len(all)/2%3]
			all = append(all, answered{action, check(t, n.Client(u.key), action)})
		}
	}
	more()
	return func() {
		t.Helper()
		for _, n := range u.Nodes[:3] {
			for _, before := range all {
				a := check(t, n.Client(u.key), before.action)
				switch id := before.answer.Result().CheckID; {
				case before.action.IdempotencyKey != "" && (!a.Replayed() || !bytes.Equal(a.Body, before.answer.Body)):
					t.Errorf("%s: a key answered by %s is answered by %s", n.Name, before.answer, a)
				case before.action.IdempotencyKey == "" && (!a.Result().Duplicate() || named(t, a.Result()) != id):
					t.Errorf("%s: the action of %s was answered %s", n.Name, id, a)
				}
			}
		}
		more()
	}
}

// freshAcross: a policy that any node takes is in force on all, at once (G4).
func (u *upgrade) freshAcross(t *testing.T) {
	t.Helper()
	for _, author := range u.Nodes[:3] {
		version := u.post(t, author, standardPolicy())
		for _, n := range u.Nodes[:3] {
			if r := check(t, n.Client(u.key), u.action("1")).Result(); r.PolicyVersion < version {
				t.Errorf("%s judges by version %d when %s has answered %d", n.Name, r.PolicyVersion, author.Name, version)
			}
		}
	}
}

// schemaWentBack: if the schema is older than a node needs, as after a restore,
// that node is not ready, and one for the older schema is.
func (u *upgrade) schemaWentBack(t *testing.T, upgraded, old *fleet.Node) {
	t.Helper()
	ctx := limited(t, patience)
	set := func(statement string) {
		must.Get(u.Postgres.Pool.Exec(ctx, statement, u.version))(t)
	}
	set("UPDATE migrations SET version = -version WHERE version > $1")
	defer set("UPDATE migrations SET version = -version WHERE version < 0 AND $1 > 0")
	a := must.Get(upgraded.Ready(ctx))(t)
	if a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "schema") {
		t.Errorf("a node on a schema that is too old for it answers %s", a)
	}
	ok(t, must.Get(old.Ready(ctx))(t), http.StatusOK)
}

// writtenBy counts the checks that were recorded by the next version's commits.
func (u *upgrade) writtenBy(t *testing.T, version string) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must.Do(t, u.Postgres.Pool.QueryRow(ctx, "SELECT count(*) FROM checks WHERE written_by = $1", version).Scan(&n))
	return n
}
