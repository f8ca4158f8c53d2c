// Package mcp offers the service to AI agents as a tool server of the Model
// Context Protocol: tools, each a thin client of one endpoint (tools.go), over stdio
// or streamable HTTP without sessions. It lists the tools that its API key may use.
//
// Amounts are passed as text from the caller's JSON to the service's and back. The
// SDK's own decoding of arguments goes through binary floats, so this package decodes
// them strictly itself: an argument that is unknown, missing or of a wrong type is refused
// by name.
//
// A refusal is a tool error, which the model sees, with the service's code and
// message, and what to do. No text reads like an allow unless it is one.
package mcp
