// Package fleet starts what spendgate runs on, for tests, chaos and benchmarks:
// the compiled service, one or several nodes of it, over a Redis and a
// PostgreSQL of their own on free loopback ports. Everything can be killed,
// stopped, continued and started again on the same port with the same data, and
// everything is gone after Close.
//
//	binary, err := fleet.Build(ctx, dir, fleet.BuildOptions{})
//	f, err := fleet.Start(ctx, fleet.Options{Binary: binary, Nodes: 2})
//	defer f.Close()
//	answer, err := f.Nodes[0].Client(key).Check(ctx, action)
//
// Local is a fleet in the background, which outlives the program that starts
// it. Command fleetctl has it, and servers for other commands.
//
// Programs are found on this machine: TEST_REDIS_SERVER names redis-server,
// TEST_HAPROXY haproxy, TEST_PROMETHEUS prometheus, TEST_POSTGRES_BIN the folder
// of initdb and postgres, TEST_POSTGRES_USER who runs them when the caller is
// root, whom PostgreSQL refuses. Unset, they are looked for where Debian puts
// them; Install installs them.
//
// PostgreSQL runs with its default durability, so what it confirmed is on
// disk; Redis persists nothing unless asked to. The data of a Fleet are in the folder that
// TEST_SERVERS_DIR names, if not in that for temporary files.
package fleet
