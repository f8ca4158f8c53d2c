// Package client is the Go client of a spendgate service. It needs only the
// standard library's HTTP client and imports no part of the server.
//
//	c, err := client.New(client.Options{BaseURL: "https://spendgate.internal", APIKey: key})
//	result, err := c.Check(ctx, client.Action{...})
//	if err != nil {
//		return err // nothing was allowed
//	}
//	if !result.Allowed() {
//		return errors.New(result.NextStep)
//	}
//	// move the money
//
// The client fails closed: Allowed is true only for a complete response to a Check
// with status 200 and the decision allow. The zero Decision permits nothing.
//
// Requests that may safely be repeated are repeated, with exponential backoff and
// full jitter, after a lost connection, a 5xx and a 429, whose Retry-After is
// honoured. A Check always carries an idempotency key, so that its repetitions
// are one check. A request that would act twice (a new policy version, a new API
// key) is repeated only when it cannot have been carried out. After any other 4xx nothing is
// repeated.
//
// A request continues the trace of its context, set by WithTrace or returned by
// Options.Trace: the service's spans are then its children.
//
// A refusal by the service is an *Error. A Check without a known result is
// an *UndecidedError, which holds the idempotency key to ask again with.
package client
