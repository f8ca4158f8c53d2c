// Package export writes what an audit trail holds as one file for people and their spreadsheets,
// a row for each check, with a manifest that ties the file to the hash chains (S81).
//
// A file follows from the record up to the heads of its manifest, and from nothing else: not from
// the clock, nor from the store. So the check of a file makes it anew, up to these heads, and
// compares.
package export
