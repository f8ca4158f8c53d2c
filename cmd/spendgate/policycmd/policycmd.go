// Package policycmd has the commands that keep policies in files: check, test, compare, store and draft them.
package policycmd

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/policyfile"
)

// policiesNeed describes the settings that the commands of this group need.
const policiesNeed = "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_API_KEY."

// policiesOffline describes what the other commands need.
const policiesOffline = "Needs no node and no settings."

// Command returns the command policies with those below it.
func Command() cli.Command {
	return cli.Command{
		Name:    "policies",
		Summary: "keep policies in files: check, test, compare and store them",
		Sub: []cli.Command{
			{
				Name: "apply", Summary: "store policies from YAML or JSON; what changed becomes a new version", Setup: policiesApply,
				Details: policiesNeed + "\nThe key needs the scopes policies:read and policies:write.\n" +
					"All files are read before the first policy is stored. Amounts keep their digits.\n" +
					"A policy that is on the server as it is in the file makes no new version; one without policy_id always does.\n" +
					"What a server adds to a policy (version, created_at, updated_at, author) is not sent. " +
					"A version that would empty budgets in use is\nrefused, unless --drop-budget names each; what is used is printed.\n" +
					"With --if-match N a policy that somebody else changed since version N is refused, and nothing is stored.\n" +
					"When the command returns, every node judges by the new versions.",
			},
			{
				Name: "diff", Summary: "compare policies in files with those on the server", Setup: policiesDiff,
				Details: policiesNeed + "\nPrints what apply would change, as a unified diff of JSON.\n" +
					"The exit code is 0 when nothing differs, 1 when something does, and 2 when that could not be found out.",
			},
			{
				Name: "list", Summary: "list the policies on the server, or those in files and what the server has of them", Setup: policiesList,
				Details: policiesNeed + "\nWith -f STATE says whether a policy is on the server as it is in the file.",
			},
			{
				Name: "versions", Args: "POLICY_ID", Summary: "list the versions of a policy, newest first, with who made and approved them",
				Setup: policiesVersions, Details: policiesNeed,
			},
			{
				Name: "lint", Summary: "name everything wrong with policies in files, by file and line", Setup: policiesLint,
				Details: policiesOffline +
					"\nFaults are what the API would refuse. Warnings are what is legal and probably not meant, such as a rule that\n" +
					"is never reported because of another, or that an agent avoids by leaving a field out.\n" +
					"The exit code is 1 when there are faults; with --strict warnings count, too.",
			},
			{
				Name: "test", Args: "CASES...", Summary: "judge actions by policies in files, and compare the decisions", Setup: policiesTest,
				Details: policiesOffline +
					"\nCASES are files or folders as those of -f; deploy/policies/cases has examples. Every case is judged by itself, at\n" +
					"its time, as if nothing had been checked before. The exit code is 1 when a case is decided otherwise.",
			},
			{
				Name: "backtest", Summary: "replay what was recorded by a policy in a file, and name what it would decide otherwise",
				Setup: policiesBacktest,
				Details: policiesNeed + "\nThe key needs the scope backtests:write, and checks:read to see the actions.\n" +
					"Prints what was covered first; checks that cannot be replayed exactly are skipped and counted. The exit code is 2 when there is\n" +
					"no result, and 3 with --fail-on-looser when a check that was blocked or escalated would be allowed, for pull requests.",
			},
			{
				Name: "rollback", Args: "POLICY_ID --to N", Summary: "store a new version that says what version N says", Setup: policiesRollback,
				Details: policiesNeed + "\nThe key needs the scopes policies:read and policies:write. Prints what changes, " +
					"as diff does; nothing is stored when nothing would,\nor when somebody stores another version meanwhile.\n" +
					"Budgets go on counting as under any new version: --drop-budget is as that of apply.",
			},
			policiesDraftCommand(),
			{Name: "get", Args: "POLICY_ID", Summary: "print a policy as JSON", Setup: policiesGet, Details: policiesNeed},
		},
	}
}

func fileFlag(flags *flag.FlagSet) *string {
	return flags.String("f", "", "a `FILE`, a folder of .yaml, .yml and .json files, or - for standard input (required)")
}

func policiesApply(flags *flag.FlagSet) cli.Action {
	path := fileFlag(flags)
	dryRun := flags.Bool("dry-run", false, "print the requests' bodies and send nothing")
	version := flags.Int("if-match", 0, "store the one policy of -f only if version `N` is in force; 0: if there is none")
	s := storing{}
	s.flags(flags)
	return func(ctx context.Context, p cli.Process, _ []string) error {
		if *path == "" {
			return cli.UsageError{Text: "needs -f FILE"}
		}
		if cli.IsSet(flags, "if-match") {
			if s.replaces = version; *version < 0 {
				return cli.UsageError{Text: "versions start at 1, and --if-match 0 is for a policy that is not there"}
			}
		}
		policies, err := readPolicies(p, *path)
		if err != nil {
			return err
		}
		if s.replaces != nil && (len(policies) != 1 || policies[0].ID() == "") {
			return cli.UsageError{Text: "--if-match is for one policy, with its policy_id"}
		}
		if *dryRun {
			for _, policy := range policies {
				if err := cli.WriteJSON(p.Stdout, policy.Body); err != nil {
					return fmt.Errorf("%s: %w", policy.Source, err)
				}
			}
			return nil
		}
		return s.storeAll(ctx, p, policies)
	}
}

func readPolicies(p cli.Process, path string) ([]policyfile.Policy, error) {
	policies, err := policyfile.Read(path, p.Stdin)
	if err == nil {
		err = policyfile.CheckUnique(policies)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read policies: %w", err)
	}
	for i, policy := range policies {
		sent, dropped := policy.WithoutReadOnly()
		if policies[i] = sent; dropped != nil {
			if _, err := fmt.Fprintf(p.Stderr, "%s: not sent, since only the server says them: %s\n", policy.Source,
				strings.Join(dropped, ", ")); err != nil {
				return nil, err
			}
		}
	}
	return policies, nil
}

func policiesGet(flags *flag.FlagSet) cli.Action {
	wanted := flags.Int("version", 0, "version `N` instead of the latest")
	return func(ctx context.Context, p cli.Process, args []string) error {
		if cli.IsSet(flags, "version") && *wanted < 1 {
			return cli.UsageError{Text: "versions start at 1"}
		}
		id, api, err := cli.OneID(p, "POLICY_ID", args)
		if err != nil {
			return err
		}
		policy, err := api.Policy(ctx, id, *wanted)
		if err != nil {
			return err
		}
		return cli.WriteJSON(p.Stdout, policy.Body)
	}
}
