package httpapi

import (
	"maps"
	"strings"
	"testing"

	"spendgate/hotpath/signin"
)

// Only claims of the exact names count, in ID tokens and in userinfo.
func TestClaimsAreExact(t *testing.T) {
	p := startPeople(t)
	p.idp.person["groups"] = "eng"
	for _, imitation := range []string{
		`,"Groups":["finance"],"GROUPS":["finance"]`, `,"ſub":"1","Sub":"1"`, `,"Iss":"https://other.example"`, `,"AUD":"other"`, `,"Exp":1`,
		`,"IAT":1`, `,"Nbf":99999999999`, `,"NONCE":"other"`, `,"At_Hash":"bm90"`, `,"Azp":"other"`, `,"Name":5,"eMail":5`,
		`,"_Claim_Names":{"groups":"none"}`,
	} {
		p.idp.as(func() { p.idp.sign = p.idp.signedBefore(imitation) })
		self := p.mustSignIn().send("GET", "/v1/keys/self", "").body
		if !strings.Contains(self, `"role":"author"`) || !strings.Contains(self, `"principal":"acme:248289"`) {
			t.Errorf("with %s: %s", imitation, self)
		}
	}
	q := startPeople(t)
	q.idp.person = map[string]any{"sub": "7"}
	q.idp.info = map[string]any{"sub": "7", "email": "bo@example.com", "groups": "eng"}
	q.idp.behind = `,"Groups":["finance"],"Sub":"8"`
	if self := q.mustSignIn().send("GET", "/v1/keys/self", "").body; !strings.Contains(self, `"role":"author"`) {
		t.Errorf("by userinfo: %s", self)
	}
	for _, repeated := range []string{`,"groups":["finance"]`, `,"sub":"7"`} {
		q.idp.as(func() { q.idp.behind = repeated })
		q.browser().signIn().is(t, "userinfo with "+repeated, 400)
	}
}

// A deployment says where its provider states groups, e-mail and name.
func TestNamedClaims(t *testing.T) {
	for path, claims := range map[string]map[string]any{
		"cognito:groups":                  {"cognito:groups": []string{"eng"}},
		"https://acme.example/groups":     {"https://acme.example/groups": []string{"eng"}},
		"realm_access.roles":              {"realm_access": map[string]any{"roles": []string{"eng"}}},
		"resource_access.spend.app.roles": {"resource_access": map[string]any{"spend.app": map[string]any{"roles": []string{"eng"}}}},
	} {
		p := startPeopleWith(t, func(o *signin.Options) {
			o.GroupsClaim, o.EmailClaim, o.NameClaim = path, "upn", "https://acme.example/name"
		})
		p.idp.person = map[string]any{"sub": "7", "upn": "bo@example.com", "https://acme.example/name": "Bo", "groups": []string{"finance"}}
		p.idp.as(func() { p.idp.alter = func(c map[string]any) { maps.Copy(c, claims) } })
		self := p.mustSignIn().send("GET", "/v1/keys/self", "").body
		if !strings.Contains(self, `"name":"Bo","email":"bo@example.com"`) || !strings.Contains(self, `"role":"author"`) {
			t.Errorf("%s: %s", path, self)
		}
		p.idp.as(func() {
			p.idp.alter = func(c map[string]any) {
				maps.Copy(c, claims)
				maps.Copy(c, map[string]any{"realm_access.roles": []string{"finance"}})
			}
		})
		if a := p.browser().signIn(); (a.status == 400) != (path == "realm_access.roles") {
			t.Errorf("%s beside another claim: %d", path, a.status)
		}
	}
}

// Userinfo is asked for groups and e-mail alone.
func TestUserinfoIsAsked(t *testing.T) {
	for lacks, want := range map[string]int{"groups": 1, "email": 1, "name": 0} {
		p := startPeople(t)
		p.idp.info = map[string]any{"sub": "248289", "name": "Ana", "email": "ana@example.com", "groups": "eng"}
		delete(p.idp.person, lacks)
		p.mustSignIn()
		if p.idp.asked != want {
			t.Errorf("without %s userinfo was asked %d times, want %d", lacks, p.idp.asked, want)
		}
	}
}

// A person learns that the provider left their groups out, and an admin which groups came.
func TestGroupsAreTold(t *testing.T) {
	p := startPeople(t)
	before := p.mustSignIn()
	if log := p.logged.String(); !strings.Contains(log, "principal=acme:248289 claim=groups named=2 "+
		`groups="[eng finance]" with_a_role="[eng finance]"`) {
		t.Errorf("logged %s", log)
	}
	many := []string{"sales\n\u202e", strings.Repeat("x", 1000)}
	for range 5000 {
		many = append(many, "g")
	}
	many = append(many, "eng")
	length := len(p.logged.String())
	p.idp.as(func() { p.idp.person["groups"] = many })
	author := p.mustSignIn()
	if log := p.logged.String()[length:]; !strings.Contains(log, `named=5003 groups="[sales xxx`) ||
		!strings.Contains(log, `with_a_role=[eng]`) || len(log) > 4000 {
		t.Errorf("logged %s", log)
	}
	p.idp.as(func() {
		delete(p.idp.person, "groups")
		p.idp.person["_claim_names"] = map[string]string{"groups": "src1"}
		p.idp.person["_claim_sources"] = map[string]any{"src1": map[string]string{"endpoint": "https://graph.example/groups"}}
	})
	if a := p.browser().signIn(); a.status != 403 || !strings.Contains(a.body, "_claim_names") || before.signedIn() || author.signedIn() {
		t.Errorf("left out: %d %s", a.status, a.body)
	}
	if !strings.Contains(p.logged.String(), "left out the groups") {
		t.Errorf("logged %s", p.logged)
	}
	p.idp.as(func() { p.idp.person["groups"] = "eng" })
	p.mustSignIn()
}

// An e-mail tells who is behind a key, so one that the provider has not verified signs nobody in.
func TestUnverifiedEmail(t *testing.T) {
	for name, c := range map[string]struct {
		verified any // in the ID token; nil for none
		claim    string
		info     map[string]any
		status   int
	}{
		"verified":             {true, "email", nil, 303},
		"as a text":            {"true", "email", nil, 303},
		"unsaid":               {nil, "email", nil, 303},
		"of another claim":     {false, "upn", nil, 303},
		"unverified":           {false, "email", nil, 403},
		"unverified as a text": {"false", "email", nil, 403},
		"neither":              {1, "email", nil, 403},
		"of userinfo":          {nil, "email", map[string]any{"email": "ana@example.com", "email_verified": false}, 403},
		"verified by userinfo": {nil, "email", map[string]any{"email": "ana@example.com", "email_verified": "true"}, 303},
	} {
		t.Run(name, func(t *testing.T) {
			p := startPeopleWith(t, func(o *signin.Options) { o.EmailClaim = c.claim })
			p.idp.person["upn"] = "ana@acme.example"
			if c.info != nil {
				c.info["sub"] = "248289"
				p.idp.info = c.info
			}
			before := p.mustSignIn()
			p.idp.as(func() {
				p.idp.person["email_verified"] = c.verified
				if c.info != nil {
					delete(p.idp.person, "email")
				}
				if c.verified == nil {
					delete(p.idp.person, "email_verified")
				}
			})
			a := p.browser().signIn()
			if a.status != c.status || c.status == 403 && !strings.Contains(a.body, "is not verified (email_verified)") {
				t.Errorf("%d %s", a.status, a.body)
			}
			if before.signedIn() != (c.status == 303) {
				t.Errorf("the session before it: %v", before.signedIn())
			}
		})
	}
}
