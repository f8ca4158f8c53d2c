package verify

import (
	"bytes"
	"context"
	"fmt"

	"spendgate/audit/chain"
	"spendgate/hotpath/spend"
)

// policies compares all policies with their chain, whatever the range: there
// are few.
func (v *verifier) policies(ctx context.Context) error {
	chained := make(map[PolicyVersion]spend.Hash)
	seq, previous := int64(0), []spend.Hash{{}}
	err := v.o.Evidence.PolicyChain(ctx, func(l PolicyLink) error {
		name := policyLinkName(l.Seq)
		if l.Seq != seq+1 {
			v.tally.find(Removed, policyLinkName(seq+1), "and all up to number %d: the one after cannot be checked then", l.Seq-1)
			previous = []spend.Hash{}
		}
		seq = l.Seq
		if _, twice := chained[l.PolicyVersion]; twice {
			v.tally.find(Altered, name, "%s is in the chain twice", policyName(l.PolicyVersion))
		}
		chained[l.PolicyVersion] = toHash(l.Row)
		stored := toHash(l.Head)
		var computed spend.Hash
		for _, p := range previous {
			if computed = chain.PolicyHead(l.Seq, p, toHash(l.Row)); bytes.Equal(computed[:], l.Head) {
				previous = []spend.Hash{computed}
				return nil
			}
		}
		if len(previous) > 0 {
			v.tally.find(Altered, name, "its head does not follow from the policy and the head before")
		}
		previous = []spend.Hash{stored, computed}
		return nil
	})
	if err != nil {
		return err
	}
	err = v.o.Evidence.Policies(ctx, func(p PolicyVersion, row []byte) error {
		v.tally.policies.Add(1)
		switch wanted, ok := chained[p]; {
		case !ok:
			v.tally.find(Inserted, policyName(p), "it is not in the chain of policies")
		case chain.HashPolicy(row) != wanted:
			v.tally.find(Altered, policyName(p), "its row is not the one that it was stored with")
		}
		delete(chained, p)
		return nil
	})
	for p := range chained {
		v.tally.find(Removed, policyName(p), "it is in the chain of policies")
	}
	return err
}

func policyName(p PolicyVersion) string {
	return fmt.Sprintf("policy %q version %d", p.PolicyID, p.Version)
}
func policyLinkName(seq int64) string { return fmt.Sprintf("link %d of the policies", seq) }
