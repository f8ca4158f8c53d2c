// Package mcp offers the service to AI agents as a tool server of the Model
// Context Protocol: tools, each a thin client of one endpoint (tools.go), over stdio
// or streamable HTTP without sessions. It lists those that its API key may use.
//
// Amounts travel as text from the caller's JSON to the service's and back. The
// SDK's own decoding of arguments goes through binary floats, so arguments are
// read here, strictly: what is unknown, missing or of another type is refused
// by name.
//
// A refusal is a tool error, which the model sees, with the service's code and
// message, and what to do. Nothing that is not an allow reads like one.
package mcp
