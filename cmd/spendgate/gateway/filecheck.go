package gateway

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/policyfile"
	"spendgate/config"
)

const (
	maxWait     = 600 // seconds
	defaultWait = 30
	maxDigits   = 18
)

// checker finds what is wrong with a file whose members are all known.
type checker struct {
	file   *File
	line   func(path string) int
	faults []policyfile.Fault
}

func (c *checker) fault(path, format string, args ...any) {
	c.faults = append(c.faults, policyfile.Fault{Line: c.line(path), Text: path + " " + fmt.Sprintf(format, args...)})
}

func (c *checker) document() {
	f := c.file
	switch f.Default {
	case "":
		f.Default = "read_only"
	case "pass", "deny", "read_only":
	default:
		c.fault("default", "must be pass, deny or read_only")
	}
	c.listen()
	if _, _, err := net.SplitHostPort(f.Metrics); f.Metrics != "" && err != nil {
		c.fault("metrics", "must be host:port")
	}
	if f.AgentID == (agentID{}) && !f.known() {
		c.fault("agent_id", "is required, or tokens or issuers: who asks is part of every check")
	}
	for i := range f.Issuers {
		c.issuer(fmt.Sprintf("issuers[%d]", i), &f.Issuers[i])
	}
	if u, err := url.Parse(f.Console); f.Console != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
		c.fault("console_url", "must be https://host, where people decide about approvals")
	}
	if f.AgentID.header == "" && f.AgentID.fixed != "" && strings.TrimSpace(f.AgentID.fixed) == "" {
		c.fault("agent_id", "must not be blank")
	}
	if len(f.order) == 0 {
		c.fault("upstreams", "must name at least one server")
	}
	for _, name := range f.order {
		c.upstream("upstreams."+name, name, f.Upstreams[name])
	}
}

// known reports whether agents say by a token who they are.
func (f *File) known() bool { return f.Tokens != "" || f.Issuers != nil }

// issuer checks an issuer. Clients compare the audience with the address that they use.
func (c *checker) issuer(path string, i *issuer) {
	for member, address := range map[string]string{"url": i.URL, "audience": i.Audience} {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !config.IsLoopback(u.Hostname())) {
			c.fault(path+"."+member, "must be https://host/path")
		}
	}
	if i.AgentClaim == "" {
		i.AgentClaim = "sub"
	}
	prefix := i.URL + "#"
	if i == &c.file.Issuers[0] {
		prefix = ""
	}
	if i.AgentPrefix != nil {
		prefix = spend.NFC(*i.AgentPrefix)
	}
	if i.AgentPrefix = &prefix; prefix == "" && c.file.Tokens != "" {
		c.fault(path+".agent_prefix", "is required beside tokens: without one, an issuer's agent could have the name of a removed file")
	}
	for j := range c.file.Issuers {
		other := &c.file.Issuers[j]
		if other == i {
			break
		}
		if other.URL == i.URL || *other.AgentPrefix == *i.AgentPrefix {
			c.fault(path, "has the url or the agent_prefix of another one: agents of both could have one name")
		}
	}
}

func (c *checker) listen() {
	f := c.file
	if f.Listen == "" {
		if f.AgentID.header != "" {
			c.fault("agent_id", "can come from a header only where listen is given")
		}
		if f.known() {
			c.fault("tokens", "and issuers are for agents over HTTP: give listen, too")
		}
		return
	}
	host, _, err := net.SplitHostPort(f.Listen)
	switch {
	case err != nil:
		c.fault("listen", "must be host:port")
	case !f.known() && !config.IsLoopback(host):
		c.fault("listen", "can be reached from other machines: give the agents tokens, or listen on 127.0.0.1")
	}
}

func (c *checker) upstream(path, name string, u *upstream) {
	switch {
	case u == nil:
		c.fault(path, "must have a command or a url")
		return
	case !regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(name):
		c.fault(path, "must be a name of letters, digits, - and _: it is a part of the address")
	case (len(u.Command) > 0) == (u.URL != ""):
		c.fault(path, "must have a command or a url, one of them")
	case u.URL != "" && u.Env != nil:
		c.fault(path+".env", "is for a command")
	case u.URL == "" && u.Headers != nil:
		c.fault(path+".headers", "are for a url")
	}
	if len(u.Command) > 0 && strings.TrimSpace(u.Command[0]) == "" {
		c.fault(path+".command", "must begin with a program")
	}
	if u.URL != "" {
		address, err := url.Parse(u.URL)
		if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" || address.User != nil ||
			address.RawQuery != "" || address.ForceQuery || address.Fragment != "" {
			c.fault(path+".url", "must be http://host:port/path or https://host/path, without user, password and query: secrets belong in headers")
		}
	}
	for tool := range u.Tools {
		if u.Tools[tool] == nil {
			c.fault(path+".tools."+tool, "must say what its calls do")
			continue
		}
		c.tool(path+".tools."+tool, u.Tools[tool])
	}
}

func (c *checker) tool(path string, t *tool) {
	required := func(name string, given bool) {
		if !given {
			c.fault(path+"."+name, "is required")
		}
	}
	required("policy_id", strings.TrimSpace(t.PolicyID) != "")
	required("action_type", t.ActionType != "")
	required("amount", t.Amount != nil)
	required("currency", t.Currency != nil)
	required("counterparty", t.Counterparty != nil)
	if t.ActionType != "" && !strings.Contains(" refund credit discount spend ", " "+t.ActionType+" ") {
		c.fault(path+".action_type", "must be refund, credit, discount or spend")
	}
	if t.Amount != nil {
		c.argument(path+".amount", t.Amount.Argument)
		switch d := t.Amount.Digits; {
		case d != nil && (*d < 0 || *d > maxDigits):
			c.fault(path+".amount.digits", "must be 0 to %d", maxDigits)
		case d != nil && t.Amount.MinorUnits:
			c.fault(path+".amount", "has minor_units or digits, one of them")
		}
	}
	if t.Counterparty != nil {
		c.argument(path+".counterparty", t.Counterparty.Argument)
		if t.Counterparty.Value != nil {
			c.fault(path+".counterparty", "is read from the call: it cannot be a value")
		}
	}
	if t.Currency != nil {
		c.source(path+".currency", *t.Currency)
		if _, isText := textOf(t.Currency.Value); t.Currency.Value != nil && !isText {
			c.fault(path+".currency.value", "must be text")
		}
		c.currency(path+".currency.value", t)
	}
	for name, from := range t.Metadata {
		c.source(path+".metadata."+name, from)
	}
	c.same(path+".same", t)
	for i, argument := range t.Pass {
		c.argument(fmt.Sprintf("%s.pass[%d]", path, i), argument)
	}
	c.rest(path, t)
	c.filled(path, t)
}

// same checks which arguments name a payment. Without any, nothing tells a repeated call from another payment.
func (c *checker) same(path string, t *tool) {
	switch {
	case t.Same == nil && !c.file.Shadow:
		c.fault(path, "is required to enforce: a list of the arguments that name the payment, or all")
	case t.Same == nil && t.Once:
		c.fault(path, "is required with once: which arguments name the payment for good")
	case t.Same == nil:
	case !t.Same.all && len(t.Same.paths) == 0:
		c.fault(path, "must name arguments")
	default:
		for i, argument := range t.Same.paths {
			c.argument(fmt.Sprintf("%s[%d]", path, i), argument)
		}
	}
}

// filled finds fields that are read from the argument that the gateway fills: the server
// would get another value than the one that was judged.
func (c *checker) filled(path string, t *tool) {
	read := t.reads()
	for _, member := range slices.Sorted(maps.Keys(read)) {
		if first, _, _ := strings.Cut(read[member], "."); first != "" && strings.EqualFold(first, t.IdempotencyArgument) {
			c.fault(path+"."+member, "cannot be the idempotency_argument, which the gateway fills")
		}
	}
}

// currency finds a currency in the file that no call could have.
func (c *checker) currency(path string, t *tool) {
	code, ok := textOf(t.Currency.Value)
	if !ok {
		return
	}
	_, known := spend.MinorDigits(code)
	switch {
	case !regexp.MustCompile(`^[A-Z]{3}$`).MatchString(code):
		c.fault(path, "must be three letters such as USD")
	case t.Amount != nil && t.Amount.MinorUnits && !known:
		c.fault(path, "has no minor unit in ISO 4217")
	}
}

func (c *checker) rest(path string, t *tool) {
	if strings.Contains(t.IdempotencyArgument, ".") {
		c.fault(path+".idempotency_argument", "must be an argument itself, not one inside another")
	}
	if t.DeclinedIf != nil {
		c.argument(path+".declined_if", t.DeclinedIf.Result)
		if len(t.DeclinedIf.In) == 0 {
			c.fault(path+".declined_if.in", "must have the values that mean that nothing moved")
		}
		for i, v := range t.DeclinedIf.In {
			if k := v.Kind(); k != '"' && k != '0' {
				c.fault(fmt.Sprintf("%s.declined_if.in[%d]", path, i), "must be text or a number")
			}
		}
	}
	if t.Reference != nil {
		c.argument(path+".reference", t.Reference.Result)
	}
	if t.WaitSeconds == nil {
		t.WaitSeconds = new(defaultWait)
	} else if *t.WaitSeconds < 0 || *t.WaitSeconds > maxWait {
		c.fault(path+".wait_seconds", "must be 0 to %d", maxWait)
	}
}

// source checks that a field comes from an argument or from the file.
func (c *checker) source(path string, from source) {
	if (from.Argument == "") == (from.Value == nil) {
		c.fault(path, "must be {argument: NAME} or {value: ...}")
	} else if from.Argument != "" {
		c.argument(path, from.Argument)
	}
}

// argument checks the path of an argument.
func (c *checker) argument(path, argument string) {
	for name := range strings.SplitSeq(argument, ".") {
		if name == "" {
			c.fault(path, "must name an argument, with dots for what is inside")
			return
		}
	}
}
