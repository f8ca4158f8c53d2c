package httpapi

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"spendgate/audit/spend"
)

const headerIdempotency = "Idempotency-Key"

// decodeCheckRequest reads the body of a check, and the header that may replace the body's
// idempotency_key (S58).
func (x *exchange) decodeCheckRequest(r *reader) {
	r.action(&x.action, false, &x.payment)
	x.takeIdempotencyKey(r, &x.action.IdempotencyKey)
	if x.payment.Key != "" || x.payment.members != nil {
		r.validatePayment(&x.payment, &x.action)
	}
}

// takeIdempotencyKey uses the header's key if the body has none. A blank one counts as absent, as in
// the body.
func (x *exchange) takeIdempotencyKey(r *reader, key *string) {
	sent := x.ctx.Request.Header.PeekAll(headerIdempotency)
	if len(sent) == 0 {
		return
	}
	if len(sent) > 1 {
		r.fault(headerIdempotency, "must be given once")
		return
	}
	value, problem := parseIdempotencyKey(string(sent[0]))
	switch {
	case problem != "":
		r.fault(headerIdempotency, problem)
	case spend.Blank(value):
	case spend.TooLong(value, spend.MaxIdempotencyKey):
		r.fault(headerIdempotency, spend.LengthForm(spend.MaxIdempotencyKey))
	case *key != "" && *key != value:
		r.fault(headerIdempotency, "must be the same as the body's idempotency_key, or only one of them given")
	default:
		*key = value
	}
}

// parseIdempotencyKey reads a key that stands bare, or as a string of RFC 8941 without
// parameters.
func parseIdempotencyKey(value string) (key, problem string) {
	value = strings.Trim(value, " \t")
	if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return "", "must be UTF-8 without control characters"
	}
	quoted, ok := strings.CutPrefix(value, `"`)
	if !ok && strings.Contains(value, ",") {
		return "", "must be one key, and proxies join two by a comma: a key that has a comma is put in quotation marks"
	}
	if !ok {
		return value, ""
	}
	const form = `must be a string of RFC 8941 if it begins with a quotation mark: ASCII, only " and \ behind a \, ` +
		`and nothing after the closing mark`
	var b strings.Builder
	for i := 0; i < len(quoted); i++ {
		c := quoted[i]
		switch {
		case c == '"' && i == len(quoted)-1:
			return b.String(), ""
		case c == '"' || c >= utf8.RuneSelf:
			return "", form
		case c == '\\':
			if i++; i == len(quoted) || quoted[i] != '"' && quoted[i] != '\\' {
				return "", form
			}
			c = quoted[i]
		}
		b.WriteByte(c)
	}
	return "", form
}
