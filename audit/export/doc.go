// Package export writes an audit trail as one file for people and their spreadsheets,
// a row for each check, with a manifest that ties the file to the hash chains (S81).
//
// The bytes of a file depend only on the record up to the heads in its manifest, not on the clock
// or the kind of store. So a file is checked by writing it again up to these heads and comparing
// both.
package export
