// Package e2e has no code but tests: they run the compiled service against a
// real Redis and a real PostgreSQL, over two nodes, with servers and nodes
// killed, stopped and emptied under load; likewise over a Redis Cluster, a Redis
// that Sentinels guard, and a PostgreSQL with a standby, failed over; and over
// nodes of two versions at a time, while one takes the other's place. Each names
// the clause of the contract that it shows. See package fleet for what must be
// installed.
//
//	go test ./bench/e2e
//	go test ./bench/e2e -run 'EndToEnd/fleet/G3'
package e2e
