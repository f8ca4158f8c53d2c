// Package gateway is a proxy between agents and the servers of the Model Context Protocol
// whose tools move money. It passes messages on unchanged, with connections to all servers
// for each session. It interprets only the lists of tools and the calls of mapped
// tools. A mapped call is checked, redeemed, carried out
// and reported; decisions and outcomes are stored only in the service.
//
// The transports are the package's own, because the SDK's typed servers and clients drop messages that
// they do not know, and its connections do not show which request a message belongs to.
//
// README.md has the interleavings and crash points with the defence of each.
package gateway
