// Package e2e has only tests. They run two nodes of the compiled service against a
// real Redis and a real PostgreSQL, and kill, stop and empty servers and nodes
// under load. Others run it with failovers of a Redis Cluster, of Redis under
// Sentinel and of a PostgreSQL with a standby, and with
// nodes of two versions, of which one replaces the other. Each test names
// the clause of the contract that it shows. See package fleet for what must be
// installed.
//
//	go test ./bench/e2e
//	go test ./bench/e2e -run 'EndToEnd/fleet/G3'
package e2e
