// Package sqlstore has the methods of audit.Store that judge nothing, in SQL that PostgreSQL and SQLite both run. Both stores
// embed its Store. What judges is written once for each of them: PostgreSQL decides itself, in its functions.
//
// In these statements a parameter is $1, the time is now_ms(), times are Unix milliseconds (from_ms makes of them what a column of
// times has), and no column of a table that only this package writes is null where an empty value says the same.
package sqlstore
