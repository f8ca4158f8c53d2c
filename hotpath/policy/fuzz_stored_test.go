package policy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/cmd/spendgate/policyfile"
)

// FuzzStoredForm: a policy decides as it did in each form in which its text may come back: as it is stored, with its members in another
// order, strings without escapes and white space. That is, with the same findings and words, counters and terms of approvals.
func FuzzStoredForm(f *testing.F) {
	for _, rules := range storedSeeds(f) {
		f.Add(rules, uint64(1))
	}
	draw := drawer{rand.New(rand.NewPCG(11, 0))}
	for seed := range uint64(40) {
		var texts []string
		for _, r := range draw.policy() {
			texts = append(texts, r.json())
		}
		f.Add("["+strings.Join(texts, ", ")+"]", seed)
	}
	f.Fuzz(func(t *testing.T, rules string, seed uint64) {
		var faults spend.Faults
		p := Compile("desk", 7, rules, &faults)
		if p == nil {
			return
		}
		for _, options := range [][]jsontext.Options{
			{jsontext.PreserveRawStrings(true)}, // as the API stores it
			{jsontext.ReorderRawObjects(true), jsontext.Multiline(true)},
		} {
			text, err := jsontext.AppendFormat(nil, []byte(rules), options...)
			if err != nil {
				t.Fatalf("%s: %v", rules, err)
			}
			again := CompileStored("desk", 7, string(text), &faults)
			if again == nil {
				t.Fatalf("%s is not read again as %s: %v", rules, text, faults)
			}
			if !reflect.DeepEqual(p.BudgetIdentities(), again.BudgetIdentities()) {
				t.Fatalf("%s\ncounts otherwise than\n%s", rules, text)
			}
			draw := drawer{rand.New(rand.NewPCG(seed, 0))}
			for range 5 {
				a, r, now := draw.action(t)
				if one, other := said(p, a, r, now), said(again, a, r, now); one != other {
					t.Fatalf("%s\ndecides %s\n%s\ndecides %s", rules, one, text, other)
				}
			}
		}
	})
}

// said is all that a policy says about an action.
func said(p *Program, a *spend.Action, r spend.Resolution, now time.Time) string {
	found := p.Evaluate(a, r, now)
	window, judgesAgain := p.Guard(a, r.Type)
	charges := p.Charges(nil, a, r, "till", now)
	return fmt.Sprintf("%+v %+v %+v %v %t %s", p.Explain(found, a, r), charges, p.Asks(a, r, now, charges, nil), window, judgesAgain,
		p.GuardRuleID(a, r.Type))
}

// storedSeeds are the rules of the policies that come with the service.
func storedSeeds(f *testing.F) (all []string) {
	f.Helper()
	for _, folder := range []string{"../../deploy/policies", "../../deploy/policies/companies"} {
		read := must.Get(policyfile.Read(folder, nil))(f)
		for i := range read {
			var sent struct {
				Rules json.RawMessage `json:"rules"`
			}
			must.Do(f, json.Unmarshal(read[i].Body, &sent))
			all = append(all, string(sent.Rules))
		}
	}
	return all
}
