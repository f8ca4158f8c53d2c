// Package gateway is a proxy between agents and the servers of the Model Context Protocol
// whose tools move money. A call of a mapped tool is checked, redeemed, carried out and
// reported by the guard of payments; decisions and outcomes are stored only in the service.
// Everything else is passed on.
//
// The protocol, in both eras, is the SDK's: a session is a server of it for agents, and a link
// a client of it for an upstream. What reaches an upstream is made anew from what was read.
// The package knows whether a call was sent, by watching what its transports write.
//
// docs/internals/gateway.md has the interleavings and crash points with the defence of each.
package gateway
