// Package stops searches exhaustively how a freeze, and the deactivation of a key, stop what is in flight (S87, G17), as
// package model does claims.
//
// There are two nodes with views of the configuration, a generation in Redis, and a store that has a check of before. One
// stop is recorded, raised and answered; it may be taken back: the freeze is released, or the key is active again.
// Requests ask for a new check, or for the one of before again, or redeem that. Redis is emptied, nodes load at any
// time, and whoever stops may die at any step.
//
// Time is one fact: a stop is answered only so long after its generation was raised that a request which began before, and
// is not answered yet, knows that it is old.
package stops
