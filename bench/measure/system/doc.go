// Package system measures a deployment of spendgate as in production:
// real Redis, real PostgreSQL with its default durability, all features
// on, every answer checked. It starts the servers, and the node in .bin, itself.
//
//	measure system          one node: closed loops, an open loop at half of the
//	                capacity, a lone client
//	measure system -scale   1, 2 and 4 nodes: what each component costs
//	measure system -overload
//	                up to three times the node's capacity, also with a slow
//	                database
//	measure system -budgets a budget per agent, one budget for all checks of three nodes,
//	                and an agent that continues when its budget is exhausted
//
// Results are printed and written to bench/results.
package system
