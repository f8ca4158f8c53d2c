package policycmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spendgate/bench/must"
	"spendgate/cmd/spendgate/cli"
)

// TestPoliciesBacktest: the table names the flips. Only checks that would be allowed fail a pull
// request, if that is asked for.
func TestPoliciesBacktest(t *testing.T) {
	const id = "bt_00000000000000000000000000000000"
	var toAllow, compared int
	missing := "[]"
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		head := `{"backtest_id":"` + id +
			`","policy_id":"p","version":null,"from":"2026-11-01T00:00:00.000Z","to":"2026-11-02T23:59:59.999Z","state":"counterfactual",` +
			`"progress":{"checks":1,"fraction":1,"reached":null},"error":null,"created_at":"2026-11-03T00:00:00.000Z",`
		switch {
		case r.Method == http.MethodPost:
			if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "version") {
				t.Errorf("sent %s", body)
			}
			w.WriteHeader(http.StatusAccepted)
			_, _ = fmt.Fprint(w, head+`"status":"queued","report":null}`)
		case strings.HasSuffix(r.URL.Path, "/flips"):
			_, _ = fmt.Fprint(w, `{"data":[{"check_id":"chk_1","timestamp":"2026-11-01T00:00:00.000Z","recorded":{"decision":"block",`+
				`"rule_id":"cap"},"candidate":{"decision":"allow"},"action":null}],`+
				`"pagination":{"next_cursor":null,"has_more":false}}`)
		default:
			_, _ = fmt.Fprintf(w, head+`"status":"succeeded","report":{"coverage":{"checks":1,"compared":%d,"missing_days":%s},`+
				`"flips":{"total":1,"looser":1,"to_allow":%d},"matrix":{},"rules":[],"budgets":[`+
				`{"rule_id":"many","max_count":5,"count":{"value":4,"per":{}}}]}}`, compared, missing, toAllow)
		}
	}))
	defer service.Close()
	file := filepath.Join(t.TempDir(), "p.json")
	must.Do(t, os.WriteFile(file, []byte(`{"policy_id":"p","name":"p","rules":[]}`), 0o600))
	for _, c := range []struct {
		toAllow, compared int
		missing           string
		warn              bool // instead of --fail-on-looser
		exit              int
	}{{0, 1, "[]", false, 0}, {1, 1, "[]", false, 3}, {0, 0, "[]", false, 2}, {0, 1, `["2026-11-01"]`, false, 2}, {0, 0, "[]", true, 0}} {
		toAllow, compared, missing = c.toAllow, c.compared, c.missing
		var out, said bytes.Buffer
		p := cli.Process{
			Stdout: &out, Stderr: &said,
			Environ: []string{"SPENDGATE_API_URL=" + service.URL, "SPENDGATE_API_KEY=svc_live_00000000000000000000000000000000"},
		}
		args := []string{"policies", "backtest", "-f", file, "--from", "2026-11-01", "--to", "2026-11-02", "--fail-on-looser"}
		if c.warn {
			args = args[:len(args)-1]
		}
		if got := cli.Run(context.Background(), root(), p, args); got != c.exit || !strings.Contains(out.String(), "chk_1") ||
			!strings.Contains(out.String(), "budget many: at most 4 of 5 actions") {
			t.Errorf("%d to allow: exit %d\n%s", c.toAllow, got, out.String())
		}
		if strings.Contains(said.String(), "WARNING: no check was compared") != c.warn {
			t.Errorf("%+v: %s", c, said.String())
		}
	}
}
