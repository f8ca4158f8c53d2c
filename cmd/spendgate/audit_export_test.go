package main

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spendgate/audit/export"
	"spendgate/bench/must"
	"spendgate/cmd/spendgate/cli/clitest"
)

// manifestEnd is the end of the name of an export's manifest.
const manifestEnd = ".manifest.json"

// audit runs one of audit's commands on the node's folder.
func (n devNode) audit(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return runWith(t, nil, "", append(append([]string{"audit"}, args...), "--data-dir", n.folder)...)
}

// An export has a row for each check with everything about it, has the same bytes each time, and is
// written completely or not at all.
func TestExport(t *testing.T) {
	s := tell(t)
	folder := t.TempDir()
	for _, format := range []string{"csv", "jsonl"} {
		file := filepath.Join(folder, "checks."+format)
		s.audit(t, "export", "--format", format, "--out", file).Check(t, 0, "", "")
		again := s.audit(t, "export", "--format", format)
		first, manifest := s.read(t, file), s.read(t, file+manifestEnd)
		if again.Code != 0 || again.Stdout != first || again.Stderr != manifest {
			t.Errorf("%s: exit %d, other bytes the second time:\n%s%s", format, again.Code, again.Stdout, again.Stderr)
		}
		for _, name := range []string{file, file + manifestEnd} {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
	}
	table := s.table(t, filepath.Join(folder, "checks.csv"))
	objects := make(map[string]map[string]any)
	for line := range strings.Lines(s.read(t, filepath.Join(folder, "checks.jsonl"))) {
		one := make(map[string]any)
		must.Do(t, json.Unmarshal([]byte(line), &one))
		objects[fmt.Sprint(one["check_id"])] = one
	}
	if len(table) != 8 || len(objects) != 8 {
		t.Fatalf("%d and %d checks", len(table), len(objects))
	}
	first := s.checks[`=HYPERLINK("http://x","y")`+
		`, "reason_text": "-1+cmd|' /C calc'!A0", "metadata": {"order": "=1+1"}, "idempotency_key": "one"`]
	for id, want := range map[string]map[string]string{
		first: {
			"counterparty": `'=HYPERLINK("http://x","y")`, "reason_text": `'-1+cmd|' /C calc'!A0`, "metadata": `{"order":"=1+1"}`, "amount": "40.1",
			"idempotency_key": "one",
			"decision":        "allow", "principal": "bot-1", "owner": "team-a", "outcome": "", "redeemed_at": "", "policy_version": "1",
		},
		s.checks["c-redeemed"]: {
			"outcome": "executed", "outcome_amount": "25.5", "outcome_reference": "'+49", "redeemed_by": "till", "in_doubt_note": "no answer",
			"outcome_report": "1",
		},
		s.checks["c-void"]: {"outcome": "executed", "outcome_report": "2", "outcome_amount": "20"},
		s.checks["c-blocked"]: {
			"decision": "block", "rule_id": "cap", "reason_code": "max_amount_exceeded", "approval_id": "",
		},
		s.checks["c-approved-60"]: {
			"decision": "escalate", "approval_status": "used", "approvers": `["ann","bea"]`, "groups_required": `[{"group":"support","required":1}]`,
			"escalated_rules": `["ask","day"]`,
		},
		s.checks["c-approved-49"+s.with("c-approved-49")]: {"decision": "allow", "approval_status": "used", "approvers": `["bea"]`},
	} {
		for name, value := range want {
			if got := table[id][name]; got != value {
				t.Errorf("%s of %s is %q, want %q", name, id, got, value)
			}
		}
		if table[id]["batch_chain"] == "" || table[id]["batch"] == "" || len(table[id]["row_hash"]) != 64 {
			t.Errorf("%s is in no batch: %v", id, table[id])
		}
	}
	if o := objects[first]; o["counterparty"] != `=HYPERLINK("http://x","y")` || fmt.Sprint(o["metadata"]) != "map[order:=1+1]" {
		t.Errorf("%v", o)
	}
	if !strings.Contains(s.read(t, filepath.Join(folder, "checks.jsonl")), `"amount":40.1,`) {
		t.Error("amounts do not keep their digits")
	}
	if !strings.Contains(table[s.checks["c-approved-60"]]["approval_decisions"], `"note":"=seen"`) ||
		!strings.Contains(table[s.checks["c-void"]]["reports"], `"status":"voided"`) {
		t.Errorf("%v", table)
	}
	s.audit(t, "export", "--to", "2020-01-01").Has(t, 0, "check_id,timestamp", `"checks": 0`)
	for args, fault := range map[string]string{
		"--format xls": "must be csv or jsonl", "--format jsonl --bom": "--bom goes with",
		"--sample 5": "--sample and --seed go together", "--sample 0 --seed x": "--sample must be 1 to",
		"--out x.csv --manifest ./x.csv":    "must be different files",
		"--from 2026-03-02 --to 2026-03-01": "--from must not be later", "--check m --from 2026-03-01": "--check takes --from from the manifest",
	} {
		s.audit(t, append([]string{"export"}, strings.Fields(args)...)...).Has(t, 2, fault)
	}
	missing := filepath.Join(folder, "not", "there.csv")
	if r := s.audit(t, "export", "--out", missing); r.Code != 1 {
		t.Errorf("%+v", r)
	}
}

func (s *story) with(counterparty string) string {
	return fmt.Sprintf(`, "approval_id": %q`, strings.Replace(s.checks[counterparty], "chk_", "apr_", 1))
}

func (n devNode) read(t *testing.T, file string) string {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	return string(text)
}

// table returns the cells of a file, by check and column.
func (n devNode) table(t *testing.T, file string) map[string]map[string]string {
	t.Helper()
	lines := must.Get(csv.NewReader(strings.NewReader(n.read(t, file))).ReadAll())(t)
	table := make(map[string]map[string]string)
	for _, line := range lines[1:] {
		cells := make(map[string]string)
		for i, name := range lines[0] {
			cells[name] = line[i]
		}
		table[cells["check_id"]] = cells
	}
	return table
}

// Everybody who knows the seed gets the same sample; other seeds give other samples.
func TestExportOfASample(t *testing.T) {
	s := tell(t)
	var samples []string
	for seed := range 8 {
		r := s.audit(t, "export", "--sample", "3", "--seed", fmt.Sprint(seed))
		r.Has(t, 0, `"checks": 3`, `"population": 8`)
		if again := s.audit(t, "export", "--sample", "3", "--seed", fmt.Sprint(seed)); again.Stdout != r.Stdout {
			t.Error("another sample")
		}
		samples = append(samples, r.Stdout)
	}
	if slices.Sort(samples); len(slices.Compact(samples)) < 2 {
		t.Error("every seed chooses the same")
	}
	file := filepath.Join(t.TempDir(), "sample.csv")
	s.audit(t, "export", "--sample", "3", "--seed", "x", "--out", file).Check(t, 0, "", "")
	s.audit(t, "export", "--check", file+manifestEnd).Has(t, 0, "3 checks are as the record has them")
}

// Changes since the export are found: in the file, in the manifest, in both, and in the record.
// Later records make no difference.
func TestExportIsChecked(t *testing.T) {
	s := tell(t)
	file := filepath.Join(t.TempDir(), "checks.csv")
	s.audit(t, "export", "--out", file).Check(t, 0, "", "")
	s.ask(t, "c-later", "1", "")
	s.report(t, s.gateway, "c-redeemed", `{"status": "failed", "supersedes": 1}`)
	check := func() clitest.Result { return s.audit(t, "export", "--check", file+manifestEnd) }
	check().Has(t, 0, "8 checks are as the record has them up to the heads of the manifest; no checkpoint was given")
	content, manifest := s.read(t, file), s.read(t, file+manifestEnd)
	write := func(name, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	lines := strings.SplitAfter(content, "\n")
	dropped := strings.Join(slices.Delete(slices.Clone(lines), 3, 4), "")
	for name, altered := range map[string]string{
		"mark added":  "\ufeff" + content,
		"row dropped": dropped, "amount": strings.Replace(content, ",40.1,", ",4.1,", 1), "row added": content + lines[2],
		"cut": content[:len(content)-9],
	} {
		write(file, altered)
		r := check()
		r.Has(t, 1, "file: its SHA-256 is not the manifest's", "file: line ")
		// A manifest made to fit an altered file does not agree with the record.
		m := must.Get(export.ParseManifest([]byte(manifest)))(t)
		m.SHA256, m.Bytes = sha256.Sum256([]byte(altered)), int64(len(altered))
		write(file+manifestEnd, string(m.Text()))
		if r := check(); r.Code != 1 || strings.Contains(r.Stdout, "SHA-256 is not") ||
			!strings.Contains(r.Stdout, "is not what the record has") || !strings.Contains(r.Stdout, "manifest: its counts") {
			t.Errorf("%s: %+v", name, r)
		}
		write(file+manifestEnd, manifest)
	}
	write(file, content)
	m, _ := export.ParseManifest([]byte(manifest))
	m.Heads[0].Head[0] ^= 1
	write(file+manifestEnd, string(m.Text()))
	check().Has(t, 1, "its head is not the manifest's", "its digest is not that of its heads")
	m, _ = export.ParseManifest([]byte(manifest))
	m.Changes.Head[0] ^= 1
	write(file+manifestEnd, string(m.Text()))
	check().Has(t, 1, "of the configuration: its head is not the manifest's")
	write(file+manifestEnd, "{}")
	check().Has(t, 1, "its format 0 is none that this program knows")
}

// Sums equal the budgets' counters, after reports, corrections and an approval's lift.
func TestSums(t *testing.T) {
	s := tell(t)
	read := func() map[string]map[string]any {
		t.Helper()
		r := s.audit(t, "sums", "--format", "jsonl")
		lines := make(map[string]map[string]any)
		for line := range strings.Lines(r.Stdout) {
			one := make(map[string]any)
			decoder := json.NewDecoder(strings.NewReader(line))
			decoder.UseNumber()
			must.Do(t, decoder.Decode(&one))
			lines[fmt.Sprint(one["rule_id"])] = one
		}
		if r.Code != 0 || len(lines) != 2 {
			t.Fatalf("%+v", r)
		}
		return lines
	}
	compare := func(amount, checks, approved, state string) {
		t.Helper()
		budget, whole := read()["day"], read()["<nil>"]
		for name, want := range map[string]string{
			"amount": amount, "window_amount": amount, "checks": checks, "window_checks": checks, "amount_approved": approved, "limit": "100",
			"limit_state": state, "per": "[bot]", "agent_id": "bot", "currency": "USD", "max_count": "<nil>",
		} {
			if got := fmt.Sprint(budget[name]); got != want {
				t.Errorf("%s of the budget is %s, want %s", name, got, want)
			}
			if got := fmt.Sprint(whole[name]); (name == "amount" || name == "checks") && got != want {
				t.Errorf("%s of the policy is %s, want %s", name, got, want)
			}
		}
		counters := s.call(t, s.agent, "GET", "/v1/budgets?policy_id=p", "", 200)
		used := fmt.Sprint(counters["data"].([]any)[0].(map[string]any)["used"])
		if used != amount {
			t.Errorf("the counter has %s, the sum is %s", used, amount)
		}
	}
	compare("194.6", "5", "109", "above") // 40.1 + 25.5 + 20 + 60 + 49
	s.report(t, s.gateway, "c-redeemed", `{"status": "failed", "supersedes": 1}`)
	compare("169.1", "4", "109", "above")
	s.report(t, s.gateway, "c-approved-49"+s.with("c-approved-49"), `{"status": "executed", "amount": 50}`)
	compare("170.1", "4", "110", "above")
	s.report(t, s.gateway, "c-void", `{"status": "voided", "supersedes": 2}`)
	s.report(t, s.gateway, "c-approved-60"+s.with("c-approved-60"), `{"status": "failed"}`)
	compare("90.1", "2", "50", "within")
	s.audit(t, "sums").Has(t, 0, "DAY", "POLICY", `["bot"]`, "90.10 USD", "90.10 USD in 2", "within")
	s.audit(t, "sums", "--from", "2999-01-01", "--format", "csv").Has(t, 0, "day,policy_id")
	s.audit(t, "sums", "--policy-id", "p", "--agent-id", "bot", "--time-zone", "Asia/Tokyo", "--from", "2020-01-01").Has(t, 0, "90.10 USD")
	s.audit(t, "sums", "--time-zone", "Europe/Nowhere").Has(t, 2, "must be the name of a time zone")
	s.audit(t, "sums", "--format", "xls").Has(t, 2, "must be table, csv or jsonl")
}

// A check is printed with its outcome and with the people who were asked.
func TestShowHasTheCourse(t *testing.T) {
	s := tell(t)
	show := func(counterparty string, args ...string) clitest.Result {
		return s.audit(t, append([]string{"show", s.checks[counterparty]}, args...)...)
	}
	show("c-redeemed").Has(t, 0, "allow, then executed", "Redemption", "redemption_id       rdm_", "by                  till", "In doubt",
		"note                no answer", "Outcome", "25.50 USD")
	show("c-redeemed", "--json").Has(t, 0, `"redemption": {`, `"redemption_id": "rdm_`, `"note": "no answer"`, `"status": "executed"`)
	if r := show("c-redeemed", "--json"); strings.Contains(r.Stdout, `"report": 0`) {
		t.Errorf("a redemption is shown as a report: %s", r.Stdout)
	}
	show("c-approved-60").Has(t, 0, "p, version 1, P, in force from", "people asked        2, 1 of support")
	show("c-approved-60"+s.with("c-approved-60")).Has(t, 0, "people asked        2, 1 of support")
	show("c-approved-60", "--json").Has(t, 0, `"group": "support"`)
}
