package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas are those of a document, each of which is compiled once: openapi3filter
// compiles it for every response, which took more than half of the end-to-end tests.
type schemas struct {
	document any // of JSON
	compiler *jsonschema.Compiler
	mu       sync.Mutex                    // for what follows
	compiled map[string]*jsonschema.Schema // by their pointers
}

// documentURL is no address: the compiler wants one.
const documentURL = "urn:openapi"

func newSchemas(doc *openapi3.T) (*schemas, error) {
	s := &schemas{compiler: jsonschema.NewCompiler(), compiled: make(map[string]*jsonschema.Schema)}
	text, err := json.Marshal(doc)
	if err == nil {
		s.document, err = jsonschema.UnmarshalJSON(bytes.NewReader(text))
	}
	if err == nil {
		err = s.compiler.AddResource(documentURL, s.document)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the schemas: %w", err)
	}
	s.compiler.AssertFormat()
	return s, nil
}

// fits returns how a response is not as it is declared at a place.
func (s *schemas) fits(at []string, declared *openapi3.Response, response Response) error {
	for name, header := range declared.Headers {
		if len(response.Header.Values(name)) == 0 {
			if header.Value.Required {
				return fmt.Errorf("no header %s", name)
			}
			continue
		}
		var value any = response.Header.Get(name)
		if header.Value.Schema.Value.Type.Is("integer") {
			value = json.Number(response.Header.Get(name))
		}
		if err := s.fit(append(slices.Clip(at), "headers", name, "schema"), value); err != nil {
			return fmt.Errorf("the header %s: %w", name, err)
		}
	}
	contentType := response.Header.Get("Content-Type")
	switch {
	case len(declared.Content) == 0 || contentType == "application/yaml" && declared.Content.Get(contentType) != nil: // the document itself
		return nil
	case declared.Content.Get(contentType) == nil:
		return fmt.Errorf("Content-Type %q is not declared", contentType)
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(response.Body))
	if err != nil {
		return fmt.Errorf("the body: %w", err)
	}
	return s.fit(append(slices.Clip(at), "content", "application/json", "schema"), body)
}

// fit returns how a value does not fit the schema at a place.
func (s *schemas) fit(at []string, value any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pointer := s.pointer(at)
	schema, compiled := s.compiled[pointer]
	if !compiled {
		var err error
		if schema, err = s.compiler.Compile(documentURL + "#" + pointer); err != nil {
			return fmt.Errorf("the schema: %w", err)
		}
		s.compiled[pointer] = schema
	}
	return schema.Validate(value) //nolint:wrapcheck // it says all
}

// pointer follows a path, and the references on it but the last one, which is the schema's.
func (s *schemas) pointer(at []string) (pointer string) {
	here := s.document
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, token := range at {
		for {
			object, _ := here.(map[string]any)
			ref, _ := object["$ref"].(string)
			if ref == "" {
				here = object[token]
				break
			}
			pointer, here = "", s.document
			for token := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
				object, _ := here.(map[string]any)
				here = object[token]
				pointer += "/" + token
			}
		}
		pointer += "/" + escape.Replace(token)
	}
	return pointer
}
