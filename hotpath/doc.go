// Package hotpath answers checks. Authorizer.Check is the path of every one of
// them, on one screen: authenticate, resolve the type, claim, judge, record.
// Two network waits lie on it: the guard's round trip to Redis and the audit
// writer's group commit, each shared by all checks that wait at that moment.
//
// It also keeps this node's copy of the configuration, keys and compiled
// policies, and proves it fresh: every round trip brings the configuration's
// generation along, and a check is judged only by what was loaded under the
// generation that its own round trip read (G4, G5).
package hotpath
