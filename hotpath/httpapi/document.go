package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"go.yaml.in/yaml/v3"

	"spendgate/hotpath/wire"
)

//go:embed openapi.yaml
var openAPI []byte

// openAPIJSON is the same document as JSON.
func openAPIJSON() []byte {
	var document yaml.Node
	if err := yaml.Unmarshal(openAPI, &document); err != nil {
		panic("BUG: openapi.yaml: " + err.Error())
	}
	return appendYAML(nil, document.Content[0])
}

// appendYAML writes a YAML node as JSON, members in their order. The document has
// no aliases.
func appendYAML(dst []byte, n *yaml.Node) []byte {
	switch n.Kind {
	case yaml.MappingNode:
		dst = append(dst, '{')
		for i := 0; i < len(n.Content); i += 2 {
			dst = append(wire.AppendString(between(dst), n.Content[i].Value), ':')
			dst = appendYAML(dst, n.Content[i+1])
		}
		return append(dst, '}')
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for _, element := range n.Content {
			dst = appendYAML(between(dst), element)
		}
		return append(dst, ']')
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!str":
			return wire.AppendString(dst, n.Value)
		case "!!int", "!!float", "!!bool", "!!null":
			return append(dst, n.Value...)
		}
	case yaml.DocumentNode, yaml.AliasNode:
	}
	panic(fmt.Sprintf("BUG: openapi.yaml:%d: %s is not understood", n.Line, n.ShortTag()))
}

// between appends the comma before a further element of an array or an object.
func between(dst []byte) []byte {
	if last := dst[len(dst)-1]; last != '{' && last != '[' {
		dst = append(dst, ',')
	}
	return dst
}

// specification is a form of openapi.yaml as it is sent.
type specification struct {
	contentType   string
	plain, zipped []byte
	// Of plain and zipped, since equal tags mean equal bytes.
	plainTag, zippedTag string
}

func newSpecification(contentType string, text []byte) *specification {
	var zipped bytes.Buffer
	w, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	_, _ = w.Write(text) // to memory: nothing fails
	_ = w.Close()
	sum := sha256.Sum256(text)
	tag := hex.EncodeToString(sum[:8])
	return &specification{contentType, text, zipped.Bytes(), `"` + tag + `"`, `"` + tag + `-gzip"`}
}

// documents makes both forms when one is first asked for.
var documents = sync.OnceValues(func() (inYAML, inJSON *specification) {
	return newSpecification("application/yaml", openAPI), newSpecification("application/json", openAPIJSON())
})

// getOpenAPI answers GET /openapi.yaml.
func (a *API) getOpenAPI(x *exchange) error {
	inYAML, _ := documents()
	return x.answerDocument(inYAML)
}

// getOpenAPIJSON answers GET /openapi.json.
func (a *API) getOpenAPIJSON(x *exchange) error {
	_, inJSON := documents()
	return x.answerDocument(inJSON)
}

// pipelinedEvery is the pause before the next document if a connection asks for it before it has the
// last response.
const pipelinedEvery = 100 * time.Millisecond

// answerDocument sends a document, compressed if the client accepts that, or 304 if it has not
// changed. Any connection may ask for documents without a key, and each takes as much work as many
// other responses: pipelined requests of one connection are answered with a pause between them, so
// that others get their turn.
func (x *exchange) answerDocument(d *specification) error {
	if x.pipelined {
		time.Sleep(pipelinedEvery)
	}
	request, h := &x.ctx.Request.Header, &x.ctx.Response.Header
	body, tag := d.plain, d.plainTag
	if acceptsGzip(request.PeekAll(fasthttp.HeaderAcceptEncoding)) {
		body, tag = d.zipped, d.zippedTag
		h.Set(fasthttp.HeaderContentEncoding, "gzip")
	}
	h.Set(fasthttp.HeaderETag, tag)
	h.Set(fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
	h.Set(fasthttp.HeaderCacheControl, "no-cache") // to be kept, and asked about
	if hasTag(request.PeekAll(fasthttp.HeaderIfNoneMatch), tag) {
		h.Del(fasthttp.HeaderContentEncoding)
		x.ctx.SetStatusCode(fasthttp.StatusNotModified)
		return nil
	}
	h.SetContentType(d.contentType)
	x.ctx.Response.SetBodyRaw(body)
	return nil
}

// acceptsGzip reports whether Accept-Encoding has gzip, or anything, with a weight above
// zero.
func acceptsGzip(headers [][]byte) bool {
	wildcard := false
	for item := range items(headers) {
		coding, parameters, _ := strings.Cut(strings.ToLower(item), ";")
		_, weight, weighted := strings.Cut(parameters, "q=")
		q, err := strconv.ParseFloat(strings.TrimSpace(weight), 64)
		takes := !weighted || err == nil && q > 0
		switch strings.TrimSpace(coding) {
		case "gzip":
			return takes
		case "*":
			wildcard = takes
		}
	}
	return wildcard
}

// hasTag reports whether If-None-Match names a tag; a weak tag is compared as if it were strong (RFC
// 9110).
func hasTag(headers [][]byte, tag string) bool {
	for item := range items(headers) {
		if item == "*" || strings.TrimPrefix(item, "W/") == tag {
			return true
		}
	}
	return false
}

// items are the items of a header that is a list.
func items(headers [][]byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, h := range headers {
			for item := range strings.SplitSeq(string(h), ",") {
				if item = strings.Trim(item, " \t"); item != "" && !yield(item) {
					return
				}
			}
		}
	}
}
