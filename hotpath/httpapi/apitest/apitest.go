// Package apitest validates requests and responses against the OpenAPI document, for tests.
package apitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// Document is the document of the API.
type Document struct {
	*openapi3.T
	routes  routers.Router
	schemas *schemas
}

// Load reads a document, which must be valid.
func Load(text []byte) (*Document, error) {
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("cannot read the document: %w", err)
	}
	routes, err := legacy.NewRouter(doc)
	if err != nil {
		return nil, fmt.Errorf("the document is not valid: %w", err)
	}
	compiled, err := newSchemas(doc)
	if err != nil {
		return nil, err
	}
	return &Document{T: doc, routes: routes, schemas: compiled}, nil
}

// Route returns the path that a request is for, as the document writes it.
func (d *Document) Route(method, target string) (string, error) {
	in, err := d.input(method, target, "")
	if err != nil {
		return "", err
	}
	return in.Route.Path, nil
}

// CheckRequest validates a request with a JSON body, or without a body, against the document.
func (d *Document) CheckRequest(method, target, body string) error {
	in, err := d.input(method, target, body)
	if err != nil {
		return err
	}
	return openapi3filter.ValidateRequest(context.Background(), in) //nolint:wrapcheck // it says all
}

func (d *Document) input(method, target, body string) (*openapi3filter.RequestValidationInput, error) {
	r := httptest.NewRequestWithContext(context.Background(), method, target, bytes.NewReader([]byte(body)))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	route, params, err := d.routes.FindRoute(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/") {
		err = routers.ErrPathNotFound // the router takes it for the path without
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s is not in the document: %w", method, target, err)
	}
	return &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true,
	}}, nil
}

// Response is a response that was read.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

func (r Response) String() string { return fmt.Sprintf("%d %.2000s", r.Status, r.Body) }

// CheckResponse returns an error if the document does not declare the response to a request: its
// status, a header or a part of its body. The response for a path or a method that the document does
// not have must be 404 or 405; a response to HEAD is one to GET, without its body.
func (d *Document) CheckResponse(method, target string, response Response) error {
	in, err := d.input(method, target, "")
	if err != nil {
		if response.Status == http.StatusNotFound || response.Status == http.StatusMethodNotAllowed {
			return nil
		}
		if method == http.MethodHead {
			return d.checkHead(target, response)
		}
		return fmt.Errorf("%w, and answered with %s", err, response)
	}
	declared := in.Route.Operation.Responses.Status(response.Status)
	if err = checkHeaders(declared, response.Header); err == nil && response.Status != http.StatusNotModified {
		at := []string{"paths", in.Route.Path, strings.ToLower(method), "responses", strconv.Itoa(response.Status)}
		err = d.schemas.fits(at, declared.Value, response)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %s: %w", method, target, response, err)
	}
	return nil
}

func (d *Document) checkHead(target string, response Response) error {
	in, err := d.input(http.MethodGet, target, "")
	if err != nil {
		return err
	}
	if len(response.Body) > 0 {
		return fmt.Errorf("HEAD %s: has a body: %s", target, response)
	}
	return checkHeaders(in.Route.Operation.Responses.Status(response.Status), response.Header)
}

// checkHeaders finds headers that are not declared; headers of HTTP are not.
func checkHeaders(declared *openapi3.ResponseRef, header http.Header) error {
	if declared == nil {
		return errors.New("the status is not declared")
	}
	known := map[string]bool{"Connection": true, "Content-Length": true, "Content-Type": true, "Date": true, "Server": true}
	for name := range declared.Value.Headers {
		known[http.CanonicalHeaderKey(name)] = true
	}
	for name := range header {
		if !known[name] {
			return fmt.Errorf("the header %s is not declared", name)
		}
	}
	return nil
}
