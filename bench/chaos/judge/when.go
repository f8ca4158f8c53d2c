package judge

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"time"
)

// when are the conditions of a rule (S88), those that the workload uses.
type when struct {
	ActionTypes []string                   `json:"action_types"`
	Countries   []string                   `json:"countries"`
	Merchants   []string                   `json:"merchants"`
	AmountAbove json.Number                `json:"amount_above"`
	AmountUpTo  json.Number                `json:"amount_up_to"`
	Metadata    map[string]json.RawMessage `json:"metadata"`
	Present     []string                   `json:"present"`
	Absent      []string                   `json:"absent"`
	OnMissing   string                     `json:"on_missing"`
}

// match reports whether all conditions match, and whether only absent fields keep some from matching.
func (w *when) match(r *Row) (all, lacks bool) {
	if w == nil {
		return true, false
	}
	differs := false
	test := func(holds bool) { differs = differs || !holds }
	metadata := r.metadata()
	listed := func(entries []string, value any) {
		text, _ := value.(string)
		switch {
		case entries == nil:
		case text == "":
			lacks = true
		default:
			test(slices.Contains(entries, text))
		}
	}
	listed(w.ActionTypes, r.ActionType)
	listed(w.Countries, metadata["country"])
	listed(w.Merchants, deref(r.Vendor))
	test(w.AmountAbove == "" || exceeds(r.Amount, w.AmountAbove))
	test(w.AmountUpTo == "" || !exceeds(r.Amount, w.AmountUpTo))
	for name, condition := range w.Metadata {
		if value, given := metadata[name]; given {
			test(holds(value, condition))
		} else {
			lacks = true
		}
	}
	given := func(path string) bool {
		name, _ := strings.CutPrefix(path, "metadata.")
		_, is := metadata[name]
		return is
	}
	test(!slices.ContainsFunc(w.Present, func(path string) bool { return !given(path) }))
	test(!slices.ContainsFunc(w.Absent, given))
	return !differs && !lacks, !differs && lacks
}

// holds reports whether a value of metadata fits the condition on it: a list of values, or bounds.
func holds(value any, condition json.RawMessage) bool {
	switch c := decoded(condition).(type) {
	case []any:
		return slices.ContainsFunc(c, func(other any) bool { return sameValue(value, other) })
	case map[string]any:
		number, isNumber := value.(json.Number)
		for name, bound := range c {
			limit, _ := bound.(json.Number)
			above, equals := exceeds(string(number), limit), sameValue(number, limit)
			if !isNumber || !map[string]bool{"above": above, "from": above || equals, "up_to": !above, "below": !above && !equals}[name] {
				return false
			}
		}
		return true
	}
	return false
}

func sameValue(x, y any) bool {
	a, isNumber := x.(json.Number)
	b, isToo := y.(json.Number)
	if isNumber && isToo {
		return decimal(string(a)) == decimal(string(b))
	}
	return x == y
}

func decoded(text json.RawMessage) (value any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&value) // nothing of what is no JSON
	return value
}

// metadata returns the members that are a text, a number or a boolean.
func (r *Row) metadata() map[string]any {
	members, _ := decoded(json.RawMessage(deref(r.Metadata))).(map[string]any)
	for name, value := range members {
		switch v := value.(type) {
		case string:
			if strings.TrimSpace(v) == "" {
				delete(members, name)
			}
		case json.Number, bool:
		default:
			delete(members, name)
		}
	}
	return members
}

// dimension returns a member of metadata as a budget counts it apart (S90); empty if it is missing.
func dimension(metadata map[string]any, name string) string {
	switch v := metadata[name].(type) {
	case json.Number:
		if n, ok := new(big.Rat).SetString(string(v)); ok && n.IsInt() {
			return n.Num().String()
		}
		return ""
	case nil:
		return ""
	default:
		text, _ := json.Marshal(v) // a text or a boolean
		return string(text)
	}
}

// open reports whether a window of hours that does not cross midnight is open, in the workload's zone, whose clocks are never changed.
func (r *rule) open(atMS int64) bool {
	offset, known := map[string]time.Duration{"Asia/Kolkata": 330 * time.Minute}[r.Parameters.TimeZone]
	from, until, _ := strings.Cut(r.Parameters.AllowedHours, "-")
	now := time.UnixMilli(atMS).UTC().Add(offset).Format("15:04")
	return known && from <= now && now < until
}
