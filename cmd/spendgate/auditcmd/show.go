package auditcmd

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/archive"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/cmd/spendgate/checkreport"
	"spendgate/cmd/spendgate/cli"
)

func auditShowCommand() cli.Command {
	return cli.Command{
		Name: "show", Args: "CHECK_ID", Summary: "print one check as a person reads it", Setup: auditShow,
		Details: "What was decided, what was asked, the rule that fired and what it looked at, and whether the record is as it was\n" +
			"written. Reads the database of SPENDGATE_DATABASE_URL, or with --data-dir that of a single node, which may be running.\n" +
			"Fails if the record was altered.",
	}
}

func auditShow(flags *flag.FlagSet) cli.Action {
	asJSON := flags.Bool("json", false, "print it as JSON")
	archives := flags.String("archive", "", "look in the archives in `DIR`, too")
	dataDir := flags.String("data-dir", "", "read the single node whose SPENDGATE_DATA_DIR is `DIR`")
	return func(ctx context.Context, p cli.Process, args []string) error {
		if len(args) != 1 {
			return cli.UsageError{Text: "needs one CHECK_ID"}
		}
		id, err := spend.ParseID(args[0], spend.PrefixCheck)
		if err != nil {
			return cli.UsageError{Text: noCheckID(args[0])}
		}
		record, done, err := openRecord(ctx, p, *dataDir, 1)
		if err != nil {
			return err
		}
		defer done()
		source := "PostgreSQL"
		if *dataDir != "" {
			source = filepath.Join(*dataDir, cli.StoreFile)
		}
		r, absent, err := reportOf(ctx, record, source, *archives, id)
		if err != nil {
			return err
		}
		if *asJSON {
			err = r.WriteJSON(p.Stdout)
		} else {
			err = r.Write(p.Stdout)
		}
		if len(absent) > 0 {
			err = errors.Join(err, fmt.Errorf("the archives of the batches of %s are not at hand: give --archive with the folder where these are",
				days(absent)))
		}
		if r.Chain.Compared && !r.Chain.Holds {
			err = errors.Join(err, errors.New("the record is not as it was written: see audit verify"))
		}
		return err
	}
}

// days returns the names of the days, in order and each once.
func days(all []verify.Day) string {
	slices.Sort(all)
	var names []string
	for _, day := range slices.Compact(all) {
		names = append(names, day.String())
	}
	return strings.Join(names, ", ")
}

// noCheckID explains which identifier to give instead.
func noCheckID(text string) string {
	const form = "a CHECK_ID is chk_ and 32 lower-case hexadecimal digits"
	if id, err := spend.ParseID(text, spend.PrefixViolation); err == nil {
		return form + "; the check of that violation is " + id.Text(spend.PrefixCheck)
	}
	return form
}

// place is where the chain lists a check, and how.
type place struct {
	verify.Place // its Seq is 0 when no batch lists it
	entry        chain.Entry
	broken       bool // the batch's head does not follow from its entries and the head before
}

// judge returns what the chain shows about a row.
func (at place) judge(row spend.Hash) checkreport.Chain {
	c := checkreport.Chain{ID: at.Chain, Seq: at.Seq, Compared: true, Holds: at.Seq > 0 && !at.broken && row == at.entry.Row}
	switch {
	case at.Seq == 0:
		c.State = "INSERTED: no batch lists it"
	case at.broken:
		c.State = "ALTERED: the batch does not follow from the one before it"
	case c.Holds:
		c.State = "the row is the one that the batch lists"
	default:
		c.State = "ALTERED: the row is not the one that the batch lists"
	}
	return c
}

// reportOf reads a record, and the archives of rows that were detached from it. It also returns
// the days whose archives of batches are missing and may contain records about the check.
func reportOf(ctx context.Context, of record, source, archives string, id spend.ID) (*checkreport.Report, []verify.Day, error) {
	l := &lookup{record: of, source: source, archives: archives, id: id}
	var err error
	if l.chains, err = unfold(ctx, of, archives, verify.Range{Low: id, High: id}); err != nil {
		return nil, nil, err
	}
	r, err := l.report(ctx)
	return r, l.absent, err
}

func (l *lookup) report(ctx context.Context) (*checkreport.Report, error) {
	id := l.id
	at, err := l.place(ctx)
	if err != nil {
		return nil, err
	}
	row, source, err := l.row(ctx, at.Seq > 0)
	if err != nil {
		return nil, err
	}
	r := &checkreport.Report{Source: source, Chain: at.judge(chain.HashRow(row))}
	if r.Check, err = chain.ParseCheck(row); err != nil {
		return nil, fmt.Errorf("the record of %s cannot be read: %w", id.Text(spend.PrefixCheck), err)
	}
	readMetadata(&r.Check.Action)
	if l.absent = append(l.absent, l.lacking(at.Seq > 0, r.Check.Fence.Node, id)...); len(l.absent) > 0 && at.Seq == 0 {
		r.Chain.Compared = false
		r.Chain.State = "NOT COMPARED: the archive that may have the batch which lists it is not at hand"
	}
	if r.Outcomes, err = l.outcomes(ctx); err != nil {
		return nil, err
	}
	if asked := checkreport.ApprovalID(r.Check); !asked.IsZero() {
		if r.Approval, err = optional(l.record.Approval(ctx, asked)); err != nil {
			return nil, err
		}
		l.addTerms(ctx, r)
	}
	if r.Policy, err = l.policy(ctx, r.Check.Action.PolicyID, r.Check.Decision.PolicyVersion); err != nil {
		return nil, err
	}
	r.KeyName, err = l.keyName(ctx, r.Check.KeyID)
	return r, err
}

// policy returns a version of a policy; nil if there is none.
func (l *lookup) policy(ctx context.Context, policyID string, version int) (found *audit.Policy, err error) {
	versions := verify.Walk{Table: chain.Policies(), By: "policy_id", Text: policyID, Order: "version"}
	err = l.record.Walk(ctx, versions, func(row []byte) error {
		fields, err := chain.ParseFields(nil, row)
		if err != nil || chain.Integer(fields[chain.Policies().Index("version")]) != int64(version) {
			return err
		}
		found = &audit.Policy{PolicyID: policyID, Version: version}
		for column, into := range map[string]*string{
			"name": &found.Name, "description": &found.Description, "rules": &found.Rules, "metadata": &found.Metadata,
		} {
			*into = string(fields[chain.Policies().Index(column)])
		}
		found.CreatedAt, _ = chain.Time(fields[chain.Policies().Index("created_at")])
		found.UpdatedAt, _ = chain.Time(fields[chain.Policies().Index("updated_at")])
		return nil
	})
	return found, err
}

// keyName returns the name of an API key; empty if there is no such key.
func (l *lookup) keyName(ctx context.Context, keyID string) (name string, err error) {
	id, bad := spend.ParseID(keyID, spend.PrefixKey)
	if bad != nil {
		return "", nil //nolint:nilerr // the admin key, and what else is no key of the record
	}
	one := verify.Walk{Table: chain.Keys(), By: "id", Range: verify.Range{Low: id, High: id}, Order: "id"}
	err = l.record.Walk(ctx, one, func(row []byte) error {
		fields, err := chain.ParseFields(nil, row)
		if err == nil {
			name = string(fields[chain.Keys().Index("name")])
		}
		return err
	})
	return name, err
}

// addTerms adds the terms of the escalated check to its approval, whose own row has only a part of
// them. If the check cannot be read, or its archive is missing, they are left out.
func (l *lookup) addTerms(ctx context.Context, r *checkreport.Report) {
	asker := r.Check
	if r.Approval != nil && r.Approval.Check.ID != asker.ID {
		of := &lookup{record: l.record, source: l.source, chains: l.chains, archives: l.archives, id: r.Approval.Check.ID}
		row, _, err := of.row(ctx, true)
		if err != nil {
			return
		}
		if asker, err = chain.ParseCheck(row); err != nil {
			return
		}
	}
	if r.Approval != nil && asker.Approval != nil {
		r.Approval.Check.Approval.From, r.Approval.Check.Approval.ExcludeAuthor = asker.Approval.From, asker.Approval.ExcludeAuthor
	}
}

// readMetadata reads the keys that rules use from the metadata's text, unless the text was altered to
// one that could never have been stored.
func readMetadata(a *spend.Action) {
	if a.Metadata.JSON == "" {
		return
	}
	var faults spend.Faults
	if m := spend.ParseMetadata(a.Metadata.JSON, "metadata", &faults); faults == nil {
		a.Metadata = m
	}
}

// lookup finds a check.
type lookup struct {
	record   record
	source   string   // what the record is
	chains   unfolded // the record, with the detached batches
	archives string   // a folder; empty for none
	id       spend.ID
	absent   []verify.Day // missing archives of batches that may contain records about it
}

// lacking returns the days whose missing archives may have the batch of a row.
func (l *lookup) lacking(listed bool, node, id spend.ID) []verify.Day {
	if listed {
		return nil
	}
	return l.chains.batches.Blind(node, id)
}

func (l *lookup) place(ctx context.Context) (at place, err error) {
	if at, err = l.listed(ctx); err != nil || at.Seq == 0 {
		return at, err
	}
	previous := verify.Place{Chain: at.Chain, Seq: at.Seq - 1}
	heads, _, err := l.chains.Heads(ctx, []verify.Place{previous})
	if err != nil {
		return at, err
	}
	before, is := heads[previous] // zero if there is no batch before
	at.broken = true
	err = l.chains.Chain(ctx, at.Chain, at.Seq, at.Seq, func(b verify.Batch) error {
		head := chain.HashBatch(at.Chain, b.Seq, before, b.Entries)
		at.broken = !is && at.Seq > 1 || !bytes.Equal(head[:], b.Head)
		return nil
	})
	return at, err
}

// listed finds the batch that lists the check.
func (l *lookup) listed(ctx context.Context) (at place, err error) {
	err = l.chains.Batches(ctx, verify.Range{Low: l.id, High: l.id}, func(b verify.Batch) error {
		if e, is := entryOf(b, l.id); is {
			at = place{Place: verify.Place{Chain: b.Chain, Seq: b.Seq}, entry: e}
		}
		return nil
	})
	return at, err
}

// entryOf returns a batch's entry for a check or an outcome. A batch that cannot be read has no
// entries; audit verify names it.
func entryOf(b verify.Batch, id spend.ID) (found chain.Entry, is bool) {
	entries, err := chain.ParseEntries(b.Entries)
	if err != nil {
		return found, false
	}
	for _, e := range entries {
		if e.ID == id {
			found, is = e, true
		}
	}
	return found, is
}

// outcomes returns the outcomes of the check, with the texts that were detached with their batches.
func (l *lookup) outcomes(ctx context.Context) ([]*spend.Outcome, error) {
	var all []*spend.Outcome
	err := l.record.Walk(ctx, verify.Steps(verify.Range{Low: l.id, High: l.id}), func(row []byte) error {
		o, err := chain.ParseOutcome(bytes.Clone(row))
		all = append(all, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	texts := make(verify.Texts)
	for _, o := range all {
		listed := false
		err := l.chains.Batches(ctx, verify.Range{Low: o.ID, High: o.ID}, func(b verify.Batch) error {
			_, is := entryOf(b, o.ID)
			listed = listed || is
			texts.Read(b.Texts)
			return nil
		})
		if err != nil {
			return nil, err
		}
		l.absent = append(l.absent, l.lacking(listed, o.Fence.Node, o.ID)...)
		texts.Add(o)
	}
	return all, nil
}

// row finds the check's row and its source. listed says whether a batch lists the check.
func (l *lookup) row(ctx context.Context, listed bool) (row []byte, source string, err error) {
	one := verify.Range{Low: l.id, High: l.id}
	err = l.record.Rows(ctx, one, func(found []byte) error {
		row = append(row, found...)
		return nil
	})
	if err != nil || row != nil {
		return row, l.source, err
	}
	overview, err := l.record.Overview(ctx, one)
	if err != nil {
		return nil, "", err
	}
	name, day := l.id.Text(spend.PrefixCheck), verify.DayOf(l.id)
	_, archived := overview.Archived[day]
	switch {
	case archived && l.archives != "":
		return l.archived()
	case archived:
		return nil, "", fmt.Errorf("%s is in the archive of %s: give --archive with the folder where that is", name, day)
	case listed:
		return nil, "", fmt.Errorf("%s was recorded, for a batch lists it, and is not there: see audit verify", name)
	default:
		return nil, "", fmt.Errorf("%s is not in the record", name)
	}
}

// archived reads the day's archive to the end: only then is it known whether the files are
// complete.
func (l *lookup) archived() (row []byte, source string, err error) {
	a, err := archive.Open(l.archives, archive.ChecksOf(l.id.Time().Truncate(24*time.Hour)))
	if err != nil {
		return nil, "", err
	}
	for found, err := range a.All() {
		if err != nil {
			return nil, "", err
		}
		if archive.ID(found) == l.id {
			row = append(row[:0], found...)
		}
	}
	if row == nil {
		return nil, "", fmt.Errorf("%s is not in %s", l.id.Text(spend.PrefixCheck), a.Path())
	}
	return row, a.Path(), nil
}
