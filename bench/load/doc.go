// Package load measures servers that decide about actions: spendgate, and peers
// that make the same decisions.
//
// A Workload is a function from a seed and a serial number to an Action whose
// right answer is known by construction. So the same actions go to every
// server, no action repeats another by accident, and only right answers
// count. A Target writes an Action in its server's protocol
// and judges the answer. Run sends the actions over keep-alive connections.
//
// In a closed loop every connection sends its next request when the last was
// answered: this finds the capacity, and its latencies describe a saturated
// server. In an open loop requests are due at a fixed rate, whatever the
// server does, and latency counts from when a request was due, not from when
// it was at last sent: a server that stalls is charged for every request that waited.
//
// The cost of a check is reported by process, from the processor time that the
// kernel accounts to the process. Run itself uses few threads, each with many
// raw sockets, to leave the processors to the measured servers; it needs Linux.
package load
