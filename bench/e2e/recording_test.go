package e2e_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// S27: a node that cannot record checks, while others do, is not ready until it can. If
// none can, all stay ready: their reads go on.
func (s *suite) recording(t *testing.T) {
	ctx := limited(t, 3*patience)
	password := rand.Text()
	exec := func(statement string) {
		t.Helper()
		must.Get(s.Postgres.Pool.Exec(ctx, statement))(t)
	}
	exec(fmt.Sprintf("CREATE ROLE lesser LOGIN PASSWORD '%s'", password))
	must.Do(t, s.Postgres.Script(ctx, s.Postgres.URL, "../../deploy/postgres/grants.sql",
		map[string]string{"service": "lesser", "schema": "public"}))
	url := must.Get(s.Postgres.As("lesser", password))(t)
	node := must.Get(s.AddNode(fleet.Settings{"DATABASE_URL": url}))(t)
	t.Cleanup(func() { must.Do(t, node.Kill()) })
	must.Do(t, node.Start(ctx))
	status := func(n *fleet.Node) (status int, body string) {
		a := must.Get(n.Ready(ctx))(t)
		return a.Status, string(a.Body)
	}
	checks := func(nodes ...*fleet.Node) (failed int) {
		for _, n := range nodes {
			if must.Get(n.Client(s.key).Check(ctx, s.action("1")))(t).Status != http.StatusOK {
				failed++
			}
		}
		return failed
	}
	exec("ALTER ROLE lesser CONNECTION LIMIT 0") // the connection that the first check needs exists
	if failed := checks(node); failed > 0 {
		t.Fatal("it does not work to begin with")
	}
	exec("ALTER ROLE lesser CONNECTION LIMIT -1")

	exec("REVOKE INSERT ON batches FROM lesser")
	began := time.Now()
	var body string
	eventually(t, patience, "the node is not ready", func() bool {
		if failed := checks(node, s.Nodes[0], s.Nodes[1]); failed != 1 {
			t.Fatalf("%d of three nodes fail", failed)
		}
		var code int
		code, body = status(node)
		return code == http.StatusServiceUnavailable
	})
	t.Logf("not ready after %s: %s", time.Since(began), body)
	var told struct {
		Dependencies []struct{ Name, Status, Detail string }
	}
	must.Do(t, json.Unmarshal([]byte(body), &told))
	if len(told.Dependencies) != 2 || told.Dependencies[1].Name != "store" ||
		!strings.Contains(told.Dependencies[1].Detail, "cannot record checks") {
		t.Errorf("/readyz says %s", body)
	}
	logs(t, node, `"msg":"not ready","dependency":"store","error":"this node cannot record checks`)
	logs(t, node, "permission denied")
	exec("GRANT INSERT ON batches TO lesser")
	eventually(t, patience, "the node is ready again", func() bool {
		checks(s.Nodes[0])
		code, _ := status(node)
		return code == http.StatusOK
	})
	if failed := checks(node); failed > 0 {
		t.Error("it is ready and fails")
	}

	exec("CREATE TRIGGER broken BEFORE INSERT ON batches EXECUTE FUNCTION refuse_change()")
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); {
		if failed := checks(node, s.Nodes[0], s.Nodes[1]); failed != 3 {
			t.Fatalf("%d of three nodes fail", failed)
		}
		for _, n := range []*fleet.Node{node, s.Nodes[0], s.Nodes[1]} {
			if code, body := status(n); code != http.StatusOK {
				t.Fatalf("no node records, and %s says %s", n.Name, body)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	exec("DROP TRIGGER broken ON batches")
	if failed := checks(node, s.Nodes[0], s.Nodes[1]); failed > 0 {
		t.Errorf("%d of three nodes fail", failed)
	}
}
