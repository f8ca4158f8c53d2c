package policycmd

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"

	"github.com/rogpeppe/go-internal/diff"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/policycheck"
	"spendgate/cmd/spendgate/policyfile"
	"spendgate/hotpath/client"
)

// storing is how policies are stored.
type storing struct {
	drop     []string // the budgets that may be emptied
	note     string
	replaces *int     // the version that must be in force, 0 for none; nil: any version
	ended    []string // of drop, the ones that ended
}

func (s *storing) flags(flags *flag.FlagSet) {
	flags.Func("drop-budget", "empty the budget `RULE` though it is in use; may be given again", cli.EachNotEmpty(&s.drop))
	flags.StringVar(&s.note, "note", "", "a `TEXT` that the versions show")
}

// storeAll stops at the first policy that is refused; those stored before were printed and stay.
func (s *storing) storeAll(ctx context.Context, p cli.Process, policies []policyfile.Policy) error {
	api, err := cli.KeyAPI(p)
	if err != nil {
		return err
	}
	for _, policy := range policies {
		current, err := onServer(ctx, api, policy)
		if err == nil {
			err = s.store(ctx, p, api, current, policy)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", policy.Source, err)
		}
	}
	return s.unused(p)
}

// unused prints which of the budgets in drop did not end.
func (s *storing) unused(p cli.Process) error {
	for _, id := range s.drop {
		if slices.Contains(s.ended, id) {
			continue
		}
		if _, err := fmt.Fprintf(p.Stderr, "--drop-budget %s: no such budget ends\n", spend.Printable(id)); err != nil {
			return err
		}
	}
	return nil
}

// store stores a policy unless it is on the server already, and says so.
func (s *storing) store(ctx context.Context, p cli.Process, api *client.Client, current *client.Policy, policy policyfile.Policy) error {
	if current != nil {
		same, err := samePolicy(policy.Body, current.Body)
		if err != nil {
			return err
		}
		if same {
			_, err := fmt.Fprintf(p.Stdout, "%s version %d, unchanged\n", spend.Printable(current.PolicyID), current.Version)
			return err
		}
		if policy, err = s.dropping(ctx, p, api, current, policy); err != nil {
			return err
		}
	}
	if s.note != "" {
		var err error
		if policy, err = policy.With("note", s.note); err != nil {
			return err
		}
	}
	stored, err := s.send(ctx, api, policy.Body)
	if err != nil && current != nil {
		return instead(err, current.PolicyID, strconv.Itoa(current.Version))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Stdout, "%s version %d\n", spend.Printable(stored.PolicyID), stored.Version)
	return err
}

func (s *storing) send(ctx context.Context, api *client.Client, body []byte) (*client.Policy, error) {
	if s.replaces != nil {
		return api.ReplacePolicyJSON(ctx, *s.replaces, body)
	}
	return api.CreatePolicyJSON(ctx, body)
}

// dropping prints which budgets end with the policy, and adds to the policy those of them that may
// be dropped.
func (s *storing) dropping(
	ctx context.Context, p cli.Process, api *client.Client, current *client.Policy, policy policyfile.Policy,
) (policyfile.Policy, error) {
	lines, err := emptied(ctx, api, current, policy.Body, s.drop...)
	if err != nil {
		return policy, err
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(p.Stderr, line); err != nil {
			return policy, err
		}
	}
	var drop []string
	for _, id := range policycheck.EndedBudgets(current.Body, policy.Body) {
		if slices.Contains(s.drop, id) {
			drop = append(drop, id)
		}
	}
	if drop == nil {
		return policy, nil
	}
	s.ended = append(s.ended, drop...)
	return policy.With("drop_budgets", drop)
}

func policiesRollback(flags *flag.FlagSet) cli.Action {
	to := flags.Int("to", 0, "the version `N` to go back to (required)")
	s := storing{}
	s.flags(flags)
	return func(ctx context.Context, p cli.Process, args []string) error {
		if len(args) != 1 || args[0] == "" || *to < 1 {
			return cli.UsageError{Text: "needs one POLICY_ID and --to N, a version from 1 on"}
		}
		api, err := cli.KeyAPI(p)
		if err != nil {
			return err
		}
		wanted, err := api.Policy(ctx, args[0], *to)
		if err != nil {
			return err
		}
		current, err := api.Policy(ctx, args[0], 0)
		if err != nil {
			return err
		}
		text, err := differenceOf(current, fmt.Sprintf("%s version %d", spend.Printable(wanted.PolicyID), wanted.Version), wanted.Body)
		if err != nil {
			return err
		}
		if _, err := p.Stdout.Write(text); err != nil {
			return err
		}
		policy, _ := policyfile.Policy{Body: wanted.Body}.WithoutReadOnly()
		note := fmt.Sprintf("rollback to version %d", *to)
		if s.note != "" {
			note += ": " + s.note
		}
		s.note, s.replaces = note, &current.Version // the version that the printed difference is based on
		if err := s.store(ctx, p, api, current, policy); err != nil {
			return err
		}
		return s.unused(p)
	}
}

// differenceOf returns what would change if the body were stored after the server's version, nil if
// nothing would.
func differenceOf(current *client.Policy, source string, body []byte) ([]byte, error) {
	same, err := samePolicy(body, current.Body)
	if err != nil || same {
		return nil, err
	}
	before, err := comparedText(current.Body)
	if err != nil {
		return nil, err
	}
	after, err := comparedText(body)
	return diff.Diff(fmt.Sprintf("%s version %d", spend.Printable(current.PolicyID), current.Version), before, source, after), err
}
