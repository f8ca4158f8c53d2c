package verify

import (
	"context"
	"slices"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// kept compares the checks that are kept for payments with the entries of the slice: an altered one would give a payment another
// state (S84).
func (s *slice) kept(ctx context.Context) error {
	all := Walk{Table: chain.KeptChecks(), By: "check_id", Range: s.r, Order: "check_id"}
	return s.o.Evidence.Walk(ctx, all, func(row []byte) error {
		fields, err := chain.ParseCheckRow(nil, row)
		if err != nil {
			return err
		}
		id := spend.ID(fields[0])
		i, listed := slices.BinarySearchFunc(s.entries, id, func(e listed, id spend.ID) int { return e.ID.Compare(id) })
		switch {
		case listed && chain.HashRow(row) != s.entries[i].Row:
			s.tally.find(Altered, "kept "+checkName(id), "it is not the one that %s was committed with",
				batchName(s.entries[i].place.Chain, s.entries[i].place.Seq))
		case !listed && !s.unfolded.blind(fields[chain.FieldNode], id):
			s.tally.find(Inserted, "kept "+checkName(id), "no batch lists it")
		}
		return nil
	})
}
