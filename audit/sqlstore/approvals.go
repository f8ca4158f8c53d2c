package sqlstore

import (
	"context"
	"encoding/json"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// authorColumns are what scanAuthor reads of change c. The owner is of the key as it was then, unless the change says it.
const authorColumns = `c.key_id, coalesce(c.principal, ''), c.details, coalesce((SELECT k.details FROM changes AS k
	WHERE k.subject = c.key_id AND k.kind IN ('key.created', 'key.changed') AND k.seq < c.seq ORDER BY k.seq DESC LIMIT 1), '{}')`

// scanAuthor reads the columns before authorColumns, and these.
func scanAuthor(row Row, before ...any) (p audit.Party, err error) {
	var said, key map[string]json.RawMessage
	err = row.Scan(append(before, &p.KeyID, &p.Principal, Parse(&said, members), Parse(&key, members))...)
	for _, details := range []map[string]json.RawMessage{said, key} {
		if owner := details["owner"]; owner != nil && err == nil {
			return p, json.Unmarshal(owner, &p.Owner)
		}
	}
	return p, err
}

// CompleteApprovals adds, to approvals that have their checks, what people decided and who stands behind the key that asked. If
// authors are excluded, it adds those of the version that escalated and of its draft.
func CompleteApprovals(ctx context.Context, tx Tx, all []*audit.Approval) error {
	if len(all) == 0 {
		return nil
	}
	byName, names := make(map[string]*audit.Approval, len(all)), make([]string, len(all))
	var keyIDs []string
	for i, a := range all {
		names[i], keyIDs = a.Check.ID.Text(spend.PrefixApproval), append(keyIDs, a.Check.KeyID)
		byName[names[i]] = a
	}
	var w Where
	Among(&w, "subject", names)
	changes, err := collect(ctx, tx, ScanChange, selectChanges+w.String()+" ORDER BY seq", w.Args...)
	if err != nil {
		return err
	}
	wrote, err := authorsOf(ctx, tx, all)
	if err != nil {
		return err
	}
	for _, authors := range wrote {
		for _, author := range authors {
			keyIDs = append(keyIDs, author.KeyID)
		}
	}
	keys, err := KeysNow(ctx, tx, keyIDs...)
	if err != nil {
		return err
	}
	for i := range changes { // from here on nothing fails, which would have all read again
		byName[changes[i].Subject].Follow(changes[i : i+1])
	}
	for _, a := range all {
		a.Asker = keys[a.Check.KeyID].Party()
		if !a.Check.Approval.ExcludeAuthor {
			continue
		}
		for _, author := range wrote[versionOf(a)] {
			a.Authors = append(a.Authors, author, keys[author.KeyID].Party())
		}
	}
	return nil
}

// version names a version of a policy.
type version struct {
	policyID string
	number   int
}

func versionOf(a *audit.Approval) version {
	return version{a.Check.Action.PolicyID, a.Check.Decision.PolicyVersion}
}

// authorsOf returns the authors of the versions that exclude theirs, and of the drafts of these versions.
func authorsOf(ctx context.Context, tx Tx, all []*audit.Approval) (map[version][]audit.Party, error) {
	wrote := make(map[version][]audit.Party)
	var w Where
	for _, a := range all {
		of := versionOf(a)
		if _, known := wrote[of]; a.Check.Approval.ExcludeAuthor && !known {
			wrote[of] = nil
			w.Text += " OR v.subject = " + w.Arg(of.policyID) + " AND v.version = " + w.Arg(of.number)
		}
	}
	if w.Args == nil {
		return nil, nil
	}
	err := tx.Query(ctx, func(row Row) error {
		var of version
		author, err := scanAuthor(row, &of.policyID, &of.number)
		wrote[of] = append(wrote[of], author)
		return err
	}, `SELECT v.subject, v.version, `+authorColumns+` FROM changes AS v JOIN changes AS c ON c.seq IN (v.seq, `+SelectDraftOf+`)
		WHERE v.kind = 'policy.created' AND c.key_id IS NOT NULL AND (false`+w.Text+")", w.Args...)
	return wrote, err
}
