package main

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"spendgate/cmd/spendgate/policyfile"
)

// policiesNeed describes the settings that the commands of this group need.
const policiesNeed = "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_API_KEY."

// policiesOffline describes what the other commands need.
const policiesOffline = "Needs no node and no settings."

func policiesCommand() command {
	return command{
		name:    "policies",
		summary: "keep policies in files: check, test, compare and store them",
		sub: []command{
			{
				name: "apply", summary: "store policies from YAML or JSON; what changed becomes a new version", setup: policiesApply,
				details: policiesNeed + "\nThe key needs the scopes policies:read and policies:write.\n" +
					"All files are read before the first policy is stored. Amounts keep their digits.\n" +
					"A policy that is on the server as it is in the file makes no new version; one without policy_id always does.\n" +
					"What a server adds to a policy (version, created_at, updated_at, author) is not sent. " +
					"A version that would empty budgets in use is\nrefused, unless --drop-budget names each; what is used is printed.\n" +
					"With --if-match N a policy that somebody else changed since version N is refused, and nothing is stored.\n" +
					"When the command returns, every node judges by the new versions.",
			},
			{
				name: "diff", summary: "compare policies in files with those on the server", setup: policiesDiff,
				details: policiesNeed + "\nPrints what apply would change, as a unified diff of JSON.\n" +
					"The exit code is 0 when nothing differs, 1 when something does, and 2 when that could not be found out.",
			},
			{
				name: "list", summary: "list the policies on the server, or those in files and what the server has of them", setup: policiesList,
				details: policiesNeed + "\nWith -f STATE says whether a policy is on the server as it is in the file.",
			},
			{
				name: "versions", args: "POLICY_ID", summary: "list the versions of a policy, newest first, with who made and approved them",
				setup: policiesVersions, details: policiesNeed,
			},
			{
				name: "lint", summary: "name everything wrong with policies in files, by file and line", setup: policiesLint,
				details: policiesOffline +
					"\nFaults are what the API would refuse. Warnings are what is legal and probably not meant, such as a rule that\n" +
					"is never reported because of another, or that an agent avoids by leaving a field out.\n" +
					"The exit code is 1 when there are faults; with --strict warnings count, too.",
			},
			{
				name: "test", args: "CASES...", summary: "judge actions by policies in files, and compare the decisions", setup: policiesTest,
				details: policiesOffline +
					"\nCASES are files or folders as those of -f; deploy/policies/cases has examples. Every case is judged by itself, at\n" +
					"its time, as if nothing had been checked before. The exit code is 1 when a case is decided otherwise.",
			},
			{
				name: "backtest", summary: "replay what was recorded by a policy in a file, and name what it would decide otherwise",
				setup: policiesBacktest,
				details: policiesNeed + "\nThe key needs the scope backtests:write, and checks:read to see the actions.\n" +
					"Prints what was covered first; checks that cannot be replayed exactly are skipped and counted. The exit code is 2 when there is\n" +
					"no result, and 3 with --fail-on-looser when a check that was blocked or escalated would be allowed, for pull requests.",
			},
			{
				name: "rollback", args: "POLICY_ID --to N", summary: "store a new version that says what version N says", setup: policiesRollback,
				details: policiesNeed + "\nThe key needs the scopes policies:read and policies:write. Prints what changes, " +
					"as diff does; nothing is stored when nothing would,\nor when somebody stores another version meanwhile.\n" +
					"Budgets go on counting as under any new version: --drop-budget is as that of apply.",
			},
			policiesDraftCommand(),
			{name: "get", args: "POLICY_ID", summary: "print a policy as JSON", setup: policiesGet, details: policiesNeed},
		},
	}
}

func fileFlag(flags *flag.FlagSet) *string {
	return flags.String("f", "", "a `FILE`, a folder of .yaml, .yml and .json files, or - for standard input (required)")
}

func policiesApply(flags *flag.FlagSet) action {
	path := fileFlag(flags)
	dryRun := flags.Bool("dry-run", false, "print the requests' bodies and send nothing")
	version := flags.Int("if-match", 0, "store the one policy of -f only if version `N` is in force; 0: if there is none")
	s := storing{}
	s.flags(flags)
	return func(ctx context.Context, p process, _ []string) error {
		if *path == "" {
			return usageError{text: "needs -f FILE"}
		}
		if isSet(flags, "if-match") {
			if s.replaces = version; *version < 0 {
				return usageError{text: "versions start at 1, and --if-match 0 is for a policy that is not there"}
			}
		}
		policies, err := readPolicies(p, *path)
		if err != nil {
			return err
		}
		if s.replaces != nil && (len(policies) != 1 || policies[0].ID() == "") {
			return usageError{text: "--if-match is for one policy, with its policy_id"}
		}
		if *dryRun {
			for _, policy := range policies {
				if err := writeJSON(p.stdout, policy.Body); err != nil {
					return fmt.Errorf("%s: %w", policy.Source, err)
				}
			}
			return nil
		}
		return s.storeAll(ctx, p, policies)
	}
}

func readPolicies(p process, path string) ([]policyfile.Policy, error) {
	policies, err := policyfile.Read(path, p.stdin)
	if err == nil {
		err = policyfile.CheckUnique(policies)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read policies: %w", err)
	}
	for i, policy := range policies {
		sent, dropped := policy.WithoutReadOnly()
		if policies[i] = sent; dropped != nil {
			if _, err := fmt.Fprintf(p.stderr, "%s: not sent, since only the server says them: %s\n", policy.Source,
				strings.Join(dropped, ", ")); err != nil {
				return nil, err
			}
		}
	}
	return policies, nil
}

func policiesGet(flags *flag.FlagSet) action {
	wanted := flags.Int("version", 0, "version `N` instead of the latest")
	return func(ctx context.Context, p process, args []string) error {
		if isSet(flags, "version") && *wanted < 1 {
			return usageError{text: "versions start at 1"}
		}
		id, api, err := oneID(p, "POLICY_ID", args)
		if err != nil {
			return err
		}
		policy, err := api.Policy(ctx, id, *wanted)
		if err != nil {
			return err
		}
		return writeJSON(p.stdout, policy.Body)
	}
}
