// Package hotpath answers checks: it authenticates, guards, judges, records.
package hotpath
