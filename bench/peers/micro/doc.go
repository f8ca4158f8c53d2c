// Package micro measures the bare evaluation of one policy by spendgate's
// rules, by OPA's Go library and by cedar-go, side by side in one run of
// `go test -bench`. It has nothing but benchmarks, and a test that the three
// decide alike on the actions that they judge.
//
// Every engine gets its input in the form that it judges fastest, made
// beforehand: an Action for spendgate, a parsed ast.Value for OPA's prepared
// query, a Request with a Record for Cedar.
package micro
