// Package policy compiles a policy's rules into a Program and judges actions
// by it. A Program is immutable and safe for concurrent use; Evaluate is pure,
// does no IO and allocates nothing. The package knows no other of the module
// but hotpath/spend.
//
// # Reading order
//
// rules.go has the table of the ten rule types: what each decides, which
// action types it judges, which optional field it reads. Each type then has
// its own file, rules_<type>.go, with everything about it: its compiled form,
// its parameters, its condition and its words. compile.go and object.go read
// the JSON and report every fault at once, program.go judges, explain.go
// words the decision.
//
// Judging and wording are apart: Evaluate answers a small Finding without a
// string built, and Explain, called for the one finding that is answered,
// renders the texts.
//
// # Evaluation
//
// The rules are tried from top to bottom. The first block ends it; the first
// escalation is kept in case no block follows (S14). The duplicate_guard rules
// are no part of it: they only set Window, which the guard applies before any
// rule is tried (S17), and Duplicate words its hit.
//
// # Where the contract is silent
//
//   - Surrounding white space is no part of a category or a payment rail, in
//     the list or in the request: " crypto" does not slip past a block of
//     "crypto". Vendors compare exactly, byte for byte: an allowlist is safe
//     when it is strict.
//   - "Without regard to case" is Unicode's simple case folding, the equality
//     of strings.EqualFold. It neither normalises (é in one or two code points)
//     nor expands (ß is not ss).
//   - Amounts compare by figure. A max_amount without a currency and every
//     escalate_if hold for the figure in whatever currency the action has.
//   - A null or blank optional parameter is absent, a null or blank required
//     one is missing; a null or blank list entry is a fault. An empty
//     action_types is a fault too and never means "all".
//   - on_missing is accepted only by the rules that read an optional field:
//     refund_age_limit, blocked_categories, blocked_payment_rails,
//     discount_cap, geography_block. The explicit "skip" lowers an allow's
//     confidence as the implicit one does (S16).
//   - on_missing asks only of the action types that the rule judges: a credit
//     needs no days_since_purchase.
//   - Day names and on_missing are lower-case, hours are two digits each.
//     24:00 may not open a window; 00:00-24:00 is the whole day, and
//     22:00-00:00 is 22:00-24:00.
//   - A window that crosses midnight belongs to the day on which it opened: with
//     allowed_days [fri], 22:00-06:00 runs from Friday to Saturday morning, and
//     Friday at 03:00 is outside.
//   - Of duplicate_guard rules with equal windows, the first is reported.
//   - An escalate_if that names all four action types, in any order and however
//     often, does not depend on the type (S16).
//   - At most 100 faults are reported for one policy.
package policy
