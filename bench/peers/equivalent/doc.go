// Package equivalent writes the benchmark's policies in the languages of other
// engines: Rego and Cerbos' YAML. All decide alike on every action of the
// workload, which the benchmarks check before they measure.
//
// Each policy is written in the cheapest way that was found for its engine:
// Rego as one chain that ends at the first rule that fires, Cerbos as
// one rule for all blocks. The duplicate guard and the record are left out, because these
// engines keep no state.
package equivalent
