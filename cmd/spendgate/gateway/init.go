package gateway

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
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

// guess suggests a mapping for a tool that has an amount among its arguments. It returns
// nothing for other tools.
func guess(name string, d definition) string {
	s, err := compile(d.schema)
	if err != nil {
		return ""
	}
	arguments := slices.DeleteFunc(properties(s), func(name string) bool { return strings.ContainsAny(name, ".\n") })
	find := func(words ...string) string {
		for _, word := range words {
			for _, argument := range arguments {
				if strings.Contains(strings.ToLower(argument), word) {
					return argument
				}
			}
		}
		return ""
	}
	amount := find("amount", "price", "total", "value")
	if amount == "" || d.ReadOnly {
		return ""
	}
	kind := "spend"
	for _, known := range []string{"refund", "credit", "discount"} {
		if strings.Contains(strings.ToLower(name), known) {
			kind = known
		}
	}
	currency, key := find("currency"), find("idempotency")
	from := "{value: USD}    # or {argument: ...}"
	if currency != "" {
		from = fmt.Sprintf("{argument: %s}", encode(currency))
	}
	to := find("counterparty", "charge", "payment_intent", "payee", "recipient", "customer", "account", "vendor", "merchant", "id")
	same := nameLike(arguments, amount, to, key)
	used := slices.Concat([]string{amount, currency, to, key}, same)
	pass := slices.DeleteFunc(arguments, func(name string) bool { return slices.Contains(used, name) })
	var b strings.Builder
	fmt.Fprintf(&b, "\n      %s:\n        policy_id: change-me\n        action_type: %s\n", encode(name), kind)
	fmt.Fprintf(&b, "        amount: {argument: %s}    # with minor_units: true if it is in cents, or digits: N\n", encode(amount))
	fmt.Fprintf(&b, "        currency: %s\n", from)
	fmt.Fprintf(&b, "        counterparty: {argument: %s}\n", encode(cmp.Or(to, "change-me")))
	fmt.Fprintf(&b, "        same: %s    # names the payment: a repeated call has the same values\n", encode(same))
	if len(pass) > 0 {
		fmt.Fprintf(&b, "        pass: %s    # none of these may decide what is paid, or to whom\n", encode(pass))
	}
	if key != "" {
		fmt.Fprintf(&b, "        idempotency_argument: %s    # if the server carries no key out twice, for a day\n", encode(key))
	}
	b.WriteString("        # once: true            # if same names it for good; without it, the same call pays again after a day\n")
	b.WriteString("        # declined_if: {result: code, in: [declined]}    # the server's errors that mean that nothing moved\n")
	b.WriteString("        # reference: {result: id}")
	return b.String()
}

// nameLike returns the arguments that look like names of a payment, with the amount and who gets it.
func nameLike(arguments []string, amount, to, key string) []string {
	words := []string{"id", "invoice", "order", "charge", "payment", "reference", "number", "intent"}
	return slices.DeleteFunc(slices.Clone(arguments), func(name string) bool {
		like := slices.ContainsFunc(words, func(word string) bool { return strings.Contains(strings.ToLower(name), word) })
		return name == key || name != amount && name != to && !like
	})
}
