// Package httpapi is the service's HTTP interface: it decodes requests strictly,
// asks the Authorizer or the store, and writes the responses. Only this package uses
// fasthttp: values that it passes to other packages own their bytes.
//
// One request, top to bottom: serve makes an exchange, the router finds the
// resource (404) and the resource its endpoint (405), the caller is admitted
// (401, 429, 403), and the endpoint's handler rejects a faulty body
// (400, 411, 413, 422), then does the operation (404). This is the order of S1. A handler writes
// a successful response or returns an error;
// errors.go maps every error to its response, in one table.
//
// The package accepts only the part of HTTP that is safe behind any proxy: a body of at most
// 1 MiB that has a Content-Length or is a lone "chunked". Any other Transfer-Encoding
// is refused with 411 and the connection closed, so that no two readers can
// disagree about where a request ends. A body on a GET is read and ignored.
// Paths are compared byte by byte: case, a trailing slash and
// percent-encoding are significant.
package httpapi
