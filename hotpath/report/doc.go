// Package report holds what a comparison of two judgements of the same checks says: how
// they were decided as recorded, and how a candidate would have decided them. The same
// comparisons in the same order make the same bytes: nothing in a Report is of a clock,
// and nothing names the work that made it.
package report
