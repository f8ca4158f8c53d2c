package gateway

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The methods that the gateway interprets. All others are passed on.
const (
	methodInitialize  = "initialize"
	methodPing        = "ping"
	methodListTools   = "tools/list"
	methodCallTool    = "tools/call"
	methodSetLevel    = "logging/setLevel"
	noteInitialized   = "notifications/initialized"
	noteCancelled     = "notifications/cancelled"
	noteProgress      = "notifications/progress"
	noteToolsChanged  = "notifications/tools/list_changed"
	latestVersion     = "2025-11-25" // of the protocol; the next one has no initialize
	codeUnavailable   = -32000
	maxAgentMessage   = 4 << 20
	maxServerMessage  = 64 << 20 // ten thousand tools, or an image
	maxRequestsFlight = 256      // of a session
)

// spoken reports whether a version of the protocol passes over HTTP.
func spoken(version string) bool {
	switch version {
	case "2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", latestVersion:
		return true
	default:
		return false
	}
}

// message is a message of JSON-RPC 2.0. Identifiers, parameters and results are kept as
// they are written, which the SDK's own type does not do.
type message struct {
	ID     jsontext.Value `json:"id,omitzero"`
	Method string         `json:"method,omitzero"`
	Params jsontext.Value `json:"params,omitzero"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  jsontext.Value `json:"error,omitzero"`

	// about is the identifier of the request that a message belongs to, if the transport
	// tells: over HTTP, the request of the same exchange.
	about string
	agent string // who sent it, if the transport tells
	// failure is why there is no response, in a message that the transport made itself.
	failure error
}

// wireMessage is a message with the mark of its protocol.
type wireMessage struct {
	Version string `json:"jsonrpc"`
	message
}

func (m *message) isCall() bool     { return m.Method != "" && m.hasID() }
func (m *message) isResponse() bool { return m.Method == "" }
func (m *message) hasID() bool      { return len(m.ID) > 0 && m.ID.Kind() != 'n' }

// lax are the options to accept everything that programs in other languages accept as JSON.
// Texts are passed on exactly as they were read.
func lax() json.Options {
	return json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// decodeMessage reads one message.
func decodeMessage(text []byte) (message, error) {
	if first := bytes.TrimLeft(text, " \t\r\n"); len(first) > 0 && first[0] == '[' {
		return message{}, &fault{Code: jsonrpc.CodeInvalidRequest, Message: "batches are not accepted: send each message on its own"}
	}
	var wire wireMessage
	if err := json.Unmarshal(text, &wire, lax()); err != nil {
		return message{}, fmt.Errorf("not a message of JSON-RPC: %w", err)
	}
	m := wire.message
	switch {
	case wire.Version != "2.0":
		return message{}, errors.New("not a message of JSON-RPC 2.0")
	case m.hasID() && m.ID.Kind() != '"' && m.ID.Kind() != '0':
		return message{}, errors.New("the id of a message must be text or a number")
	case m.isResponse() && (!m.hasID() || (m.Result == nil) == (m.Error == nil)):
		return message{}, errors.New("neither a request nor a response")
	}
	return m, nil
}

// unread answers a text that is no message.
func unread(err error) message {
	if f, ok := errors.AsType[*fault](err); ok {
		return failed([]byte("null"), f)
	}
	return failed([]byte("null"), &fault{Code: jsonrpc.CodeParseError, Message: err.Error()})
}

// encodeMessage writes a message in one line.
func encodeMessage(m message) ([]byte, error) {
	return json.Marshal(wireMessage{"2.0", m}, lax(), jsontext.SpaceAfterColon(false), jsontext.Multiline(false))
}

// fault is an error response's content.
type fault struct {
	Code    int64          `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitzero"`
}

func (f *fault) Error() string { return fmt.Sprintf("%s (%d)", f.Message, f.Code) }

// failed answers a request with an error.
func failed(id jsontext.Value, err error) message {
	var f *fault
	if !errors.As(err, &f) {
		f = &fault{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	return message{ID: id, Error: encode(f)}
}

// encode writes a value of this package as JSON, which does not fail.
func encode(v any) jsontext.Value {
	text, err := json.Marshal(v, lax(), json.Deterministic(true))
	if err != nil {
		return jsontext.Value("null")
	}
	return text
}

// errorOf returns a response's error, nil if it is a result.
func (m *message) errorOf() error {
	if m.Error == nil {
		return nil
	}
	f := new(fault)
	if err := json.Unmarshal(m.Error, f, lax()); err != nil {
		return errors.New("an error that cannot be read")
	}
	return f
}
