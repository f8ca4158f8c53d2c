// Package hotpath answers checks. Authorizer.Check shows the path of every check
// on one screen: authenticate, resolve the type, claim, judge, record.
// A check waits for the network twice: for the guard's round trip to Redis and for the audit
// writer's group commit, each shared by all checks that wait at that moment.
//
// The package also keeps this node's copy of the configuration, keys and compiled
// policies, and proves that the copy is current: every round trip reads the configuration's
// generation, and a check is judged only by a copy that was loaded under the
// generation that its own round trip read (G4, G5).
package hotpath
