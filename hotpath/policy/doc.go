// Package policy compiles a policy's rules into a Program and evaluates actions
// by it. A Program is immutable and safe for concurrent use; Evaluate is pure,
// does no IO and allocates nothing. Of the module the package imports only
// audit/spend.
//
// # Reading order
//
// rules.go has the table of the twelve rule types: what each decides, which
// action types it judges, which fields it reads. Each type then has
// its own file, rules_<type>.go, with everything about it: its compiled form,
// its parameters, its condition and its texts. compile.go and object_reader.go read
// the JSON and report every fault at once, program.go evaluates, explain.go
// renders the texts of the decision.
//
// Evaluate returns a small Finding without building a string; Explain, called
// only for the finding that is answered, renders the texts.
//
// # Evaluation
//
// The rules are tried from top to bottom. The first block ends the evaluation; the first
// escalation is kept in case no block follows (S14). The duplicate_guard rules
// are not evaluated here: they only set Window, which the guard applies before any
// rule is tried (S17), and Duplicate renders its hit.
//
// Budgets are not evaluated here either, since they depend on counters, which
// the package does not see: Charges returns what an action takes from which counters,
// Uncovered and Exceeded complete the finding. budget.go has these functions, budget_window.go
// the windows, budget_explain.go the texts.
//
// docs/use/rules.md describes the rule types for users, and the decisions where the
// contract leaves something open.
package policy
