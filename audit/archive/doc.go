// Package archive writes rows to files before they are removed from the database: a day
// of checks, a month of violations, or the batches whose checks are all archived. A file
// has one JSON object a line, with every column exactly as it was stored, and is
// compressed by gzip. A manifest beside it has the number of rows, the first and the
// last of them, and the SHA-256 of each file.
//
// The manifest is written last: an archive without one is incomplete, and is written again. A
// reader does not trust an archive by itself: the hashes of its rows must be in the chain
// (audit/chain), which stays in the database or is signed. Violations are compared with the checks
// of which they are copies.
//
// The columns are chain.Checks or chain.Violations. Integers are JSON numbers, bytes
// are hexadecimal, all other values are strings, with amounts digit for digit. A value that
// is NULL in the database is null, never left out.
package archive
