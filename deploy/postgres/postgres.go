// Package postgres embeds the script of grants, so that
// `spendgate migrate` can run it.
package postgres

import _ "embed"

// Grants is grants.sql, with psql's variables and commands.
//
//go:embed grants.sql
var Grants string
