package auditcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"spendgate/audit/metric"
	"spendgate/audit/verify"
	"spendgate/cmd/spendgate/cli"
)

// errNothingVerified is the error of a verification of the whole trail that found no check.
var errNothingVerified = errors.New("NOTHING WAS VERIFIED: the trail holds no check; is this the right database, and the right schema?")

// tell prints the result. It returns an error unless everything is as it was recorded, as far as the
// verification can show.
func (v verification) tell(w io.Writer, s verify.Summary) error {
	checks := fmt.Sprintf("%d checks", s.Checks)
	if s.Outcomes > 0 {
		checks += fmt.Sprintf(", %d outcomes", s.Outcomes)
	}
	_, err := fmt.Fprintf(w, "verified %s and %d violations in %d batches of %d chains, and %d policies and %d keys by %d changes\n%s\n",
		checks, s.Violations, s.Batches, s.Chains, s.Policies, s.Keys, s.Changes, v.heldTo(s))
	if err != nil {
		return err
	}
	if s.Counters+s.CountersBeyond > 0 {
		counters := fmt.Sprintf("recomputed %d counters of budgets", s.Counters)
		if s.CountersBeyond > 0 {
			counters += fmt.Sprintf("; %d are unchecked: their windows reach out of the range", s.CountersBeyond)
		}
		if _, err := fmt.Fprintln(w, counters); err != nil {
			return err
		}
	}
	if s.Approvals > 0 {
		if _, err := fmt.Fprintf(w, "compared %d approvals with their checks and decisions\n", s.Approvals); err != nil {
			return err
		}
	}
	if !s.Clean() {
		return unclean(s)
	}
	if s.Checks == 0 && !v.ranged() {
		return errNothingVerified
	}
	_, err = fmt.Fprintln(w, "clean"+v.extent(s))
	return err
}

// heldTo says what the chains were compared with.
func (v verification) heldTo(s verify.Summary) string {
	against := "no checkpoints given: a chain whose end was cut off, or a whole chain that is gone, does not show"
	switch {
	case s.Checkpoints > 0:
		against = fmt.Sprintf("held to %d checkpoints, the last of %s", s.Checkpoints, stamp(s.LastCheckpoint))
	case len(v.files) > 0:
		against = "held to no checkpoint: the file has none with a signature of this key"
	}
	if s.TornCheckpoints > 0 {
		against += fmt.Sprintf("; %d lines of the file were not written to their end", s.TornCheckpoints)
	}
	return against
}

// extent says up to which time a clean verification vouches for the trail. Later records may have been
// cut off, or lost by a restore of the database, which the remaining rows do not show.
func (v verification) extent(s verify.Summary) string {
	acknowledged := ""
	if n := s.Findings[verify.Acknowledged]; n > 0 {
		acknowledged = fmt.Sprintf(", but for %d acknowledged losses", n)
	}
	if s.Checks == 0 {
		return acknowledged + ": no check was recorded there"
	}
	if s.Checkpoints == 0 {
		return fmt.Sprintf("%s as far as it can be told: what is there, up to the check of %s, "+
			"is as it was recorded. Without a checkpoint nothing tells whether more was",
			acknowledged, stamp(s.LastCheck))
	}
	if !s.LastCheck.After(s.LastCheckpoint) {
		return fmt.Sprintf("%s up to the checkpoint of %s: everything until then is as it was recorded. "+
			"Whether more was recorded later does not show",
			acknowledged, stamp(s.LastCheckpoint))
	}
	return fmt.Sprintf("%s up to the checkpoint of %s: everything until then is as it was recorded. What is there from later, "+
		"up to the check of %s, is too; "+
		"whether more was recorded later does not show", acknowledged, stamp(s.LastCheckpoint), stamp(s.LastCheck))
}

func unclean(s verify.Summary) error {
	var counts []string
	for kind, n := range s.Findings {
		counts = append(counts, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(counts)
	if s.Findings[verify.Unchecked] > 0 && len(s.Findings) == 1 {
		return errors.New("not all of the trail could be checked: " + counts[0])
	}
	return errors.New("the trail is not as it was recorded: " + strings.Join(counts, ", "))
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

const lastSuccessMetric = "spendgate_verify_last_success_timestamp_seconds"

// writeMetrics replaces a file for the textfile collector of Prometheus' node
// exporter. A verification that failed keeps the time of the last successful one.
func writeMetrics(path, deployment string, s verify.Summary, failed error, now time.Time) error {
	success := float64(now.Unix())
	if failed != nil {
		var err error
		if success, err = lastSuccess(path); err != nil {
			return err
		}
	}
	gatherer := prometheus.NewRegistry()
	with := metric.Of(cli.WithDeployment(gatherer, deployment), "verify")
	gauge := func(name, help string, value float64) { with.Gauge(name, help).Set(value) }
	gauge("last_run_timestamp_seconds", "When the audit trail was last verified, successfully or not, as Unix time.", float64(now.Unix()))
	gauge("last_success_timestamp_seconds", "When it was last found to be as recorded, as Unix time; 0 for never.", success)
	gauge("checks", "Checks that the last run compared with the hash chains.", float64(s.Checks))
	checkpoint := float64(0)
	if !s.LastCheckpoint.IsZero() {
		checkpoint = float64(s.LastCheckpoint.Unix())
	}
	gauge("checkpoint_timestamp_seconds",
		"Up to when the last run could vouch for the trail, as Unix time: the last checkpoint; 0 without any.", checkpoint)
	findings := with.Gauges("findings", "What the last run found, by kind.", "kind")
	for _, kind := range []verify.Kind{verify.Altered, verify.Removed, verify.Inserted, verify.Unchecked, verify.Acknowledged} {
		findings.WithLabelValues(string(kind)).Set(float64(s.Findings[kind]))
	}
	if err := prometheus.WriteToTextfile(path, gatherer); err != nil {
		return fmt.Errorf("cannot write the metrics: %w", err)
	}
	return nil
}

// lastSuccess reads the time of the last successful verification from the metrics of an earlier one; 0
// if there are none.
func lastSuccess(path string) (float64, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read the metrics of the run before: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(file)
	if err != nil {
		return 0, fmt.Errorf("cannot read the metrics of the run before: %w", err)
	}
	if f := families[lastSuccessMetric]; f != nil && len(f.Metric) == 1 {
		return f.Metric[0].GetGauge().GetValue(), nil
	}
	return 0, nil
}
