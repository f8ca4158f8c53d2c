// Package verify recomputes what the audit trail was committed with and names
// what is not as it was (G8): checks, violations and policies that were altered,
// removed or inserted, batches that were, chains that do not hold or end too
// early. What it cannot check it says, and then nothing is proved.
//
// Two walks go over one reading of the database, in parallel. One is over time:
// stretches of identifiers, in each of which the entries of all batches are
// compared with the rows. The other is over the chains: each batch's head follows
// from the head before. A signed checkpoint adds what a chain alone cannot
// show, that its end or the whole of it is missing.
package verify
