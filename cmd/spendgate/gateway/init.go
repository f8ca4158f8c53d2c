package gateway

import (
	"cmp"
	"context"
	_ "embed"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Init writes a file for the server at a URL or with a command, with a suggested mapping for each tool that looks as if
// it moved money. path is that of the file, for the lock beside it; empty if it is not known.
func (o Looker) Init(ctx context.Context, url string, command []string, path string) error {
	u := &upstream{URL: url, Command: command, name: "upstream", folder: filepath.Dir(path)}
	tools, name, err := o.look(ctx, u)
	if err != nil {
		return err
	}
	u.name = upstreamName(name)
	page := proposedFile{Name: u.name, URL: url, Command: command, Others: make(map[string]string)}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		d := tools[name]
		if p := guess(name, d); p != nil {
			page.Tools = append(page.Tools, p)
			continue
		}
		page.Others[printable(name)] = "changes things: off by default"
		if d.ReadOnly {
			page.Others[printable(name)] = "read only, it says: passes"
		}
	}
	if err := fileTemplate().Execute(o.Out, page); err != nil {
		return err
	}
	if path == "" {
		return nil
	}
	pins := &lock{Upstreams: map[string]map[string]pin{u.name: tools.pins()}}
	return pins.write(path)
}

// proposedFile is what init.yaml.tmpl writes.
type proposedFile struct {
	Name, URL string
	Command   []string
	Tools     []*proposed
	Others    map[string]string
}

// proposed is the mapping that guess suggests.
type proposed struct {
	Name, Kind, Amount, Currency, To, Key string
	Minor                                 bool
	Same, Pass                            []string
	Decide, Needed                        []string // what may decide how much is paid or to whom, and what of it no call can be without
}

//go:embed init.yaml.tmpl
var fileText string

func fileTemplate() *template.Template {
	inJSON := func(v any) string { return string(encode(v)) }
	return template.Must(template.New("file").Funcs(template.FuncMap{"json": inJSON}).Parse(fileText))
}

// upstreamName makes a name for the file from the server's own name.
func upstreamName(name string) string {
	other := regexp.MustCompile(`[^a-z0-9-]+`)
	return cmp.Or(strings.Trim(other.ReplaceAllString(strings.ToLower(name), "_"), "_"), "server")
}

// argument is one that a schema names: its path, with a dot for what is inside an object.
type argument struct {
	path   string
	schema *jsonschema.Schema
}

func (a argument) is(types ...string) bool {
	return a.schema.Types != nil && slices.ContainsFunc(types, func(t string) bool { return slices.Contains(a.schema.Types.ToStrings(), t) })
}

// argumentsOf returns the arguments that a schema names, and in place of an object what it names inside.
func argumentsOf(s *jsonschema.Schema) (all []argument) {
	names := func(s *jsonschema.Schema) []string {
		return slices.DeleteFunc(slices.Sorted(maps.Keys(s.Properties)), func(name string) bool { return strings.ContainsAny(name, ".\n") })
	}
	for _, name := range names(s) {
		outer := s.Properties[name]
		if outer.Ref != nil {
			outer = outer.Ref
		}
		if len(outer.Properties) == 0 {
			all = append(all, argument{name, outer})
		}
		for _, inner := range names(outer) {
			all = append(all, argument{name + "." + inner, outer.Properties[inner]})
		}
	}
	return all
}

// minorUnit reports whether the description of an argument, or without one that of its tool, says that it counts cents or the like.
func (a argument) minorUnit(tool string) bool {
	return regexp.MustCompile(`(?i)\b(cents|paise|pence|minor|smallest)\b`).MatchString(cmp.Or(a.schema.Description, tool))
}

// has reports whether a name has one of some words in it.
func has(name string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(strings.ToLower(name), word) })
}

// decides reports whether an argument may decide how much is paid, or to whom, by its name.
func decides(path string) bool {
	return has(path, "amount", "value", "total", "price", "cost", "quantity", "count", "item", "tip", "fee", "tax", "discount", "percent",
		"balance", "currency", "full", "partial", "recipient", "payee", "destination", "account", "beneficiary", "transfer", "email", "phone")
}

// guess suggests a mapping for a tool that has an amount among its arguments. It returns nil for other tools.
func guess(name string, d definition) *proposed {
	s, err := compile(d.schema)
	if err != nil || d.ReadOnly {
		return nil
	}
	arguments := argumentsOf(s)
	find := func(fits func(argument) bool, words ...string) argument {
		for _, word := range words {
			if i := slices.IndexFunc(arguments, func(a argument) bool { return has(a.path, word) && fits(a) }); i >= 0 {
				return arguments[i]
			}
		}
		return argument{}
	}
	amount := find(func(a argument) bool { return a.is("number", "integer") }, "amount", "value", "total", "price")
	if amount.path == "" { // a text may be the name of a price
		amount = find(func(a argument) bool { return a.is("string") && !strings.Contains(a.path, "currency") }, "amount", "value")
	}
	if amount.path == "" {
		return nil
	}
	described, _ := parseObject(d.text)
	about, _ := textOf(described.get("description"))
	p := &proposed{Name: name, Kind: "spend", Amount: amount.path, Minor: amount.minorUnit(about)}
	for _, known := range []string{"refund", "credit", "discount"} {
		if has(name, known) {
			p.Kind = known
		}
	}
	p.Currency = find(func(argument) bool { return true }, "currency").path
	p.Key = find(func(a argument) bool { return !strings.Contains(a.path, ".") }, "idempotency").path
	p.To = find(func(a argument) bool {
		return a.path != p.Amount && a.path != p.Key && a.path != p.Currency && !has(a.path, "merchantaccount") // who pays
	}, append(slices.Clone(payments), "payee", "recipient", "customer", "account", "vendor", "merchant", "id")...).path
	names := func(a argument) bool {
		return a.path != p.Amount && a.path != p.Key && a.path != p.Currency && (a.path == p.To || p.namesPayment(a.path))
	}
	named := slices.ContainsFunc(arguments, func(a argument) bool { return names(a) && namesOrder(a.path) })
	for _, a := range arguments {
		switch {
		case names(a) || a.path == p.Amount && !named:
			p.Same = append(p.Same, a.path)
		case a.path == p.Amount || a.path == p.Key || a.path == p.Currency:
		case !decides(a.path):
			p.Pass = append(p.Pass, a.path)
		default:
			if p.Decide = append(p.Decide, a.path); slices.Contains(s.Required, a.path) {
				p.Needed = append(p.Needed, a.path)
			}
		}
	}
	return p
}

// payments are words in the names of arguments that name an earlier payment.
var payments = []string{"counterparty", "charge", "payment", "capture", "psp"}

// namesOrder reports whether an argument looks like a name of what is paid, once: another amount then is an error of the agent,
// and no other payment.
func namesOrder(path string) bool { return has(path, "order", "invoice", "booking") }

// namesPayment reports whether an argument looks like a name of a payment. Beside an earlier payment that is named, a reference is
// the agent's own text, and another one in a repeated call.
func (p *proposed) namesPayment(argument string) bool {
	return namesOrder(argument) || has(argument, "id", "charge", "payment", "number", "intent") ||
		has(argument, "reference") && !has(p.To, payments...)
}
