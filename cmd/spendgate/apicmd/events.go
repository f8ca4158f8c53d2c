package apicmd

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"time"

	"spendgate/audit/pause"
	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/hotpath/client"
)

const eventsNeed = "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_API_KEY, a key with events:read."

func eventsCommand() cli.Command {
	return cli.Command{
		Name: "events", Summary: "follow what happens", Details: eventsNeed,
		Sub: []cli.Command{{
			Name: "tail", Summary: "print events of the last ten minutes, and then each as it happens", Setup: eventsTail,
			Details: eventsNeed + "\nEnds when it is interrupted. With --output json each event is a line, whose sequence --after takes.",
		}},
	}
}

func eventsTail(flags *flag.FlagSet) cli.Action {
	var q client.EventQuery
	flags.Int64Var(&q.After, "after", 0, "begin behind the event of the sequence `N`")
	flags.StringVar(&q.From, "from", "", "begin with the first event from `TIME` on: RFC 3339, or a date")
	flags.StringVar(&q.Type, "type", "", "only events of the `TYPE`, such as approval.requested; some with commas between them")
	once := flags.Bool("no-follow", false, "end with the latest event")
	asJSON := cli.OutputFlag(flags)
	return func(ctx context.Context, p cli.Process, _ []string) error {
		api, err := cli.KeyAPI(p)
		if err != nil {
			return err
		}
		const back = 10 * time.Minute
		if q.After == 0 && q.From == "" {
			q.From = time.Now().Add(-back).UTC().Format(time.RFC3339)
		}
		q.Limit = 100
		for {
			asked := time.Now()
			page, err := api.Events(ctx, q)
			if ctx.Err() != nil && !*once {
				return nil // an interrupt is the normal end
			}
			if err != nil {
				return err
			}
			for i := range page.Data {
				if err := writeEvent(p, &page.Data[i], *asJSON); err != nil {
					return err
				}
			}
			if q.After = page.NextAfter; page.HasMore {
				continue
			}
			if *once {
				return nil
			}
			if q.Wait > 0 && len(page.Data) == 0 && time.Since(asked) < time.Second { // too many readers wait: the answer was not held
				_ = pause.For(ctx, time.Second)
			}
			q.Wait = client.MaxApprovalWait
		}
	}
}

func writeEvent(p cli.Process, e *client.Event, asJSON bool) error {
	if asJSON {
		var line bytes.Buffer
		if err := json.Compact(&line, e.Body); err != nil {
			return fmt.Errorf("not JSON: %w", err)
		}
		line.WriteByte('\n')
		_, err := p.Stdout.Write(spend.AppendPrintableJSON(nil, line.Bytes()))
		return err
	}
	_, err := fmt.Fprintf(p.Stdout, "%-8d %s %-24s %s\n", e.Sequence, e.Timestamp, spend.Printable(e.Type), eventText(e.Data))
	return err
}

// eventText describes the source of an event.
func eventText(data json.RawMessage) string {
	var said map[string]any
	if json.Unmarshal(data, &said) != nil {
		return "-"
	}
	var texts []string
	for _, name := range []string{
		"approval_id", "violation_id", "outcome_id", "check_id", "key_id", "policy_id", "agent_id", "decision", "status", "rule_id",
		"violated_rule_id",
	} {
		if text, ok := said[name].(string); ok {
			texts = append(texts, name+"="+spend.Printable(text))
		}
	}
	return strings.Join(texts, " ")
}
