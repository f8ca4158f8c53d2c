package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// released is whether check c, or the use of its approval, was given back by the last report, or
// whether the expiry or the withdrawal of its approval is recorded.
const released = `(c.approval IS NOT NULL AND EXISTS (
	SELECT 1 FROM changes AS e WHERE e.subject = 'apr_' || lower(hex(c.check_id)) AND e.kind IN ('approval.expired', 'approval.withdrawn'))
	OR EXISTS (SELECT 1 FROM outcomes AS o
	WHERE o.check_id IN (c.check_id, (SELECT u.check_id FROM approval_uses AS u WHERE u.approval_id = c.check_id))
	AND o.release = 'done' AND o.status <> 'executed'
	AND o.step = (SELECT max(l.step) FROM outcomes AS l WHERE l.check_id = o.check_id)))`

func outcomeColumns() string { return strings.Join(chain.Outcomes().Columns(), ", ") }

// insertOutcomes records outcomes, or names the refused checks: those whose last step has another
// number than the outcome expects, whose redemption is too late, or
// whose unread check is another one. It adds the checks that it read.
func insertOutcomes(tx *sql.Tx, outcomes []*spend.Outcome, read *unread) error {
	known := new(audit.ReportedError)
	for _, o := range outcomes {
		var amount any
		if o.Status == spend.Executed {
			amount = o.Amount.String()
		}
		if tooLate, err := late(tx, o); err != nil {
			return err
		} else if tooLate {
			known.CheckIDs, known.Late = append(known.CheckIDs, o.CheckID), append(known.Late, o.CheckID)
			continue
		}
		if ok, err := read.compare(tx, o); err != nil {
			return err
		} else if !ok {
			known.CheckIDs = append(known.CheckIDs, o.CheckID)
			continue
		}
		rows, err := affected(tx.Exec("INSERT INTO outcomes ("+outcomeColumns()+`) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,
			?14, ?15, ?16, ?17, nullif(?18, 0), ?19
			WHERE NOT EXISTS (SELECT 1 FROM outcomes WHERE check_id = ?2 AND step = ?5)
				AND CASE WHEN ?5 = 1 THEN ?6 = 1 OR ?7 = 'redeemed'
					ELSE EXISTS (SELECT 1 FROM outcomes WHERE check_id = ?2 AND step = ?5 - 1 AND CASE ?7
						WHEN 'redeemed' THEN false
						WHEN 'in_doubt' THEN status IN ('redeemed', 'taken_over')
						WHEN 'taken_over' THEN status IN ('redeemed', 'taken_over', 'in_doubt')
						ELSE number = ?6 - 1 AND (?6 = 1 OR ?16) END) END`,
			o.ID[:], o.CheckID[:], o.Fence.Node[:], o.Fence.Epoch[:], o.Step, o.Number, string(o.Status), string(o.Release),
			orNull(string(o.Excess)), amount,
			orNull(o.Reference), orNull(o.Note), o.KeyID, orNull(o.Principal), o.RequestID, o.MayRelease, hashOrNull(o.Replay),
			o.Fence.Stops, orNull(string(o.Payment.Append(nil)))))
		if err != nil {
			return err
		}
		if rows == 0 {
			known.CheckIDs = append(known.CheckIDs, o.CheckID)
		} else if err := noteStep(tx, o); err != nil {
			return err
		}
	}
	if known.CheckIDs != nil {
		return known
	}
	return nil
}

// PassStates implements audit.Passes.
func (s *Store) PassStates(ctx context.Context, ids []spend.ID) (map[spend.ID]audit.PassState, error) {
	states := make(map[spend.ID]audit.PassState, len(ids))
	err := each(ctx, s.reader, "cannot look up passes", func(row scanner) error {
		var id spend.ID
		var f audit.PassFacts
		err := row.Scan(blob(id[:]), &f.Allowed, &f.Asks, &f.Released, &f.Overdue)
		states[id] = f.State()
		return err
	}, "SELECT c.check_id, c.decision = 'allow', c.approval IS NOT NULL, c.claimed_ms IS NULL OR "+released+`,
			EXISTS (SELECT 1 FROM approval_deadlines AS d WHERE d.approval_id = c.check_id AND d.at <= ?)
		FROM checks AS c WHERE c.check_id IN (`+marks(len(ids))+")", append([]any{time.Now().UnixMilli()}, idArgs(ids)...)...)
	return states, err
}

// Outcomes implements audit.Trail.
func (s *Store) Outcomes(ctx context.Context, checkIDs []spend.ID) ([]*spend.Outcome, error) {
	return collect(ctx, s.reader, "cannot look up outcomes", scanOutcome,
		"SELECT "+outcomeColumns()+" FROM outcomes WHERE check_id IN ("+marks(len(checkIDs))+") ORDER BY check_id, step", idArgs(checkIDs)...)
}

// scanOutcome reads outcomeColumns.
func scanOutcome(row scanner) (*spend.Outcome, error) {
	o := new(spend.Outcome)
	err := row.Scan(blob(o.ID[:]), blob(o.CheckID[:]), blob(o.Fence.Node[:]), blob(o.Fence.Epoch[:]), &o.Step, &o.Number, (*string)(&o.Status),
		(*string)(&o.Release),
		(*text)(&o.Excess), orAbsent(&o.Amount, spend.ParseAmount), (*text)(&o.Reference), (*text)(&o.Note), &o.KeyID, (*text)(&o.Principal),
		&o.RequestID,
		&o.MayRelease, blob(o.Replay[:]), (*integer)(&o.Fence.Stops), sqlstore.Parse(&o.Payment, spend.ParseOutcomePayment))
	if err == nil && !o.Status.Known() && o.Status != spend.Redeemed && o.Status != spend.InDoubt && o.Status != spend.TakenOver {
		err = fmt.Errorf("unknown status %q", o.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("outcome of check %s: %w", o.CheckID.Text(spend.PrefixCheck), err)
	}
	return o, nil
}
