// Package backtest replays recorded checks by the rules of a candidate: in their order,
// at their own timestamps, with duplicate windows, budgets, approvals and outcomes. It is
// pure: it reads no clock and no store, and the same records make the same Report.
//
// Each check is judged twice, first by the version that judged it, with the state that
// history had. If this does not give the recorded decision, the order of the records
// is not the order in which they were decided, or something is not on record; then the
// check is skipped, and the skip is counted by its reason. All other checks are judged by the
// candidate, and both decisions are compared.
package backtest
