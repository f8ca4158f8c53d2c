// Package fleet starts fleets for tests, chaos and benchmarks:
// one or several nodes of the compiled service, with a Redis and a
// PostgreSQL of their own on free loopback ports. Each process can be killed,
// stopped, continued and started again on the same port with the same data.
// Close ends all processes and removes their data.
//
//	binary, err := fleet.Build(ctx, dir, fleet.BuildOptions{})
//	f, err := fleet.Start(ctx, fleet.Options{Binary: binary, Nodes: 2})
//	defer f.Close()
//	answer, err := f.Nodes[0].Client(key).Check(ctx, action)
//
// Local is a fleet in the background, which outlives the program that starts
// it. Command fleetctl starts such a fleet, and servers for other commands.
//
// Programs are found on this machine: TEST_REDIS_SERVER names redis-server,
// TEST_HAPROXY haproxy, TEST_PROMETHEUS prometheus, TEST_POSTGRES_BIN the folder
// of initdb and postgres, and TEST_POSTGRES_USER the user who runs PostgreSQL when the caller is
// root, since PostgreSQL refuses to run as root. Programs without a variable are looked for where Debian
// puts them; Install installs them.
//
// PostgreSQL runs with its default durability, so commits that it confirmed are on
// disk; Redis persists nothing unless asked to. The data of a Fleet are in the folder that
// TEST_SERVERS_DIR names, else in the folder for temporary files.
package fleet
