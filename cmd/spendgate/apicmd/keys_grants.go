package apicmd

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/hotpath/client"
)

// grantFlags declares the flags for the rights of a key. None of them accepts an empty value: a
// variable that a script never set must not make a key with more rights.
func grantFlags(flags *flag.FlagSet, g *client.Grants) {
	flags.Func("role", "what the key may do: `ROLE` is agent, author, approver, executor, gateway, auditor or full", cli.NotEmpty(&g.Role))
	flags.Func("scope", "instead of a role, a `SCOPE` that the key has, such as checks:read; once for each", cli.EachNotEmpty(&g.Scopes))
	flags.Func("policy-id", "bind the key to the policy `ID`; once for each", cli.EachNotEmpty(&g.PolicyIDs))
	flags.Func("agent-id", "bind the key to the agent `ID`; once for each", cli.EachNotEmpty(&g.AgentIDs))
	flags.Func("principal", "who stands behind the key, as `TEXT`: keys may share one; unless given, "+
		"a new key of role agent has its owner, else its name, any other its own id", cli.NotEmpty(&g.Principal))
	flags.Func("owner", "the person or team that runs the agent, as `TEXT`", cli.NotEmpty(&g.Owner))
	flags.Func("group", "a `GROUP` of the person who decides with the key; once for each", cli.EachNotEmpty(&g.Groups))
	flags.Func("expires-at", "the `TIME` from which the key is refused, such as 2030-01-31T12:00:00Z", func(text string) error {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return errors.New("must be an RFC 3339 time: 2030-01-31T12:00:00Z")
		}
		g.ExpiresAt = &client.Timestamp{Time: at}
		return nil
	})
}

// decides reports whether a key with these rights decides about approvals. A role that is not known decides
// nothing here: the service refuses it.
func decides(g *client.Grants) bool {
	role := spend.Role(g.Role)
	return g.Role != "" && role.Known() && role.Scopes().Has(spend.ApprovalsDecide) ||
		slices.Contains(g.Scopes, spend.ApprovalsDecide.String())
}

// clearable are the members that a change of a key can remove. A role and scopes cannot be
// removed, only replaced by each other.
var clearable = [...]string{
	spend.MemberPolicyIDs, spend.MemberAgentIDs, spend.MemberPrincipal, spend.MemberOwner, spend.MemberGroups, spend.MemberExpiresAt,
}

// clearFlag declares the flag for rights to be removed from a key.
func clearFlag(flags *flag.FlagSet, to *[]string) {
	known := strings.Join(clearable[:], ", ")
	flags.Func("clear", "take `MEMBER` away: "+known+"; once for each", func(text string) error {
		if !slices.Contains(clearable[:], text) {
			return errors.New("must be one of " + known)
		}
		*to = append(*to, text)
		return nil
	})
}

// grantNames are the headings of a key's grants.
var grantNames = [...]string{"role", "policies", "agents", "principal", "owner", "groups", "expires"}

// grantTexts returns a key's grants for people, in the order of grantNames; unset ones are empty.
func grantTexts(g client.Grants) [len(grantNames)]string {
	expires := ""
	if g.ExpiresAt != nil {
		expires = g.ExpiresAt.String()
	}
	return [...]string{
		cmp.Or(spend.Printable(g.Role), listText(g.Scopes)), listText(g.PolicyIDs), listText(g.AgentIDs),
		spend.Printable(g.Principal), spend.Printable(g.Owner), listText(g.Groups), expires,
	}
}

// listText returns the first few elements: more would make a table unreadable.
func listText(all []string) string {
	const shown = 4
	var text []string
	for _, s := range all[:min(len(all), shown)] {
		text = append(text, spend.Printable(s))
	}
	joined := strings.Join(text, ",")
	if more := len(all) - shown; more > 0 {
		joined += fmt.Sprintf(" and %d more", more)
	}
	return joined
}

// stateText returns the state of a key: whether it is accepted now.
func stateText(k client.Key, now time.Time) string {
	switch {
	case !k.Active:
		return "inactive"
	case k.ExpiresAt != nil && !now.Before(k.ExpiresAt.Time):
		return "expired"
	}
	return "active"
}
