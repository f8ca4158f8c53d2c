package export_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/export"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

const hour = int64(time.Hour / time.Millisecond)

// Windows span days, agents share them, the buckets of a rolling window add up, and each version
// has its own limit; both stores give the same sums.
func TestSumsOfWindows(t *testing.T) {
	t.Parallel()
	fleet, _ := onPostgres(t)
	single := onSQLite(t)
	monday := time.Now().UTC().AddDate(0, 0, 1).Truncate(24 * time.Hour).Add(-48 * time.Hour)
	node := spend.NewID(monday)
	take := func(c *spend.Check, rule, subject string, start, bucket, end int64) {
		ch := spend.Charge{
			Counter: spend.Counter{ID: spend.CounterID("p", rule, 1, subject), StartMS: start, BucketMS: bucket},
			RuleID:  rule, Since: 1, Subject: subject, Amount: c.Action.Amount, EndMS: end,
		}
		if ch.NoCurrency = rule == "many"; ch.NoCurrency {
			ch.Amount = spend.Amount{}
		}
		c.Charges = append(c.Charges, ch)
	}
	var checks []*spend.Check
	for _, one := range []struct {
		at      time.Duration
		agent   string
		amount  string
		version int
		granted string
	}{
		{20 * time.Hour, "a", "10", 1, ""},
		{23 * time.Hour, "b", "20.5", 1, "1"},
		{23*time.Hour + 59*time.Minute, "a", "0.000000001", 1, ""},
		{24*time.Hour + 30*time.Minute, "a", "5", 1, ""}, // before its limit is raised, for all
		{25 * time.Hour, "b", "40", 2, "45.500000001"},
		{26 * time.Hour, "b", "1", 2, "0.5"},
	} {
		some, _ := made(monday.Add(one.at), node, 1)
		c := some[0]
		c.Action.PolicyID, c.Action.AgentID, c.Action.Amount, c.Decision.PolicyVersion = "p", one.agent, amount(one.amount), one.version
		ms := c.ID.Time().UnixMilli()
		take(c, "week", "[]", monday.UnixMilli(), 0, monday.AddDate(0, 0, 7).UnixMilli())
		start := ms - ms%hour
		take(c, "rolling", "[]", start, hour, start+61*hour)
		if one.granted != "" { // by grants that ended before others were judged
			c.Charges[1].Granted = spend.Usage{Used: amount(one.granted).Total(), Count: 1}
		}
		take(c, "many", spend.SubjectOf(one.agent), 0, 0, 0)
		checks = append(checks, c)
	}
	var texts []string
	for _, r := range []*recorder{fleet, single} {
		for _, limit := range []string{"50", "100"} {
			p := &audit.Policy{PolicyID: "p", Name: "P", Rules: `[{"rule_id":"week","rule_type":"budget",` +
				`"parameters":{"limit":` + limit + `,"currency":"USD","window":"week"}},
				{"rule_id":"rolling","rule_type":"budget","parameters":{"limit":31,"currency":"USD","rolling_minutes":3600}},
				{"rule_id":"many","rule_type":"budget","parameters":{"max_count":2,"window":"lifetime","per":["agent_id"]}}]`}
			must.Do(t, r.CreatePolicy(t.Context(), audit.Actor{}, p, audit.NewBudgets{}, monday))
		}
		r.append(checks, nil)
		record, done := r.heads(t.Context())
		var b bytes.Buffer
		must.Do(t, export.WriteSums(t.Context(), &b, export.Options{Record: record, Format: export.CSV}))
		var later bytes.Buffer
		must.Do(t, export.WriteSums(t.Context(), &later, export.Options{Record: record, Format: export.CSV, From: monday.AddDate(0, 0, 1)}))
		// In a zone that is an hour ahead all checks of agent b are of one day.
		var zoned bytes.Buffer
		must.Do(t, export.WriteSums(t.Context(), &zoned, export.Options{
			Record: record, Format: export.CSV, Sums: export.SumsOf{PolicyID: "p", AgentID: "b", Zone: time.FixedZone("", 3600)},
		}))
		var none bytes.Buffer
		o := export.Options{Record: record, Format: export.CSV, Sums: export.SumsOf{PolicyID: "other"}}
		must.Do(t, export.WriteSums(t.Context(), &none, o))
		done()
		days := `"` + monday.AddDate(0, 0, 1).Format(time.DateOnly) + `","p",`
		if lines := strings.Split(zoned.String(), "\n"); strings.Count(zoned.String(), days) != len(lines)-2 ||
			!strings.Contains(zoned.String(), ",61.5,") || strings.Contains(zoned.String(), `,"a",`) || strings.Count(none.String(), "\n") != 1 {
			t.Errorf("of agent b by another zone\n%s\nof another policy\n%s", zoned.String(), none.String())
		}
		if header, rest, _ := strings.Cut(later.String(), "\n"); !strings.HasPrefix(b.String(), header) || !strings.HasSuffix(b.String(), rest) ||
			rest == "" {
			t.Errorf("of the second day\n%s", later.String())
		}
		texts = append(texts, b.String())
	}
	first, second, week := monday.Format(time.DateOnly), monday.AddDate(0, 0, 1).Format(time.DateOnly),
		monday.Format("2006-01-02T15:04:05.000Z")
	want := `day,policy_id,rule_id,agent_id,per,since_version,window_start,` +
		`currency,checks,amount,amount_approved,amount_unapproved,window_checks,window_amount,limit,max_count,granted,granted_count,limit_state
"1","p",,"a",,,,"USD",2,10.000000001,0,0,,,,,,,
"1","p",,"b",,,,"USD",1,20.5,0,0,,,,,,,
"1","p","many","a","[""a""]",1,,,2,,,,2,,,2,,,"within"
"1","p","many","b","[""b""]",1,,,1,,,,1,,,2,,,"within"
"1","p","rolling","a","[]",1,,"USD",2,10.000000001,0,0,3,30.500000001,31,,1,1,"within"
"1","p","rolling","b","[]",1,,"USD",1,20.5,0,0,3,30.500000001,31,,1,1,"within"
"1","p","week","a","[]",1,"W","USD",2,10.000000001,0,0,3,30.500000001,50,,,,"within"
"1","p","week","b","[]",1,"W","USD",1,20.5,0,0,3,30.500000001,50,,,,"within"
"2","p",,"a",,,,"USD",1,5,0,0,,,,,,,
"2","p",,"b",,,,"USD",2,41,0,0,,,,,,,
"2","p","many","a","[""a""]",1,,,1,,,,3,,,2,,,"above"
"2","p","many","b","[""b""]",1,,,2,,,,3,,,2,,,"above"
"2","p","rolling","a","[]",1,,"USD",1,5,0,0,6,76.500000001,31,,45.500000001,1,"within"
"2","p","rolling","b","[]",1,,"USD",2,41,0,0,6,76.500000001,31,,45.500000001,1,"within"
"2","p","week","a","[]",1,"W","USD",1,5,0,0,6,76.500000001,100,,,,"within"
"2","p","week","b","[]",1,"W","USD",2,41,0,0,6,76.500000001,100,,,,"within"
`
	want = strings.NewReplacer("\n\"1\",", "\n\""+first+"\",", "\n\"2\",", "\n\""+second+"\",", `"W"`, `"`+week+`"`).Replace(want)
	if texts[0] != want || texts[1] != want {
		t.Errorf("%s\nand\n%s\nwant\n%s", texts[0], texts[1], want)
	}
}

// TestSumsOfRulesAsSent: rules are kept as they were sent, with integers like 5.0 and blank limits
// (S4, S8).
func TestSumsOfRulesAsSent(t *testing.T) {
	t.Parallel()
	single := onSQLite(t)
	for i, parameters := range []string{
		`"limit": 10, "currency": "usd", "max_count": 5.0`, `"limit": "", "currency": " ", "max_count": 5e0`,
		`"limit": 1e1, "currency": "USD", "max_count": ""`, `"limit": null, "currency": null, "max_count": 5, "per": ""`,
	} {
		p := &audit.Policy{
			PolicyID: fmt.Sprint("p", i), Name: "P",
			Rules: `[{"rule_id": "a", "rule_type": "budget", "parameters": {"window": "day", ` + parameters + `}}]`,
		}
		must.Do(t, single.CreatePolicy(t.Context(), audit.Actor{}, p, audit.NewBudgets{}, time.Now()))
	}
	record, done := single.heads(t.Context())
	defer done()
	var b bytes.Buffer
	must.Do(t, export.WriteSums(t.Context(), &b, export.Options{Record: record, Format: export.CSV}))
}
