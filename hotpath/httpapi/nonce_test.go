package httpapi

import (
	"regexp"
	"strings"
	"testing"

	"spendgate/hotpath"
)

// A nonce names the request, and a replay says whether its own made the check (S83).
func TestNonce(t *testing.T) {
	s := start(t, nil)
	const nonce = "0123456789abcdef"
	f := func(why, wantID, wantFirst string, headers ...string) (id string) {
		t.Helper()
		a := s.do("POST", "/v1/checks", plainCheck, headers...)
		id = a.header.Get("X-Request-ID")
		if first := a.header.Values("First-Request"); a.status != 200 || strings.Join(first, ",") != wantFirst {
			t.Errorf("%s: %d, First-Request %q, want %q; %s", why, a.status, first, wantFirst, a.body)
		}
		if asked := s.fake.requests[len(s.fake.requests)-1].ID; asked != id || wantID != "" && id != wantID {
			t.Errorf("%s: the check has %q, the answer %q, want %q", why, asked, id, wantID)
		}
		return id
	}
	// SHA-256 of "spendgate request nonce 1\0" + "\x09key_known" + "\x10" + nonce, by another program: nodes of all
	// versions have to agree on it.
	const named = "req_05a7827a9de1"
	f("the first", named, "", "Request-Nonce: "+nonce)
	s.fake.replayed, s.fake.first = true, named
	f("a replay of it", named, "same", "Request-Nonce: "+nonce)
	other := f("of another nonce", "", "other", "Request-Nonce: "+nonce+"0")
	if other == named || !regexp.MustCompile(`^req_[0-9a-f]{12}$`).MatchString(other) {
		t.Error("another nonce has the name", other)
	}
	f("the longest", "", "other", "Request-Nonce: "+strings.Repeat("~", 128))
	if one, two := f("none", "", ""), f("none again", "", ""); one == two {
		t.Error("two requests without a nonce have one name")
	}

	for _, headers := range [][]string{
		{nonce[1:]}, {strings.Repeat("a", 129)}, {""}, {nonce + " " + nonce}, {nonce + "é"}, {nonce, nonce},
	} {
		lines := "Request-Nonce: " + strings.Join(headers, "\r\nRequest-Nonce: ") + "\r\n"
		before := len(s.fake.checked)
		c := s.dial()
		c.send(post(lines+length(plainCheck), plainCheck))
		a := c.receive()
		if a.status != 422 || !strings.Contains(a.body, "Request-Nonce must be") || len(s.fake.checked) != before ||
			a.header.Get("X-Request-ID") == named {
			t.Errorf("%.40q: %d %s", headers, a.status, a.body)
		}
	}

	s.fake.workErr = hotpath.ErrPolicyNotFound
	if a := s.do("POST", "/v1/checks", plainCheck, "Request-Nonce: "+nonce); !strings.Contains(a.body, named) {
		t.Error("the error does not name the request:", a.body)
	}
	if logged := s.logged.String(); !strings.Contains(logged, "request_id="+named) {
		t.Errorf("no line names %s:\n%s", named, logged)
	}
	if a := s.do("GET", "/v1/policies", "", "Request-Nonce: "+nonce[1:]); a.status == 422 || a.header.Get("X-Request-ID") == named {
		t.Error("another route takes a nonce:", a)
	}
}
