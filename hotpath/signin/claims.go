package signin

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// claims are the provider's statements by their exact names.
type claims map[string]jsontext.Value

// readClaims refuses a name that is repeated, at any depth.
func readClaims(text []byte) (c claims, err error) {
	return c, json.Unmarshal(text, &c)
}

// claimsOf returns the claims of a token or of userinfo.
func claimsOf(source interface{ Claims(any) error }) (claims, error) {
	var text jsontext.Value
	if err := source.Claims(&text); err != nil {
		return nil, err
	}
	return readClaims(text)
}

// exactKeys are a provider's keys. They leave out of a token each claim that only resembles one which
// the library reads: the library takes "Sub" or "ſub" for "sub", and of several the last.
type exactKeys struct{ oidc.KeySet }

// unreadKey is the key of a *error in a context: why the provider's keys could not be read. The library drops it.
type unreadKey struct{}

// VerifySignature implements oidc.KeySet.
func (k exactKeys) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, jwt)
	if err != nil {
		unread, asked := ctx.Value(unreadKey{}).(*error)
		if failed, ok := errors.AsType[*url.Error](err); ok && asked && !errors.Is(err, errKeysRead) {
			*unread = failed.Err
		}
		return nil, err
	}
	c, err := readClaims(payload)
	if err != nil {
		return nil, err
	}
	read := []string{"iss", "sub", "aud", "exp", "iat", "nbf", "nonce", "at_hash", claimNames, "_claim_sources"}
	for name := range c {
		if slices.ContainsFunc(read, func(r string) bool { return name != r && strings.EqualFold(name, r) }) {
			delete(c, name)
		}
	}
	return json.Marshal(c)
}

// claimNames names the claims that the provider does not send itself (OpenID Connect Core, 5.6.2).
const claimNames = "_claim_names"

// leavesOut reports whether the provider says that the claim at a path is elsewhere.
func (c claims) leavesOut(path string) bool {
	for name := range c.inside(claimNames) {
		if path == name || strings.HasPrefix(path, name+".") {
			return true
		}
	}
	return false
}

// inside returns the members of a claim that is an object, nil of any other.
func (c claims) inside(name string) claims {
	value, is := c[name]
	if !is || value.Kind() != '{' {
		return nil
	}
	inner, err := readClaims(value)
	if err != nil {
		panic("BUG: the claims were read before: " + err.Error())
	}
	return inner
}

// all returns the values to which a path leads. A name may have dots itself.
func (c claims) all(path string) (found []jsontext.Value) {
	if value, is := c[path]; is && value.Kind() != 'n' {
		found = append(found, value)
	}
	for i := range len(path) {
		if path[i] == '.' {
			found = append(found, c.inside(path[:i]).all(path[i+1:])...)
		}
	}
	return found
}

// at returns the value to which a path leads: the name of a claim, or names with dots between them.
// It returns nil without one.
func (c claims) at(path string) (jsontext.Value, error) {
	switch found := c.all(path); len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	default:
		return nil, fmt.Errorf("%s names more than one claim", path)
	}
}

// text returns a claim that is a text, empty without one.
func (c claims) text(path string) (s string, err error) {
	value, err := c.at(path)
	if value == nil {
		return "", err
	}
	if err := json.Unmarshal(value, &s); err != nil {
		return "", fmt.Errorf("%s is not a text", path)
	}
	return s, nil
}

// texts returns a claim that is a list of texts, or one: providers send either. It returns nil without
// one, and ignores all other values.
func (c claims) texts(path string) ([]string, error) {
	value, err := c.at(path)
	if value == nil {
		return nil, err
	}
	var stated any
	if err := json.Unmarshal(value, &stated); err != nil {
		return nil, err
	}
	if one, is := stated.(string); is {
		return []string{one}, nil
	}
	many, is := stated.([]any)
	if !is {
		return nil, nil
	}
	list := make([]string, 0, len(many))
	for _, one := range many {
		if text, is := one.(string); is {
			list = append(list, text)
		}
	}
	return list, nil
}

// deniesVerified reports whether the provider says that it has not verified the claim at a path, as by
// email_verified. Some providers say it as a text.
func (c claims) deniesVerified(path string) (bool, error) {
	value, err := c.at(path + "_verified")
	return value != nil && !strings.EqualFold(strings.Trim(string(value), `"`), "true"), err
}

// seconds returns a claim that is a time, in seconds since 1970; 0 without one.
func (c claims) seconds(name string) (n float64, err error) {
	value, err := c.at(name)
	if value == nil {
		return 0, err
	}
	if err := json.Unmarshal(value, &n); err != nil {
		return 0, fmt.Errorf("%s is not a time", name)
	}
	return n, nil
}

// person is what the provider states about somebody.
type person struct {
	subject, session, name, username, email string

	groups     []string // nil if the provider states none
	leftOut    bool     // groups are too many for a token
	unverified bool     // the e-mail is what the person says, and the provider has not verified it
}

func (s *SignIn) personOf(c claims) (*person, error) {
	p := &person{leftOut: c.leavesOut(s.GroupsClaim)}
	for _, claim := range []struct {
		path string
		text *string
	}{
		{"sub", &p.subject}, {"sid", &p.session}, {s.NameClaim, &p.name}, {"preferred_username", &p.username}, {s.EmailClaim, &p.email},
	} {
		var err error
		if *claim.text, err = c.text(claim.path); err != nil {
			return nil, err
		}
	}
	var err error
	if p.unverified, err = c.deniesVerified(s.EmailClaim); err != nil {
		return nil, err
	}
	p.groups, err = c.texts(s.GroupsClaim)
	return p, err
}

// suffices reports whether the provider states what a session needs: rights, and who the person
// is beside their keys (S62).
func (p *person) suffices() bool { return p.groups != nil && p.email != "" }

// add completes a person by what else the provider states.
func (p *person) add(more *person) {
	for _, text := range []struct{ has, says *string }{{&p.name, &more.name}, {&p.username, &more.username}, {&p.email, &more.email}} {
		if *text.has == "" {
			*text.has = *text.says
		}
	}
	if p.groups == nil {
		p.groups = more.groups
	}
	p.leftOut, p.unverified = p.leftOut || more.leftOut, p.unverified || more.unverified
}
