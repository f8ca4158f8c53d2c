// Command postgres is the service that a team would write itself instead of
// running spendgate: fasthttp, a pgx pool, and one PostgreSQL transaction
// for each check, in one round trip (schema.sql). It is a peer in bench/peers,
// not a product.
//
// It keeps spendgate's promises about a check: the decision is durable before
// it is answered, an idempotency key has one decision for 24 hours, and of
// identical actions within the window one passes, whatever runs concurrently.
// It does less than spendgate in everything else: no API keys, no rate limits,
// policies that are compiled in, no classifier, no tamper evidence, no
// listings, and no bounds under overload.
package main
