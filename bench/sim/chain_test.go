package sim

import (
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// judgeChains checks G8: every recorded hash chain has no gap or fork, and lists
// each check with its row once.
func (f *simulation) judgeChains(fail func(string, ...any), byID map[spend.ID]*spend.Check) {
	listed := make(map[spend.ID]bool)
	for chainID, links := range f.store.links {
		var head spend.Hash
		for seq := int64(1); seq <= int64(len(links)); seq++ {
			link := links[seq]
			if link == nil {
				fail("G8: chain %s has %d links, but none of number %d", chainID.Text(""), len(links), seq)
				break
			}
			if head = chain.HashBatch(chainID, seq, head, link.Entries); head != link.Head {
				fail("G8: link %d of chain %s does not follow the one before", seq, chainID.Text(""))
			}
			head = link.Head
			entries, err := chain.ParseEntries(link.Entries)
			if err != nil {
				fail("G8: link %d of chain %s: %v", seq, chainID.Text(""), err)
			}
			for _, e := range entries {
				if e.ID.OfOutcome() {
					if o := f.store.outcome(e.ID); listed[e.ID] || o == nil || chain.HashOutcome(o) != e.Row || o.Fence.Node != chainID {
						fail("G8: link %d of chain %s lists outcome %s, twice or not as it is recorded", seq, chainID.Text(""), e.ID.Text(""))
					}
					listed[e.ID] = true
					continue
				}
				c := byID[e.ID]
				if listed[e.ID] || c == nil || chain.HashCheck(c) != e.Row || c.Fence.Node != chainID {
					fail("G8: link %d of chain %s lists %s, twice or not as it is recorded", seq, chainID.Text(""), e.ID.Text("chk_"))
				}
				listed[e.ID] = true
			}
		}
	}
	recorded := len(byID)
	for _, outcomes := range f.store.outcomes {
		recorded += len(outcomes)
	}
	if len(listed) != recorded {
		fail("G8: %d checks and outcomes are recorded, %d listed", recorded, len(listed))
	}
}

// batches counts the links of all chains, or returns the largest number of one.
func (m *memory) batches(largest bool) (n int) {
	for _, links := range m.links {
		for seq := range links {
			if !largest {
				n++
			} else {
				n = max(n, int(seq))
			}
		}
	}
	return n
}
