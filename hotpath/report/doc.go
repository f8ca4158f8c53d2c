// Package report has the results of comparing two judgements of the same checks: the
// recorded decisions, and the decisions that a candidate would have made. The same
// comparisons in the same order make the same bytes: a Report contains no time of a clock
// and does not name the job that made it.
package report
