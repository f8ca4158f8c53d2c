// Package spend has the types of the service: the action that an agent plans, the
// decision about it, the check that records both, and the types of their fields.
// It does no IO, starts no goroutine and imports no other package of the module,
// so every package may import it.
//
// One Action and one Check are used from request to row without a copy per
// layer. A value built here owns its bytes: nothing aliases a request buffer.
package spend
