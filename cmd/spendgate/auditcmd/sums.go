package auditcmd

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"strconv"
	"time"

	"spendgate/audit"
	"spendgate/audit/export"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/cmd/spendgate/cli"
	"spendgate/hotpath/policy"
)

func auditSumsCommand() cli.Command {
	return cli.Command{
		Name: "sums", Summary: "sum up what passed, by policy, budget, agent and day, against the limits", Setup: auditSums,
		Details: "Recomputed from the recorded checks and their outcomes, not read from counters: what was given back is not in it. Lines\n" +
			"without a budget are of the policy as a whole. WINDOW is what the budget's window holds at the end of the day, over all\n" +
			"agents; of a rolling window the most that it held on the day. APPROVED passed by an approval. Days are UTC, or of --time-zone.\n" +
			"Reads the database of SPENDGATE_DATABASE_URL, or with --data-dir that of a single node, from its beginning.\n" +
			"Fails, having printed, if archived days are absent or the record is not as it was written.",
	}
}

func auditSums(flags *flag.FlagSet) cli.Action {
	var of export.SumsOf
	from, to := cli.TimeFlag{}, cli.TimeFlag{Last: true}
	format := ""
	flags.Func("policy-id", "only of the policy `ID`", cli.NotEmpty(&of.PolicyID))
	flags.Func("agent-id", "only of the agent `ID`", cli.NotEmpty(&of.AgentID))
	flags.Func("time-zone", "days of the `ZONE`, such as Europe/Berlin, also in --from and --to", func(name string) (err error) {
		if of.Zone, err = policy.LoadZone(name); err != nil {
			return errors.New("must be the name of a time zone, such as Europe/Berlin")
		}
		return nil
	})
	flags.Var(&from, "from", "only days from this `DATE` on; of a time its whole day")
	flags.Var(&to, "to", "only days up to this `DATE`, all of it, or up to a time")
	flags.Func("format", "`FORMAT`: table, which is the default, csv or jsonl", func(text string) error {
		if format = text; format != "table" && format != string(export.CSV) && format != string(export.JSONL) {
			return errors.New("must be table, csv or jsonl")
		}
		return nil
	})
	bom := flags.Bool("bom", false, "begin a csv file with a byte order mark: Excel needs it to read UTF-8 when such a file is opened")
	archives := flags.String("archive", "", "the archives of what was detached are in `DIR`")
	dataDir := flags.String("data-dir", "", "read the single node whose SPENDGATE_DATA_DIR is `DIR`, which may be running")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		if of.Zone != nil {
			from.In(of.Zone)
			to.In(of.Zone)
		}
		if *bom && format != string(export.CSV) {
			return cli.UsageError{Text: "--bom goes with --format csv"}
		}
		if !to.At.IsZero() && to.At.Before(from.At) {
			return cli.UsageError{Text: "--from must not be later than --to"}
		}
		record, done, err := openRecord(ctx, p, *dataDir, exportConnections)
		if err != nil {
			return err
		}
		defer done()
		var days verify.Range
		days.Low, days.High = audit.ViolationQuery{From: from.At, To: to.At}.IDRange()
		left, err := unfold(ctx, record, *archives, days)
		if err != nil {
			return err
		}
		o := export.Options{Record: left, From: from.At, To: to.At, Format: export.Format(format), BOM: *bom, Archives: *archives, Sums: of}
		o.Batches = left.batches
		if format == "" || format == "table" {
			return writeSums(ctx, p, o)
		}
		out := bufio.NewWriterSize(p.Stdout, 1<<16)
		err = export.WriteSums(ctx, out, o)
		return errors.Join(out.Flush(), err)
	}
}

// writeSums prints a table.
func writeSums(ctx context.Context, p cli.Process, o export.Options) error {
	var found []export.Sum
	err := export.Sums(ctx, o, func(s *export.Sum) error {
		found = append(found, *s)
		return nil
	})
	headings := []string{
		"DAY", "POLICY", "BUDGET", "PER", "AGENT", "CHECKS", "AMOUNT", "APPROVED", "WINDOW FROM", "WINDOW", "LIMIT", "STATE",
	}
	return errors.Join(cli.WriteTable(p.Stdout, headings, found, func(s *export.Sum) []string {
		currency := spend.Printable(s.Currency)
		amount, approved := "-", "-"
		if currency != "" {
			amount, approved = s.Amount.Money(currency), s.Approved.Money(currency)
		}
		budget, per, window, start, limits, state := "-", "-", "-", "-", "-", "-"
		if s.RuleID != "" {
			budget, per, window = s.RuleID, s.Per, strconv.FormatInt(s.WindowChecks, 10)
			if currency != "" {
				window = s.WindowAmount.Money(currency) + " in " + window
			}
			limits, state = limitText(s), "within"
			if s.Above() {
				state = "above"
			}
		}
		if !s.WindowStart.IsZero() {
			start = s.WindowStart.UTC().Format(time.RFC3339)
		}
		return []string{
			s.Day, s.PolicyID, budget, per, s.AgentID, strconv.FormatInt(s.Checks, 10), amount, approved, start, window, limits, state,
		}
	}), err)
}

func limitText(s *export.Sum) string {
	text := ""
	if s.Limit != nil {
		text = s.Limit.Money(spend.Printable(s.Currency))
		if !s.Granted.Used.IsZero() {
			text += " + " + s.Granted.Used.Money(spend.Printable(s.Currency))
		}
	}
	if s.MaxCount != nil {
		text += " in " + strconv.FormatInt(*s.MaxCount, 10)
		if s.Granted.Count > 0 {
			text += " + " + strconv.FormatInt(s.Granted.Count, 10)
		}
	}
	return text
}
