// Package wire has the structures of the interface, which openapi.yaml describes: the handlers fill
// them and the Go client reads them. A member of a response stands here once.
//
// Append writes a structure. A member whose value is zero is left out if its tag
// has omitzero, and is null if it has `wire:"null"`. Members that a client has as a structure and the
// service as text are json.RawMessage here; the client's field of the same name hides them.
package wire
