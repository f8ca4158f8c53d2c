// Package httpapi is the service's HTTP interface: it reads requests strictly,
// asks the Authorizer or the store, and writes the answers. fasthttp stays in
// here: what is handed below owns its bytes.
//
// One request, top to bottom: serve makes an exchange, the router finds the
// resource (404) and the resource its endpoint (405), the caller is admitted
// (401, 429, 403), and the endpoint's handler reports what is wrong with the body
// (400, 411, 413, 422), then works (404). That is the order of S1. A handler writes
// a good answer or returns an error;
// errors.go maps every error to its answer, in one table.
//
// Of HTTP it speaks the part that is safe behind any proxy: a body of at most
// 1 MiB has a Content-Length or is a lone "chunked". Any other Transfer-Encoding
// is refused with 411 and the connection closed, so that no two readers can
// disagree about where a request ends. A body on a GET is read and ignored.
// Paths are compared byte by byte: neither case, nor a trailing slash, nor
// percent-encoding makes another path a known one.
package httpapi
