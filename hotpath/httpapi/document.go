package httpapi

import (
	_ "embed"
	"fmt"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var openAPI []byte

// openAPIJSON is the same document as JSON, made when it is first asked for.
var openAPIJSON = sync.OnceValue(func() []byte {
	var document yaml.Node
	if err := yaml.Unmarshal(openAPI, &document); err != nil {
		panic("BUG: openapi.yaml: " + err.Error())
	}
	return appendYAML(nil, document.Content[0])
})

// appendYAML writes a YAML node as JSON, members in their order. The document has
// no aliases.
func appendYAML(dst []byte, n *yaml.Node) []byte {
	switch n.Kind {
	case yaml.MappingNode:
		o := newObject(dst)
		for i := 0; i < len(n.Content); i += 2 {
			o.name(n.Content[i].Value)
			o = appendYAML(o, n.Content[i+1])
		}
		return o.end()
	case yaml.SequenceNode:
		return appendArray(dst, len(n.Content), func(dst []byte, i int) []byte { return appendYAML(dst, n.Content[i]) })
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!str":
			return appendString(dst, n.Value)
		case "!!int", "!!float", "!!bool", "!!null":
			return append(dst, n.Value...)
		}
	}
	panic(fmt.Sprintf("BUG: openapi.yaml:%d: %s is not understood", n.Line, n.ShortTag()))
}

// getOpenAPI answers GET /openapi.yaml.
func (a *API) getOpenAPI(x *exchange) error {
	x.ctx.SetContentType("application/yaml")
	x.ctx.Response.SetBodyRaw(openAPI)
	return nil
}

// getOpenAPIJSON answers GET /openapi.json.
func (a *API) getOpenAPIJSON(x *exchange) error {
	x.ctx.Response.Header.SetContentTypeBytes(typeJSON)
	x.ctx.Response.SetBodyRaw(openAPIJSON())
	return nil
}
