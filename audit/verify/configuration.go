package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// configuration compares all policies and keys with the chain of changes, whatever the range: there
// are few of them.
func (v *verifier) configuration(ctx context.Context) error {
	w := changeWalk{
		verifier: v, policies: make(map[PolicyVersion]recorded), drafts: make(map[int64]draftRecord), keys: make(map[string]recorded),
		webhooks: make(map[string]recorded), previous: []spend.Hash{{}}, budgets: make(map[string]versionBudgets), reviews: newReviews(),
		promoted: make(map[int64]promoted),
	}
	if err := Changes(ctx, v.o.Evidence, w.change); err != nil {
		return err
	}
	if err := Policies(ctx, v.o.Evidence, w.policy); err != nil {
		return err
	}
	for _, table := range []struct {
		walk Walk
		each func(fields [][]byte, row []byte) error
	}{
		{Walk{Table: chain.Drafts(), Order: "generation"}, w.draft},
		{Walk{Table: chain.Keys(), Order: "id"}, w.key},
		{Walk{Table: chain.Webhooks(), Order: "id"}, w.webhook},
	} {
		if err := walkFields(ctx, v.o.Evidence, table.walk, table.each); err != nil {
			return err
		}
	}
	for p := range w.policies {
		w.odd[p.PolicyID] = true
		v.tally.find(Removed, policyName(p), "its creation is recorded")
	}
	for seq, d := range w.drafts {
		v.tally.find(Removed, draftName(d.policyID, seq), "%s has it", changeName(seq))
	}
	for id, newest := range w.keys {
		v.tally.find(Removed, keyName(id), "%s has it", changeName(newest.seq))
	}
	for id, newest := range w.webhooks {
		v.tally.find(Removed, webhookName(id), "%s has it", changeName(newest.seq))
	}
	return nil
}

// changeWalk follows the chain of changes.
type changeWalk struct {
	*verifier
	seq      int64
	previous []spend.Hash // what the previous head may have been; none if the change is missing
	policies map[PolicyVersion]recorded
	drafts   map[int64]draftRecord
	promoted map[int64]promoted        // by the number of the draft
	keys     map[string]recorded       // by key_id, the newest change of each
	webhooks map[string]recorded       // the same by webhook_id, without deleted ones
	budgets  map[string]versionBudgets // by policy_id, of the latest version so far
	reviews  reviews
}

// recorded is a row as its change left it.
type recorded struct {
	seq int64
	row spend.Hash
}

func (w *changeWalk) change(c Change) error {
	w.tally.changes.Add(1)
	name := changeName(c.Seq)
	if c.Seq != w.seq+1 {
		w.tally.find(Removed, changeName(w.seq+1), "and all up to number %d: the one after cannot be checked then", c.Seq-1)
		w.previous = nil
	}
	w.seq = c.Seq
	switch p := (PolicyVersion{c.Subject, c.Version}); {
	case c.Kind.IsOfApproval():
		w.ruling(c)
	case c.Kind == audit.WebhookCreated, c.Kind == audit.WebhookChanged:
		w.webhooks[c.Subject] = recorded{c.Seq, c.Hash}
	case c.Kind == audit.DraftPut, c.Kind == audit.DraftDeleted, c.Kind == audit.DraftPromoted:
		w.drafts[c.Seq] = draftRecord{c.Subject, c.Hash}
	case c.Kind == audit.DraftApproved, c.Kind == audit.DraftRejected, c.Kind == audit.PolicyForced: // of no row
	case c.Kind == audit.ZonesChanged:
		w.zonesChanged = append(w.zonesChanged, c.At.UnixMilli())
	case c.Kind == audit.EventsRemoved:
		w.eventsRemoved(c)
	case c.Kind == audit.PaymentsRemoved:
		if err := w.paymentsRemoved(c); err != nil {
			return err
		}
	case c.Kind.IsFreeze():
		w.freeze(c)
	case c.Kind.IsGrant():
		w.grant(c)
	case c.Kind == audit.WebhookDeleted:
		delete(w.webhooks, c.Subject)
	case c.Kind != audit.PolicyCreated:
		w.keys[c.Subject] = recorded{c.Seq, c.Hash}
		w.stop(c)
		w.behind(c)
	case w.policies[p].seq > 0:
		w.tally.find(Altered, name, "%s was created twice", policyName(p))
	default:
		w.policies[p] = recorded{c.Seq, c.Hash}
	}
	w.reviewed(c)
	w.late(name, c.Seq, c.At)
	var computed spend.Hash
	for _, p := range w.previous {
		if computed = chain.ChangeHead(p, c.Row); computed == c.Head {
			w.previous = []spend.Hash{computed}
			if !json.Valid([]byte(c.Details)) || !strings.HasPrefix(strings.TrimSpace(c.Details), "{") { // its chain may have been made anew
				w.tally.find(Altered, name, "what it says is no JSON object")
			}
			return nil
		}
	}
	if len(w.previous) > 0 {
		w.tally.find(Altered, name, "its head does not follow from it and the head before")
		w.previous = []spend.Hash{c.Head, computed}
		return nil
	}
	w.previous = []spend.Hash{c.Head}
	return nil
}

func (w *changeWalk) policy(p PolicyVersion, row []byte) error {
	w.tally.policies.Add(1)
	switch created, ok := w.policies[p]; {
	case !ok:
		w.odd[p.PolicyID] = true
		w.tally.find(Inserted, policyName(p), "its creation is not recorded")
	case chain.HashPolicy(row) != created.row:
		w.odd[p.PolicyID] = true
		w.tally.find(Altered, policyName(p), "its row is not the one that %s recorded", changeName(created.seq))
	default:
		fields, err := chain.ParseFields(nil, row)
		if err != nil {
			return err
		}
		if updated, ok := chain.Time(fields[chain.Policies().Index("updated_at")]); ok {
			w.late(policyName(p), created.seq, updated)
		}
		w.countSince(p, fields)
		w.courses.policy(p, fields)
		if err := w.consented(p, string(fields[chain.Policies().Index("changes")])); err != nil {
			return err
		}
		if draft := w.reviews.made[p].draft; draft != 0 {
			w.promoted[draft] = promoted{p, contentOf(fields, chain.Policies())}
		}
	}
	delete(w.policies, p)
	return nil
}

// draftRecord is a draft, or the end of one, as its change left it.
type draftRecord struct {
	policyID string
	row      spend.Hash
}

func (w *changeWalk) draft(fields [][]byte, row []byte) error {
	policyID, seq := string(fields[0]), chain.Integer(fields[1])
	switch d, ok := w.drafts[seq]; {
	case !ok || d.policyID != policyID:
		w.tally.find(Inserted, draftName(policyID, seq), "no change has it")
		return nil
	case chain.HashDraft(row) != d.row:
		w.tally.find(Altered, draftName(policyID, seq), "its row is not the one that %s recorded", changeName(seq))
	default:
		if made, ok := w.promoted[seq]; ok && made.content != contentOf(fields, chain.Drafts()) {
			w.tally.find(Altered, policyName(made.version), "it is another than the draft of %s, which it was made of", changeName(seq))
		}
	}
	delete(w.drafts, seq)
	return nil
}

// promoted is the version made from a draft, as far as the draft determines it.
type promoted struct {
	version PolicyVersion
	content [6]string
}

// contentOf returns what a draft and the version made from it share.
func contentOf(fields [][]byte, of chain.Table) (content [6]string) {
	for i, name := range [...]string{"name", "description", "rules", "metadata", "redeem", "changes"} {
		content[i] = string(fields[of.Index(name)])
	}
	return content
}

func (w *changeWalk) key(fields [][]byte, row []byte) error {
	w.tally.keys.Add(1)
	keyID := identifier(fields[0]).Text(spend.PrefixKey)
	w.compare(w.keys, keyID, keyName(keyID), chain.HashKey(row))
	return nil
}

func (w *changeWalk) webhook(fields [][]byte, row []byte) error {
	webhookID := identifier(fields[0]).Text(spend.PrefixWebhook)
	w.compare(w.webhooks, webhookID, webhookName(webhookID), chain.HashWebhook(row))
	return nil
}

// compare compares a row with its newest change, and removes that change from newest.
func (w *changeWalk) compare(newest map[string]recorded, id, name string, row spend.Hash) {
	switch change, ok := newest[id]; {
	case !ok:
		w.tally.find(Inserted, name, "no change has it")
	case row != change.row:
		w.tally.find(Altered, name, "it is not as its newest change, %s, left it", changeName(change.seq))
	}
	delete(newest, id)
}

// late names what was made before a checkpoint that lacks its change.
func (w *changeWalk) late(name string, seq int64, at time.Time) {
	lacking, kind := w.known.lackingChange(seq)
	if lacking.IsZero() || !lacking.After(at.Add(lateCommit)) {
		return
	}
	w.tally.find(kind, name, "it is older than the checkpoint of %s, which does not have %s: it was inserted afterwards, "+
		"or a clock was behind", stamp(lacking), changeName(seq))
}

func policyName(p PolicyVersion) string {
	return fmt.Sprintf("policy %q version %d", p.PolicyID, p.Version)
}

func draftName(policyID string, seq int64) string {
	return fmt.Sprintf("draft of policy %q by change %d", policyID, seq)
}
func webhookName(webhookID string) string { return "webhook " + webhookID }
func keyName(keyID string) string         { return "key " + keyID }
func changeName(seq int64) string         { return fmt.Sprintf("change %d of the configuration", seq) }
