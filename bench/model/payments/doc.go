// Package payments searches the protocol of payments (S84, G16) exhaustively, as package model does that of
// claims: every order in which guards, nodes, the store, the service and people can take their steps, and
// every fault between two of them, within small bounds.
//
// There is one payment of the callers, with checks, approvals and rounds, and one payment of an executor who redeems
// by id. The row's version is a number only where the payment can be removed: whoever read the row knows whether it
// changed since. A node reads, decides and commits; nothing else carries safety, so that Redis, claims and
// fingerprints are left out. A request lives on without its node, its caller, and its answer: that is a crash, a late
// delivery, or a lost commit.
//
// The promises are those of promises.go, and:
//
//   - the money moves once in a round, if nobody reports what is not true
//   - an allowed check that nobody redeemed is the payment's current one
//   - from every state the payment can become executed or free, and budgets hold only what was executed
//
// What the first of these rests on, beside the service; each has its mutation:
//
//   - a provider that takes the execution_id answers it as it did at first, also where it declined
//   - the execution_id counts checks that were ever reported executed or failed. Voided keeps it: so guards and people
//     report failed only what the provider declined
//   - a guard whose provider does not take the execution_id begins no body once a call is so old that the check may be
//     in doubt; and whoever reports such a check voided knows that no body is still running
//
// Otherwise time is left out: a check may lapse or be in doubt at any moment. So are freezes, the duplicate window,
// the hours of take-overs (a provider remembers longer), and blocks.
//
// One rule is stricter here than in the service: execution_ids count the checks that were ever reported executed or
// failed. The service counts redeemed checks, as S84 says, so a restore that lost an attempt which was given back
// can pay twice, and so can a taker that reports as failed what never reached the provider: the mutation
// ExecutionByRedemption is the service.
package payments
