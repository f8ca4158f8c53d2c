package httpapi

import (
	"context"
	"testing"

	"github.com/valyala/fasthttp"

	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/trace"
	"spendgate/ratelimit"
)

// instantly answers every check at no cost.
type instantly struct {
	authorizer
	answer hotpath.Answer
}

func (i instantly) Check(context.Context, hotpath.Request, *spend.Action) (hotpath.Answer, ratelimit.Quota, error) {
	return i.answer, ratelimit.Quota{Limit: 100, Remaining: 99, ResetMS: 1000}, nil
}

func (i instantly) Authenticate(context.Context, hotpath.Caller) (ratelimit.Quota, error) {
	return ratelimit.Quota{}, nil
}

// BenchmarkPostCheck is all that this package does for a check, without the
// connection: route, decode, encode, headers, metrics.
func BenchmarkPostCheck(b *testing.B) {
	post := preparePost(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		post()
	}
}

// BenchmarkPostCheckTraced is the same with a record of each.
func BenchmarkPostCheckTraced(b *testing.B) {
	post := preparePost(b, func(*trace.Record) trace.ID { return trace.ID{} })
	b.ReportAllocs()
	for b.Loop() {
		post()
	}
}

// preparePost returns what handles one check, over and over.
func preparePost(t testing.TB, record func(*trace.Record) trace.ID) (post func()) {
	t.Helper()
	a := New(Options{Authorizer: instantly{answer: hotpath.Answer{Check: blockedCheck()}}, Store: &fakeStore{}, Trace: record})
	ctx := new(fasthttp.RequestCtx)
	var request fasthttp.Request
	request.Header.SetMethod("POST")
	request.SetRequestURI("/v1/checks")
	request.Header.SetContentType("application/json")
	request.Header.Set("X-API-Key", goodKey)
	request.SetBodyString(plainCheck)
	ctx.Init(&request, nil, nil)
	return func() {
		ctx.Response.Reset()
		a.handle(ctx)
		if ctx.Response.StatusCode() != 200 {
			t.Fatal(string(ctx.Response.Body()))
		}
	}
}
