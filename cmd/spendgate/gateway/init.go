package gateway

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// InitOptions are what Init uses.
type InitOptions struct {
	URL     string
	Command []string
	Path    string // of the file that is made, for the lock beside it; empty if not known
	Version string
	Environ []string
	Logger  *slog.Logger
	Out     io.Writer
}

// Init writes a file for a server, with a suggested mapping for each tool that looks as if
// it moved money, and the lock.
func Init(ctx context.Context, o InitOptions) error {
	u := &upstream{URL: o.URL, Command: o.Command, name: "upstream", folder: filepath.Dir(o.Path)}
	seen, err := looker{o.Environ, o.Logger, o.Version}.look(ctx, u)
	if err != nil {
		return err
	}
	u.name = upstreamName(seen.name)
	var b strings.Builder
	b.WriteString(initHead)
	fmt.Fprintf(&b, "upstreams:\n  %s:\n", yamlName(u.name))
	if o.URL != "" {
		fmt.Fprintf(&b, "    url: %s\n    # headers: {Authorization: {file: token}}\n", encode(o.URL))
	} else {
		fmt.Fprintf(&b, "    command: %s\n    # env: {PROVIDER_KEY: {file: provider.key}}\n", encode(o.Command))
	}
	b.WriteString("    tools:")
	mapped := false
	var others strings.Builder
	for _, name := range slices.Sorted(maps.Keys(seen.tools)) {
		d := seen.tools[name]
		if t := guess(name, d); t != "" {
			b.WriteString(t)
			mapped = true
			continue
		}
		kind := "changes things: off by default"
		if d.ReadOnly {
			kind = "read only, it says: passes"
		}
		fmt.Fprintf(&others, "      # %s (%s)\n", printable(name), kind)
	}
	if !mapped {
		b.WriteString(" {}")
	}
	b.WriteString("\n" + others.String())
	if _, err := io.WriteString(o.Out, b.String()); err != nil {
		return err
	}
	if o.Path == "" {
		return nil
	}
	pins := &lock{Upstreams: map[string]map[string]pin{u.name: seen.tools.pins()}}
	if err := pins.write(o.Path); err != nil {
		return fmt.Errorf("cannot write the lock: %w", err)
	}
	return nil
}

const initHead = `# What stands between agents and the tools that move money. Look at each tool below:
# which arguments are the amount, the currency and the counterparty, and which policy
# decides.
spendgate: {url: "http://127.0.0.1:8080", key_file: gateway.key}
agent_id: my-agent
# listen: 127.0.0.1:8090    # Streamable HTTP at /mcp; without it standard input and output
default: read_only          # tools that are not mapped: pass, deny, read_only
shadow: true                # asks and records, blocks nothing; remove it to enforce
`

// upstreamName makes a name for the file from the server's own name.
func upstreamName(name string) string {
	var words []string
	for word := range strings.FieldsFuncSeq(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	}) {
		words = append(words, word)
	}
	if words == nil {
		return "server"
	}
	return strings.Join(words, "_")
}

// yamlName writes a name so that YAML reads it as text.
func yamlName(name string) string {
	plain := strings.IndexFunc(name, func(r rune) bool { return r < 'a' || r > 'z' }) // no number, no -
	if plain >= 0 || slices.Contains([]string{"null", "true", "false", "y", "n", "yes", "no", "on", "off"}, name) {
		return string(encode(name))
	}
	return name
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

// decides reports whether an argument may decide how much is paid, or to whom, by its name.
func decides(path string) bool {
	words := []string{
		"amount", "value", "total", "price", "cost", "quantity", "count", "item", "tip", "fee", "tax", "discount", "percent", "balance",
		"currency",
		"full", "partial", "recipient", "payee", "destination", "account", "beneficiary", "transfer", "email", "phone",
	}
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(strings.ToLower(path), word) })
}

// guess suggests a mapping for a tool that has an amount among its arguments. It returns
// nothing for other tools.
func guess(name string, d definition) string {
	s, err := compile(d.schema)
	if err != nil || d.ReadOnly {
		return ""
	}
	arguments := argumentsOf(s)
	find := func(fits func(argument) bool, words ...string) (found argument) {
		for _, word := range words {
			for _, a := range arguments {
				if strings.Contains(strings.ToLower(a.path), word) && fits(a) {
					return a
				}
			}
		}
		return found
	}
	amount := find(func(a argument) bool { return a.is("number", "integer") }, "amount", "value", "total", "price")
	if amount.path == "" { // a text may be the name of a price
		amount = find(func(a argument) bool { return a.is("string") && !strings.Contains(a.path, "currency") }, "amount", "value")
	}
	if amount.path == "" {
		return ""
	}
	currency := find(func(argument) bool { return true }, "currency").path
	key := find(func(a argument) bool { return !strings.Contains(a.path, ".") }, "idempotency").path
	to := find(func(a argument) bool {
		own := strings.Contains(strings.ToLower(a.path), "merchantaccount") // who pays
		return a.path != amount.path && a.path != key && a.path != currency && !own
	}, append(slices.Clone(payments), "payee", "recipient", "customer", "account", "vendor", "merchant", "id")...).path
	paths := make([]string, len(arguments))
	for i, a := range arguments {
		paths[i] = a.path
	}
	described, _ := parseObject(d.text)
	about, _ := textOf(described.get("description"))
	p := proposed{amount, currency, to, key, nameLike(paths, amount.path, to, key), amount.minorUnit(about), s.Required}
	return p.text(name, paths)
}

// proposed is what guess found.
type proposed struct {
	amount            argument
	currency, to, key string
	same              []string
	minor             bool
	required          []string
}

// text returns the mapping of a tool with arguments of these paths, as YAML.
func (p proposed) text(name string, paths []string) string {
	kind := "spend"
	for _, known := range []string{"refund", "credit", "discount"} {
		if strings.Contains(strings.ToLower(name), known) {
			kind = known
		}
	}
	from := "{value: USD}    # or {argument: ...}"
	if p.currency != "" {
		from = fmt.Sprintf("{argument: %s}", encode(p.currency))
	}
	unit := "}    # with minor_units: true if it is in cents, or digits: N"
	if p.minor {
		unit = ", minor_units: true}    # so the schema says"
	}
	used := slices.Concat([]string{p.amount.path, p.currency, p.to, p.key}, p.same)
	var pass, decide []string
	for _, path := range paths {
		switch {
		case slices.Contains(used, path):
		case decides(path):
			decide = append(decide, path)
		default:
			pass = append(pass, path)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n      %s:\n        policy_id: change-me\n        action_type: %s\n", encode(name), kind)
	fmt.Fprintf(&b, "        amount: {argument: %s%s\n", encode(p.amount.path), unit)
	fmt.Fprintf(&b, "        currency: %s\n", from)
	fmt.Fprintf(&b, "        counterparty: {argument: %s}\n", encode(cmp.Or(p.to, "change-me")))
	fmt.Fprintf(&b, "        same: %s    # names the payment: a repeated call has the same values\n", encode(p.same))
	if len(pass) > 0 {
		fmt.Fprintf(&b, "        pass: %s    # none of these may decide what is paid, or to whom\n", encode(pass))
	}
	if len(decide) > 0 {
		fmt.Fprintf(&b, "        # refused, since they may decide: %s\n", encode(decide))
	}
	if needed := slices.DeleteFunc(decide, func(path string) bool { return !slices.Contains(p.required, path) }); len(needed) > 0 {
		fmt.Fprintf(&b, "        # no call passes without %s: say in metadata, same or pass what each is\n", encode(needed))
	}
	if p.key != "" {
		fmt.Fprintf(&b, "        idempotency_argument: %s    # if the server carries no key out twice, for a day\n", encode(p.key))
	}
	b.WriteString("        # once: true            # if same names it for good; without it, the same call pays again after a day\n")
	b.WriteString("        # declined_if: {result: code, in: [declined]}    # the server's errors that mean that nothing moved\n")
	b.WriteString("        # reference: {result: id}")
	return b.String()
}

// payments are words in the names of arguments that name an earlier payment.
var payments = []string{"counterparty", "charge", "payment", "capture", "psp"}

// nameLike returns the arguments that look like names of a payment, with the amount and who gets it. Beside an earlier payment that
// is named, a reference is the agent's own text, and another one in a repeated call.
func nameLike(arguments []string, amount, to, key string) []string {
	has := func(name string, words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(strings.ToLower(name), word) })
	}
	words := []string{"id", "invoice", "order", "charge", "payment", "number", "intent"}
	if !has(to, payments...) {
		words = append(words, "reference")
	}
	return slices.DeleteFunc(slices.Clone(arguments), func(name string) bool {
		return name == key || name != amount && name != to && !has(name, words...)
	})
}
