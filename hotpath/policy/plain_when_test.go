package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"spendgate/audit/spend"
)

// The second evaluator's part for conditions (S88).

// plainWhen is what a rule says beside its parameters.
type plainWhen struct {
	ActionTypes    []string                   `json:"action_types,omitempty"`
	Currencies     []string                   `json:"currencies,omitempty"`
	Counterparties []string                   `json:"counterparties,omitempty"`
	PaymentMethods []string                   `json:"payment_methods,omitempty"`
	Merchants      []string                   `json:"merchants,omitempty"`
	Categories     []string                   `json:"categories,omitempty"`
	Countries      []string                   `json:"countries,omitempty"`
	AmountAbove    json.Number                `json:"amount_above,omitempty"`
	AmountUpTo     json.Number                `json:"amount_up_to,omitempty"`
	Metadata       map[string]json.RawMessage `json:"metadata,omitempty"`
	Present        []string                   `json:"present,omitempty"`
	Absent         []string                   `json:"absent,omitempty"`
	OnMissing      string                     `json:"on_missing,omitempty"`
}

func (w *plainWhen) allTypes() bool {
	return w == nil || w.ActionTypes == nil || len(w.ActionTypes) == 4
}

// match reports whether all conditions match, and whether all do whose field is present.
func (w *plainWhen) match(a *spend.Action, t spend.ActionType) (all, present bool) {
	all, present = true, true
	if w == nil {
		return
	}
	test := func(holds bool) { all, present = all && holds, present && holds }
	list := func(entries []string, value string, equal func(x, y string) bool) {
		switch {
		case entries == nil:
		case strings.TrimSpace(value) == "":
			all = false
		default:
			test(slices.ContainsFunc(entries, func(entry string) bool { return equal(entry, value) }))
		}
	}
	exactly := func(x, y string) bool { return x == y }
	list(w.ActionTypes, t.String(), exactly)
	list(w.Currencies, a.Currency, strings.EqualFold)
	list(w.Counterparties, a.Counterparty, exactly)
	list(w.PaymentMethods, a.PaymentMethod, sameName)
	list(w.Merchants, a.MerchantOrVendor, func(x, y string) bool { return norm.NFC.String(x) == norm.NFC.String(y) })
	list(w.Categories, a.Metadata.Category, sameName)
	list(w.Countries, plainCountry(a), strings.EqualFold)
	if w.AmountAbove != "" {
		test(plainNumber(a.Amount.String()).Cmp(plainNumber(w.AmountAbove.String())) > 0)
	}
	if w.AmountUpTo != "" {
		test(plainNumber(a.Amount.String()).Cmp(plainNumber(w.AmountUpTo.String())) <= 0)
	}
	metadata := plainMetadata(a)
	for name, condition := range w.Metadata {
		if value, ok := metadata[name]; ok {
			test(plainMember(value, condition))
		} else {
			all = false
		}
	}
	given := func(path string) bool {
		name, isMember := strings.CutPrefix(path, "metadata.")
		_, inMetadata := metadata[name]
		return isMember && inMetadata || path == "payment_method" && a.PaymentMethod != "" ||
			path == "merchant_or_vendor" && a.MerchantOrVendor != "" || path == "reason_text" && a.ReasonText != ""
	}
	for _, path := range w.Present {
		test(given(path))
	}
	for _, path := range w.Absent {
		test(!given(path))
	}
	return all, present
}

// plainCountry returns the action's country by its code of ISO 3166 (S89).
func plainCountry(a *spend.Action) string {
	switch code := strings.ToUpper(a.Metadata.Country); code {
	case "UK":
		return "GB"
	case "EL":
		return "GR"
	default:
		return code
	}
}

func sameName(x, y string) bool {
	return strings.EqualFold(norm.NFC.String(strings.TrimSpace(x)), norm.NFC.String(strings.TrimSpace(y)))
}

// plainMetadata returns the members that are a text, a number or a boolean.
func plainMetadata(a *spend.Action) map[string]any {
	if a.Metadata.JSON == "" {
		return nil
	}
	members := plainJSON([]byte(a.Metadata.JSON)).(map[string]any)
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

func plainJSON(text []byte) (value any) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		panic("BUG: no JSON: " + string(text))
	}
	return value
}

func plainMember(value any, condition json.RawMessage) bool {
	switch c := plainJSON(condition).(type) {
	case []any:
		return slices.ContainsFunc(c, func(other any) bool { return plainEqual(value, other) })
	case map[string]any:
		number, ok := value.(json.Number)
		if !ok {
			return false
		}
		for name, bound := range c {
			order := plainNumber(number.String()).Cmp(plainNumber(bound.(json.Number).String()))
			if !map[string]bool{"above": order > 0, "from": order >= 0, "up_to": order <= 0, "below": order < 0}[name] {
				return false
			}
		}
		return true
	}
	panic("BUG: no condition: " + string(condition))
}

func plainEqual(x, y any) bool {
	switch x := x.(type) {
	case json.Number:
		y, ok := y.(json.Number)
		return ok && plainNumber(x.String()).Cmp(plainNumber(y.String())) == 0
	case string:
		y, ok := y.(string)
		return ok && norm.NFC.String(x) == norm.NFC.String(y)
	}
	return x == y
}

// lacks reports whether the action lacks what the budget counts apart.
func (r plainRule) lacks(a *spend.Action) bool {
	metadata := plainMetadata(a)
	for _, path := range r.per {
		name, isMember := strings.CutPrefix(path, "metadata.")
		switch value := metadata[name].(type) {
		case nil:
			if isMember {
				return true
			}
		case string:
			if isMember && len([]rune(norm.NFC.String(value))) > 256 {
				return true
			}
		case json.Number:
			if n := plainNumber(value.String()); isMember && (!n.IsInt() || len(n.Num().String()) > 256) {
				return true
			}
		}
		if path == "payment_method" && a.PaymentMethod == "" || path == "merchant_or_vendor" && a.MerchantOrVendor == "" {
			return true
		}
	}
	return false
}

func offsetAt(t time.Time, zone *time.Location) int {
	_, offset := t.In(zone).Zone()
	return offset
}

// when draws conditions that often match, nil mostly.
func (d drawer) when(guard bool) *plainWhen {
	if d.IntN(3) > 0 {
		return nil
	}
	w := new(plainWhen)
	unique := func(values ...string) (drawn []string) {
		for _, v := range d.some(values...) {
			if !slices.ContainsFunc(drawn, func(other string) bool { return sameName(v, other) }) {
				drawn = append(drawn, v)
			}
		}
		return drawn
	}
	for range 1 + d.IntN(3) {
		switch d.IntN(12) {
		case 0:
			w.ActionTypes = unique("refund", "credit", "discount", "spend")
		case 1:
			w.Currencies = unique("USD", "eur", "GBP")
		case 2:
			w.Counterparties = unique("acme", "apex")
		case 3:
			w.PaymentMethods = unique(d.name(), d.name(), d.name(), "card")
		case 4:
			w.Merchants = unique("shop", "caf\u00e9", "cafe\u0301")
		case 5:
			w.Categories = unique(d.name(), d.name(), d.name())
		case 6:
			w.Countries = unique("KP", "us", "DE", "GB", "gr")
		case 7:
			w.AmountAbove = json.Number(d.of("0", "99.99", "100"))
		case 8:
			w.AmountUpTo = json.Number(d.of("100.5", "5e2", "501"))
		case 9, 10:
			w.Metadata = map[string]json.RawMessage{d.of("tier", "n"): json.RawMessage(d.of(`["gold",5,true]`, `["5","gold"]`, `[-1,5.0]`,
				`{"above":5}`, `{"from":5,"below":1e3}`, `{"up_to":5}`, `{"below":-0.5}`, `{"above":-1,"up_to":99999999999999999999}`,
				`["caf\u00e9"]`))}
		case 11:
			w.Present = []string{d.of("metadata.tier", "payment_method")}
			w.Absent = []string{d.of("metadata.n", "merchant_or_vendor", "reason_text")}
		}
	}
	if !guard {
		w.OnMissing = d.of("", "", "block", "escalate")
	}
	return w
}

// open reports whether clocks in the zone have reached a window's beginning, and not its end, on one of its days.
func (r plainRule) openIn(zone *time.Location, now time.Time) bool {
	from, until, _ := strings.Cut(r.text, "-")
	if r.text == "" {
		from, until = "00:00", "24:00"
	}
	length := plainClock(until) - plainClock(from)
	if length <= 0 {
		length += 24 * time.Hour
	}
	// latest is the latest that clocks have shown, as though in UTC.
	var latest time.Time
	step := 30 * time.Hour // where clocks were not changed, there is only now
	for ago := range 30 {
		if _, then := now.Add(-time.Duration(ago) * time.Hour).In(zone).Zone(); then != offsetAt(now, zone) {
			step = time.Minute
		}
	}
	for ago := 30 * time.Hour; ago >= 0; ago -= step {
		local := now.Add(-ago).In(zone)
		_, offset := local.Zone()
		if shown := now.Add(-ago).UTC().Add(time.Duration(offset) * time.Second); shown.After(latest) {
			latest = shown
		}
	}
	for _, ago := range []int{0, 1} {
		midnight := time.Date(latest.Year(), latest.Month(), latest.Day()-ago, 0, 0, 0, 0, time.UTC)
		opens := midnight.Add(plainClock(from))
		day := strings.ToLower(midnight.Weekday().String()[:3])
		if (r.list == nil || slices.Contains(r.list, day)) && !latest.Before(opens) && latest.Before(opens.Add(length)) {
			return true
		}
	}
	return false
}
