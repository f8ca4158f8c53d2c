package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"spendgate/hotpath/client"
)

// cut shortens a reference to what the service takes.
func cut(reference string) string {
	const most = 256 // characters (S39)
	characters := []rune(reference)
	return string(characters[:min(len(characters), most)])
}

// report reports the outcome of a check, and returns whether it is recorded. While the service
// does not answer, the report is repeated in the background, so that the agent need not wait.
func (c *mappedCall) report(checkID string, report client.OutcomeReport) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), hurry)
	defer cancel()
	if recorded, again := c.gw.reported(ctx, checkID, report); !again {
		return recorded
	}
	c.s.calls.Go(func() {
		end := time.Now().Add(reportTimeout)
		for pause := time.Second; time.Now().Before(end); pause = min(2*pause, 30*time.Second) {
			time.Sleep(pause)
			ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
			_, again := c.gw.reported(ctx, checkID, report)
			cancel()
			if !again {
				return
			}
		}
	})
	return false
}

// reported sends a report. It returns whether the report is recorded and, if not, whether it
// should be sent again.
func (g *Gateway) reported(ctx context.Context, checkID string, report client.OutcomeReport) (recorded, again bool) {
	_, err := g.api.ReportOutcome(ctx, checkID, report)
	if err == nil {
		return true, false
	}
	refused, ok := errors.AsType[*client.Error](err)
	g.metrics.unrecorded.Inc()
	final := ok && refused.Status/100 == 4 && refused.Status != http.StatusTooManyRequests
	plain := client.OutcomeReport{Status: report.Status, UnlessInDoubt: report.UnlessInDoubt}
	unfit := ok && (refused.Status == http.StatusBadRequest || refused.Status == http.StatusUnprocessableEntity) && report != plain
	g.log.Error("what became of a check was not recorded", "check_id", checkID, "status", report.Status, "reference", report.Reference,
		"again", !final || unfit, "error", err)
	if unfit { // a text of a server's that the service refuses must not prevent the report
		return g.reported(ctx, checkID, plain)
	}
	return false, !final
}
