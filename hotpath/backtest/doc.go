// Package backtest replays recorded checks by the rules of a candidate: in their order,
// at their own timestamps, with duplicate windows, budgets, approvals and outcomes. It is
// pure: it reads no clock and no store, and the same records make the same Report.
//
// Each check is judged twice. Once by the version that judged it, with the state that
// history had: if that does not give the recorded decision, the order of the records
// is not the order in which they were decided, or something is not on record, and the
// check is skipped, by reason. Only what is explained so is compared with the candidate.
package backtest
