// Package archive keeps a day of checks, a month of violations, or the batches that
// listed nothing later than a day, in a file, for
// when it leaves the database: one JSON object a line with every column exactly as it
// was stored, compressed by gzip, and a manifest beside it that says how many
// rows there are, from which to which, and what the files' SHA-256 are.
//
// The manifest is written last: an archive without one is not complete, and is
// written again. Nothing of an archive is believed but what its rows hash to in
// the chain (audit/chain), which stays in the database or is signed; violations are compared with
// the checks that they are copies of.
//
// The columns are the columns of chain.CheckColumns, or of chain.ViolationColumns. Integers are JSON numbers, bytes
// are hexadecimal, everything else is a string, the amount digit by digit; what
// is NULL in the database is null, and never left out.
package archive
