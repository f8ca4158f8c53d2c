package apicmd

import (
	"strings"
	"testing"
)

// The state of a check is shown before a report, too: it is redeemed, or in doubt.
func TestChecksSayWhatIsRedeemed(t *testing.T) {
	const (
		check = `{"check_id":"chk_1","timestamp":"2026-01-02T03:04:05.000Z","decision":"allow","policy_version":1,"action":{"agent_id":"a",` +
			`"policy_id":"p"}`
		redeemed = check + `,"redemption":{"check_id":"chk_1","redemption_id":"rdm_1","redeemed_at":"2026-01-02T03:04:05.000Z","in_doubt_at":`
		executed = redeemed + `null},"outcome":{"check_id":"chk_1","status":"executed"}}`
		page     = `],"pagination":{"next_cursor":null,"has_more":false}}`
	)
	for row, want := range map[string]string{
		check + "}": "-", redeemed + "null}}": "redeemed", redeemed + `"2026-01-02T03:19:05.000Z"}}`: "in doubt", executed: "executed",
	} {
		listed := newFakeNode(t, `200 {"data":[`+row+page).Run(t, "", "checks", "list")
		if !strings.Contains(listed.Stdout, "allow     "+want+" ") {
			t.Errorf("list: %+v, want %q", listed, want)
		}
		shown := newFakeNode(t, "200 "+check+"}", `200 {"data":[`+row+page).Run(t, "", "checks", "show", "chk_1")
		if !strings.Contains(shown.Stdout, want+"\n") {
			t.Errorf("show: %+v, want %q", shown, want)
		}
	}
}
