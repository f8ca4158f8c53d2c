// Package load measures a server of decisions under load: spendgate, or a peer
// that decides alike.
//
// A Workload is a function from a seed and a serial number to an Action whose
// right answer is known by construction, so that the same actions go to every
// server, no action repeats another by accident, and an answer counts only
// when it is the right one. A Target writes an Action in its server's protocol
// and judges the answer. Run sends them over keep-alive connections.
//
// In a closed loop every connection sends its next request when the last was
// answered: this finds the capacity, and its latencies describe a saturated
// server. In an open loop requests are due at a fixed rate, whatever the
// server does, and latency counts from when a request was due, not from when
// it was at last sent: a server that stalls is charged for every request that waited.
//
// The cost of a check is reported by process, from the processor time that the
// kernel accounts to it. Run itself works on few threads, each over many
// raw sockets, to leave the machine to what is measured; it needs Linux.
package load
