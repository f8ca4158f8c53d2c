// Package equivalent says the benchmark's policies in the languages of other
// engines: Rego and Cerbos' YAML. They decide alike on everything that the
// workload sends, which the benchmarks show before they measure.
//
// Each is written the way that is cheapest for its engine, as far as that was
// found: Rego as one chain that ends at the first rule that fires, Cerbos as
// one rule for all that blocks. Two things that spendgate does are left out, because the
// engines keep no state: the duplicate guard, and the record.
package equivalent
