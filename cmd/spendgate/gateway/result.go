package gateway

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The states of a mapped call.
const (
	stateExecuted = "executed"
	stateRefused  = "refused"
	statePending  = "pending"
	stateDenied   = "denied"
	stateExpired  = "expired"
	stateAlready  = "already_executed"
	stateInDoubt  = "in_doubt"
	stateError    = "error"
)

// The members of a result's _meta.
const (
	metaCheckID  = "spendgate/check_id"
	metaDecision = "spendgate/decision"
	metaState    = "spendgate/state"
	metaShadow   = "spendgate/shadow" // the state that a call would have had
)

// result is the end of a mapped call.
type result struct {
	state    string
	checkID  string
	decision string
	shadow   string
	isError  bool
	text     string         // for the model; empty if the server's own result is given
	server   jsontext.Value // the server's result
}

// meta adds what the service decided to a result's _meta.
func (r result) meta(of jsontext.Value) jsontext.Value {
	o, err := parseObject(of)
	if err != nil {
		o = nil
	}
	for _, m := range [][2]string{
		{metaCheckID, r.checkID}, {metaDecision, r.decision}, {metaState, r.state}, {metaShadow, r.shadow},
	} {
		o = o.without(m[0])
		if m[1] != "" {
			o = o.with(m[0], quote(m[1]))
		}
	}
	return o.text()
}

// encode writes the result.
func (r result) encode() jsontext.Value {
	o, err := parseObject(r.server)
	if r.server == nil || err != nil {
		o = object{{"content", encode([]any{map[string]string{"type": "text", "text": r.text}})}}
		if r.isError {
			o = o.with("isError", jsontext.Value("true"))
		}
	} else if r.text != "" {
		// The gateway's own text comes first.
		var content []jsontext.Value
		_ = json.Unmarshal(o.get("content"), &content, lax()) // anything but a list counts as no content
		own := encode(map[string]string{"type": "text", "text": r.text})
		o = o.with("content", encode(append([]jsontext.Value{own}, content...)))
	}
	return o.with("_meta", r.meta(o.get("_meta"))).text()
}
