// Package gateway stands between agents and the servers of the Model Context Protocol
// whose tools move money. Messages are passed on as they are, each session with
// connections of its own to all servers; the lists of tools and the calls of mapped
// tools are interpreted, and no more. A mapped call is checked, redeemed, carried out
// and reported; what was decided and done is in the service and nowhere else.
//
// The transports are the package's own: the SDK's typed servers and clients drop what
// they do not know, and its connections do not tell which request a message belongs to.
//
// README.md has the interleavings and crash points with the defence of each.
package gateway
