// Package judge decides whether the contract allows a history of the service. It imports nothing of
// the service. A history has what clients sent and received, with times; what PostgreSQL has
// afterwards; and which faults were injected.
//
//	G1   every answer has its row, equal in content, and reads the same later; a row has its request,
//	     and a violation if it is no allow
//	G2   one row and one body per idempotency key; another request under it is refused
//	G3   at most one pass per fingerprint and window; a duplicate names a recorded pass
//	G4   no decision by a policy older than one confirmed before the request, and each by the rules of its version
//	G5   no use of a key after its deactivation was confirmed, and none refused while it is active
//	G6   no more admissions of a key than its limit in a window, except that losing Redis opens a new one
//	G7   failures only in and soon after faults, in the specified form and in time; what was recorded but
//	     answered 500 is the answer to the next identical request, and to no second one
//	G10  nothing is recorded of a simulation
//	G11  no failure behind the load balancer while nodes are restarted in turn
//	G12  no budget exceeded, by rows or by answers, with the grants in force at each commit; counters equal to the
//	     rows; what is told of an exceeded budget true at some moment of its request
//	S91  a row says what the grants in force at its commit added; what was answered of a grant is recorded
//	G16  one check of a payment redeemed without having been given back, and one nonce told to proceed
//	G17  what a freeze covers is neither allowed, redeemed nor taken over until its end, and nothing else is stopped; nor is what
//	     a key was allowed before its deactivation
//
// Where a client cannot know what happened (an answer was lost, a change is in
// flight, a window is about to end) every possibility is allowed: every finding
// is a violation under any timing.
package judge
