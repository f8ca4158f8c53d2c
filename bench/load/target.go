package load

import (
	"bytes"
	"strconv"
)

// Target is a server under load. Its methods are called from one goroutine:
// every worker has a Target of its own.
type Target interface {
	// AppendRequest writes the whole HTTP request for the action.
	AppendRequest(dst []byte, a *Action) []byte
	// Judge names what is wrong with an answer of status 200, or returns "".
	Judge(want Verdict, head, body []byte) string
}

// Spendgate is spendgate itself.
type Spendgate struct {
	Pays    bool     // each check is of a payment, and redeemed in the same request
	headers []string // by key
	body    []byte
}

// NewSpendgate makes the target; apiKeys are as many as the workload's Keys.
func NewSpendgate(apiKeys []string) *Spendgate {
	s := &Spendgate{headers: make([]string, len(apiKeys))}
	for i, key := range apiKeys {
		s.headers[i] = "X-API-Key: " + key + "\r\n"
	}
	return s
}

// AppendRequest implements Target.
func (s *Spendgate) AppendRequest(dst []byte, a *Action) []byte {
	s.body = AppendBody(s.body[:0], a, s.Pays)
	return AppendPost(dst, "/v1/checks", s.headers[a.Key], s.body)
}

// Judge implements Target: the decision and the rule must be right, and the
// check a fresh one.
func (s *Spendgate) Judge(want Verdict, head, body []byte) string {
	if !hasMember(body, `"decision":"`, string(want.Effect)) {
		return "wrong decision"
	}
	if want.Effect != Allow && !hasMember(body, `"violated_rule_id":"`, want.RuleID) {
		return "wrong rule"
	}
	if bytes.Contains(head, []byte("\r\nIdempotent-Replayed:")) {
		return "replay of another check"
	}
	if s.Pays && want.Effect == Allow && !bytes.Contains(body, []byte(`"proceed":true`)) {
		return "an allow that was not redeemed"
	}
	return ""
}

// hasMember reports whether the first member with that name, given with its
// punctuation, has the string value.
func hasMember(body []byte, name, value string) bool {
	i := bytes.Index(body, []byte(name))
	if i < 0 {
		return false
	}
	rest := body[i+len(name):]
	return len(rest) > len(value) && string(rest[:len(value)]) == value && rest[len(value)] == '"'
}

// response is where an HTTP answer's parts lie in a buffer.
type response struct {
	status   int
	bodyFrom int
	end      int // 0 while the answer is incomplete
}

// parseResponse finds the first answer in b. It accepts what HTTP/1.1 servers
// send to such requests: a Content-Length, or chunks, whose framing is left in
// the body. ok is false when b is no HTTP answer.
func parseResponse(b []byte) (r response, ok bool) {
	const statusFrom, statusTo = 9, 12
	headEnd := bytes.Index(b, []byte("\r\n\r\n"))
	if headEnd < 0 {
		return r, true
	}
	if headEnd < statusTo || string(b[:7]) != "HTTP/1." {
		return r, false
	}
	status, err := strconv.Atoi(string(b[statusFrom:statusTo]))
	if err != nil {
		return r, false
	}
	r.status, r.bodyFrom = status, headEnd+4
	if length, ok := contentLength(b[:headEnd+2]); ok {
		if len(b) >= r.bodyFrom+length {
			r.end = r.bodyFrom + length
		}
		return r, true
	}
	const lastChunk = "\r\n0\r\n\r\n"
	if i := bytes.Index(b[headEnd+2:], []byte(lastChunk)); i >= 0 {
		r.end = headEnd + 2 + i + len(lastChunk)
	}
	return r, true
}

// contentLength reads the header of that name; head ends with a line break.
func contentLength(head []byte) (int, bool) {
	const name = "content-length:"
	for i := bytes.IndexByte(head, '\n') + 1; i > 0 && i < len(head); {
		line := head[i:]
		end := bytes.IndexByte(line, '\r')
		if end < 0 {
			return 0, false
		}
		line = line[:end]
		if len(line) > len(name) && (line[0]|0x20) == 'c' && bytes.EqualFold(line[:len(name)], []byte(name)) {
			n, err := strconv.Atoi(string(bytes.TrimSpace(line[len(name):])))
			return n, err == nil && n >= 0
		}
		i += end + 2
	}
	return 0, false
}
