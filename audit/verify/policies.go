package verify

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"spendgate/audit/chain"
	"spendgate/hotpath/spend"
)

// policies compares all policies with their chain, whatever the range: there
// are few.
func (v *verifier) policies(ctx context.Context) error {
	chained, links := make(map[PolicyVersion]spend.Hash), make(map[PolicyVersion]int64)
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
		chained[l.PolicyVersion], links[l.PolicyVersion] = toHash(l.Row), l.Seq
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
		default:
			v.latePolicy(p, links[p], row)
		}
		delete(chained, p)
		return nil
	})
	for p := range chained {
		v.tally.find(Removed, policyName(p), "it is in the chain of policies")
	}
	return err
}

// latePolicy names a policy that is older than a checkpoint without it.
func (v *verifier) latePolicy(p PolicyVersion, link int64, row []byte) {
	fields, err := chain.ParseFields(nil, row)
	at := slices.Index(chain.PolicyColumns(), "updated_at")
	if err != nil || len(fields) <= at || len(fields[at]) != 8 {
		return // the hash is right, so it is no such row
	}
	updated := epoch2000.Add(time.Duration(binary.BigEndian.Uint64(fields[at])) * time.Microsecond)
	lacking, acknowledged := v.known.lackingPolicy(link)
	if !lacking.After(updated.Add(lateCommit)) {
		return
	}
	kind := Inserted
	if acknowledged {
		kind = Acknowledged
	}
	v.tally.find(kind, policyName(p), "it is older than the checkpoint of %s, which does not have %s: it was inserted afterwards, "+
		"or its node's clock was behind", stamp(lacking), policyLinkName(link))
}

// epoch2000 is from when PostgreSQL counts.
var epoch2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func policyName(p PolicyVersion) string {
	return fmt.Sprintf("policy %q version %d", p.PolicyID, p.Version)
}
func policyLinkName(seq int64) string { return fmt.Sprintf("link %d of the policies", seq) }
