package policycmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/policyfile"
	"spendgate/hotpath/client"
)

// trouble is the error of a comparison that could not be made. Its exit code is 2, as
// with diff(1), where 1 means that there are differences.
func trouble(err error) error { return cli.ExitError{Err: err, Code: 2} }

func policiesDiff(flags *flag.FlagSet) cli.Action {
	path := fileFlag(flags)
	return func(ctx context.Context, p cli.Process, _ []string) error {
		if *path == "" {
			return cli.UsageError{Text: "needs -f FILE"}
		}
		policies, err := readPolicies(p, *path)
		if err != nil {
			return trouble(err)
		}
		api, err := cli.KeyAPI(p)
		if err != nil {
			return trouble(err)
		}
		differ := 0
		for _, policy := range policies {
			text, err := differences(ctx, api, policy)
			if err != nil {
				return trouble(fmt.Errorf("%s: %w", policy.Source, err))
			}
			if text == nil {
				continue
			}
			differ++
			if _, err := p.Stdout.Write(text); err != nil {
				return trouble(err)
			}
		}
		if differ > 0 {
			return fmt.Errorf("%d of %d policies differ", differ, len(policies))
		}
		return nil
	}
}

// policiesList prints the policies on the server, or how the policies in files differ from
// them.
func policiesList(flags *flag.FlagSet) cli.Action {
	path := flags.String("f", "", "a `FILE`, a folder of .yaml, .yml and .json files, or - for standard input")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		var policies []policyfile.Policy
		if *path != "" {
			var err error
			if policies, err = readPolicies(p, *path); err != nil {
				return err
			}
		}
		api, err := cli.KeyAPI(p)
		if err != nil {
			return err
		}
		if *path == "" {
			return cli.PrintAll(p, api.AllPolicies(ctx), false, writePolicies)
		}
		out := cli.NewTable(p.Stdout)
		fmt.Fprintln(out, "POLICY ID\tVERSION\tUPDATED\tSTATE\tFILE")
		for _, policy := range policies {
			current, err := onServer(ctx, api, policy)
			if err != nil {
				return fmt.Errorf("%s: %w", policy.Source, err)
			}
			version, updated, state := "-", "-", "not on the server"
			if current != nil {
				same, err := samePolicy(policy.Body, current.Body)
				if err != nil {
					return fmt.Errorf("%s: %w", policy.Source, err)
				}
				version, updated, state = strconv.Itoa(current.Version), current.UpdatedAt.String(), "differs"
				if same {
					state = "unchanged"
				}
			}
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", spend.Printable(cmp.Or(policy.ID(), "-")), version, updated, state,
				spend.Printable(policy.Source))
		}
		return out.Flush()
	}
}

func writePolicies(w io.Writer, all []client.Policy) error {
	return cli.WriteTable(w, []string{"POLICY ID", "VERSION", "UPDATED", "RULES", "NAME"}, all, func(p *client.Policy) []string {
		return []string{p.PolicyID, strconv.Itoa(p.Version), p.UpdatedAt.String(), strconv.Itoa(len(p.Rules)), p.Name}
	})
}

// policiesVersions prints the versions of a policy.
func policiesVersions(flags *flag.FlagSet) cli.Action {
	asJSON := cli.OutputFlag(flags)
	return func(ctx context.Context, p cli.Process, args []string) error {
		id, api, err := cli.OneID(p, "POLICY_ID", args)
		if err != nil {
			return err
		}
		return cli.PrintAll(p, api.AllPolicyVersions(ctx, id), *asJSON, writeVersions)
	}
}

func writeVersions(w io.Writer, all []client.PolicyVersion) error {
	return cli.WriteTable(w, []string{"VERSION", "CREATED", "AUTHOR", "APPROVED BY", "NOTE"}, all, func(v *client.PolicyVersion) []string {
		author := "admin key"
		if by := cmp.Or(v.DraftedBy, v.Author); by != nil {
			author = by.Principal
		}
		var approved []string
		for _, d := range v.ApprovedBy {
			approved = append(approved, d.Principal)
		}
		if v.Forced != nil && *v.Forced {
			approved = append(approved, "forced by the admin key")
		}
		return []string{strconv.Itoa(v.Version), v.UpdatedAt.String(), author, cmp.Or(strings.Join(approved, ", "), "-"), v.Note}
	})
}

// differences returns what would change if the policy were stored, nil if nothing would.
func differences(ctx context.Context, api *client.Client, policy policyfile.Policy) ([]byte, error) {
	current, err := onServer(ctx, api, policy)
	if err != nil {
		return nil, err
	}
	if current == nil {
		after, err := comparedText(policy.Body)
		return diff.Diff("not on the server", nil, policy.Source, after), err
	}
	text, err := differenceOf(current, policy.Source, policy.Body)
	if err != nil || text == nil {
		return nil, err
	}
	lines, err := emptied(ctx, api, current, policy.Body)
	for _, line := range lines {
		text = append(text, "# "+line+"\n"...)
	}
	return text, err
}

// onServer returns the latest version of a policy, nil if there is none.
func onServer(ctx context.Context, api *client.Client, policy policyfile.Policy) (*client.Policy, error) {
	id := policy.ID()
	if id == "" {
		return nil, nil
	}
	current, err := api.Policy(ctx, id, 0)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusNotFound &&
		refused.Code == client.CodePolicyNotFound {
		return nil, nil
	}
	return current, err
}

// samePolicy reports whether two bodies say the same. Neither the order of members nor the
// spelling of the numbers in rules matters: 400.00 is 400.
func samePolicy(a, b []byte) (bool, error) {
	x, err := compared(a)
	if err != nil {
		return false, err
	}
	y, err := compared(b)
	if err != nil {
		return false, err
	}
	x["rules"], y["rules"] = byValue(x["rules"]), byValue(y["rules"])
	return reflect.DeepEqual(x, y), nil
}

// byValue replaces the numbers of rules by the form that they have in compiled rules: each is an
// amount, or an integer of 0 or more (S7, S8).
func byValue(v any) any {
	switch v := v.(type) {
	case json.Number:
		if a, err := spend.ParseAmount(v.String()); err == nil {
			return json.Number(a.String())
		}
	case []any:
		for i := range v {
			v[i] = byValue(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = byValue(v[name])
		}
	}
	return v
}

// compared returns a policy without members that the server adds, that are not part of a version, or
// that count as absent (S4).
func compared(body []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var p map[string]any
	if err := decoder.Decode(&p); err != nil {
		return nil, fmt.Errorf("not a policy: %w", err)
	}
	for _, name := range append(policyfile.ReadOnly(), "policy_id", "note", "drop_budgets") {
		delete(p, name)
	}
	for name, value := range p {
		if text, ok := value.(string); value == nil || ok && strings.TrimSpace(text) == "" {
			delete(p, name)
		}
	}
	asKept(p)
	return p, nil
}

// asKept normalizes members in the same way as the server, which stores their meaning: integers,
// and the groups that must approve changes (S8, S79, S80). The server stores rules as they were sent.
func asKept(p map[string]any) {
	integer := func(o map[string]any, name string) {
		if digits, ok := o[name].(json.Number); ok {
			if n, ok := spend.ParseInteger(digits.String()); ok {
				o[name] = json.Number(strconv.FormatInt(n, 10))
			}
		}
	}
	integer(p, "redeem_within_minutes")
	changes, _ := p["changes"].(map[string]any)
	dropNull(changes)
	integer(changes, "required")
	from, _ := changes["from"].([]any)
	for _, entry := range from {
		if group, ok := entry.(map[string]any); ok {
			dropNull(group)
			if _, given := group["required"]; !given {
				group["required"] = json.Number("1")
			}
			integer(group, "required")
		}
	}
}

func dropNull(o map[string]any) {
	maps.DeleteFunc(o, func(_ string, value any) bool { return value == nil })
}

func comparedText(body []byte) ([]byte, error) {
	p, err := compared(body)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = cli.PrintJSON(&out, p)
	return out.Bytes(), err
}
