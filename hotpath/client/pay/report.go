package pay

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"spendgate/audit/spend"
	"spendgate/hotpath/client"
)

const (
	reportAtOnce = 3 * time.Second // before the caller gets its answer
	reportOnce   = 20 * time.Second
	reportFor    = 15 * time.Minute
	mostText     = 256 // characters of a reference (S39)
)

// report reports how a body ended, and returns how the call ended.
func (c *call) report(ctx context.Context, permit Permit, end End) Result {
	if end.Outcome == Unsent && permit.TakenOver {
		end.Outcome = Unknown // the former holder may have sent it
	}
	report := client.OutcomeReport{Note: end.Note, RedemptionID: permit.RedemptionID}
	r := Result{State: Ran}
	switch end.Outcome {
	case Executed:
		report.Status, report.Amount, report.Reference = string(spend.Executed), end.Amount, fit(end.Reference)
	case Declined:
		r.State, report.Status = Rejected, string(spend.Failed)
	case Unsent:
		r.State, report.Status = Error, string(spend.Voided)
	default:
		c.doubt(permit, end.Note)
		r.State = InDoubt
	}
	if end.Note != "" {
		r.Err = errors.New(end.Note)
	}
	if report.Status == "" {
		return r
	}
	if refused := c.deliver(context.WithoutCancel(ctx), permit.CheckID, report); refused != nil {
		return Result{State: InDoubt, Err: refused} // somebody else has reported the contrary, or took over
	}
	return r
}

// doubt says that it is unknown what became of a payment. If that fails, the service says so by itself later.
func (c *call) doubt(permit Permit, note string) {
	ctx, cancel := context.WithTimeout(context.Background(), reportAtOnce)
	defer cancel()
	if _, err := c.api.ReportInDoubt(ctx, permit.CheckID, client.Doubt{Note: note, RedemptionID: permit.RedemptionID}); err != nil {
		c.log.Warn("what is in doubt was not recorded; the service does it by itself", "check_id", permit.CheckID, "error", err)
	}
}

// deliver sends a report, and repeats it in the background while the service does not answer. It returns the service's refusal.
func (c *call) deliver(ctx context.Context, checkID string, report client.OutcomeReport) error {
	ctx, cancel := context.WithTimeout(ctx, reportAtOnce)
	defer cancel()
	again, refused := c.send(ctx, checkID, report)
	if !again {
		return refused
	}
	c.background.Go(func() {
		end := time.Now().Add(reportFor)
		for wait := time.Second; again && time.Now().Before(end); wait = min(2*wait, 30*time.Second) {
			time.Sleep(wait)
			ctx, cancel := context.WithTimeout(context.Background(), reportOnce)
			again, _ = c.send(ctx, checkID, report)
			cancel()
		}
	})
	return nil
}

// send sends a report. It returns whether the report should be sent again, or why the service refused it.
func (c *call) send(ctx context.Context, checkID string, report client.OutcomeReport) (again bool, refusal error) {
	_, err := c.api.ReportOutcome(ctx, checkID, report)
	if err == nil {
		return false, nil
	}
	refused, ok := errors.AsType[*client.Error](err)
	foreign := ok && refused.Latest != nil && refused.Latest.CheckID != checkID // the answer is to another request
	final := ok && refused.Definite() && refused.Status != http.StatusTooManyRequests && !foreign
	plain := client.OutcomeReport{Status: report.Status, RedemptionID: report.RedemptionID, Supersedes: report.Supersedes}
	switch {
	case final && refused.Latest != nil && refused.Latest.Status == report.Status:
		return false, nil
	case final && refused.Latest != nil && report.Status == string(spend.Executed) && report.Supersedes != refused.Latest.Report:
		report.Supersedes = refused.Latest.Report // the money moved, whatever was reported meanwhile
		return c.send(ctx, checkID, report)
	case final && (refused.Status == http.StatusBadRequest || refused.Status == http.StatusUnprocessableEntity) && report != plain:
		return c.send(ctx, checkID, plain) // a text that the service does not take must not prevent the report
	}
	c.unreported()
	c.log.Error("what became of a check was not recorded", "check_id", checkID, "status", report.Status, "reference", report.Reference,
		"again", !final, "error", err)
	if final {
		return false, err
	}
	return true, nil
}

// fit returns a reference, or nothing if the service does not take it.
func fit(reference string) string {
	if !utf8.ValidString(reference) || utf8.RuneCountInString(reference) > mostText || strings.ContainsRune(reference, 0) {
		return ""
	}
	return reference
}

// LooksFailed reports whether the text of a result looks like that of an error: whether such a payment was carried out is in
// doubt, unless the guard was told how results that mean "nothing moved" look.
func LooksFailed(result string) bool {
	const longest = len("failed")
	text := strings.TrimSpace(result)
	text = strings.ToLower(text[:min(len(text), longest)])
	return strings.HasPrefix(text, "error") || text == "failed"
}
