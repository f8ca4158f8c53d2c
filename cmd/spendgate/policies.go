package main

import (
	"context"
	"flag"
	"fmt"

	"spendgate/cmd/spendgate/policyfile"
)

// policiesNeed is what each command of this group needs.
const policiesNeed = "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_API_KEY."

func policiesCommand() command {
	return command{
		name:    "policies",
		summary: "store and show policies of a running node",
		details: policiesNeed,
		sub: []command{
			{
				name: "apply", summary: "store policies from YAML or JSON, each as a new version", setup: policiesApply,
				details: policiesNeed + "\nAll files are read before the first policy is stored. Amounts keep their digits.\n" +
					"When the command returns, every node judges by the new versions.",
			},
			{name: "get", args: "POLICY_ID", summary: "print a policy as JSON", setup: policiesGet, details: policiesNeed},
		},
	}
}

func policiesApply(flags *flag.FlagSet) action {
	path := flags.String("f", "", "a `FILE`, a folder of .yaml, .yml and .json files, or - for standard input (required)")
	dryRun := flags.Bool("dry-run", false, "print the requests' bodies and send nothing")
	return func(ctx context.Context, p process, args []string) error {
		if *path == "" || len(args) > 0 {
			return usageError{text: "needs -f FILE and no other arguments"}
		}
		policies, err := policyfile.Read(*path, p.stdin)
		if err != nil {
			return fmt.Errorf("cannot read policies: %w", err)
		}
		if *dryRun {
			for _, policy := range policies {
				if err := writeJSON(p.stdout, policy.Body); err != nil {
					return fmt.Errorf("%s: %w", policy.Source, err)
				}
			}
			return nil
		}
		return storePolicies(ctx, p, policies)
	}
}

// storePolicies stops at the first that is refused; what was stored before
// has been printed and stays.
func storePolicies(ctx context.Context, p process, policies []policyfile.Policy) error {
	api, err := keyAPI(p)
	if err != nil {
		return err
	}
	for _, policy := range policies {
		stored, err := api.CreatePolicyJSON(ctx, policy.Body)
		if err != nil {
			return fmt.Errorf("%s: %w", policy.Source, err)
		}
		if _, err := fmt.Fprintf(p.stdout, "%s version %d\n", printable(stored.PolicyID), stored.Version); err != nil {
			return err
		}
	}
	return nil
}

func policiesGet(flags *flag.FlagSet) action {
	wanted := flags.Int("version", 0, "version `N` instead of the latest")
	return func(ctx context.Context, p process, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usageError{text: "needs one POLICY_ID"}
		}
		if isSet(flags, "version") && *wanted < 1 {
			return usageError{text: "versions start at 1"}
		}
		api, err := keyAPI(p)
		if err != nil {
			return err
		}
		policy, err := api.Policy(ctx, args[0], *wanted)
		if err != nil {
			return err
		}
		return writeJSON(p.stdout, policy.Body)
	}
}
