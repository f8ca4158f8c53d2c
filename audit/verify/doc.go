// Package verify recomputes the hashes that the audit trail was committed with and names
// what differs (G8): checks, violations, policies and batches that were altered,
// removed or inserted, and chains that are broken or end too
// early. It also names what it cannot check; then nothing is proved.
//
// Two passes read one snapshot of the database, in parallel. The first goes by time:
// for each range of identifiers it compares the entries of all batches
// with the rows. The second goes along the chains: the head of each batch must follow
// from the head before. A signed checkpoint shows what a chain alone cannot:
// that its end or the whole chain is missing.
package verify
