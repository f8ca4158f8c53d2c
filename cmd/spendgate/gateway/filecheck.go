package gateway

import (
	"cmp"
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

// must finds a fault unless something holds.
func (c *checker) must(hold bool, path, format string, args ...any) {
	if !hold {
		c.fault(path, format, args...)
	}
}

func (c *checker) document() {
	f := c.file
	f.Default = cmp.Or(f.Default, "read_only")
	c.must(slices.Contains([]string{"pass", "deny", "read_only"}, f.Default), "default", "must be pass, deny or read_only")
	host, _, err := net.SplitHostPort(f.Listen)
	if f.Listen == "" {
		c.must(f.AgentID.header == "", "agent_id", "can come from a header only where listen is given")
		c.must(!f.known(), "tokens", "and issuers are for agents over HTTP: give listen, too")
	} else if c.must(err == nil, "listen", "must be host:port"); err == nil {
		c.must(f.known() || config.IsLoopback(host), "listen",
			"can be reached from other machines: give the agents tokens, or listen on 127.0.0.1")
	}
	_, _, err = net.SplitHostPort(f.Metrics)
	c.must(f.Metrics == "" || err == nil, "metrics", "must be host:port")
	c.must(f.AgentID != (agentID{}) || f.known(), "agent_id", "is required, or tokens or issuers: who asks is part of every check")
	for i := range f.Issuers {
		c.issuer(fmt.Sprintf("issuers[%d]", i), &f.Issuers[i])
	}
	u, err := url.Parse(f.Console)
	c.must(f.Console == "" || err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "", "console_url",
		"must be https://host, where people decide about approvals")
	c.must(f.AgentID.header != "" || f.AgentID.fixed == "" || strings.TrimSpace(f.AgentID.fixed) != "", "agent_id", "must not be blank")
	c.must(len(f.order) > 0, "upstreams", "must name at least one server")
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
		c.must(err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && config.IsLoopback(u.Hostname())),
			path+"."+member, "must be https://host/path")
	}
	i.AgentClaim = cmp.Or(i.AgentClaim, "sub")
	prefix := i.URL + "#"
	if i == &c.file.Issuers[0] {
		prefix = ""
	}
	if i.AgentPrefix != nil {
		prefix = spend.NFC(*i.AgentPrefix)
	}
	i.AgentPrefix = &prefix
	c.must(prefix != "" || c.file.Tokens == "", path+".agent_prefix",
		"is required beside tokens: without one, an issuer's agent could have the name of a removed file")
	for j := 0; &c.file.Issuers[j] != i; j++ {
		other := c.file.Issuers[j]
		c.must(other.URL != i.URL && *other.AgentPrefix != prefix, path,
			"has the url or the agent_prefix of another one: agents of both could have one name")
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
	c.must(len(u.Command) == 0 || strings.TrimSpace(u.Command[0]) != "", path+".command", "must begin with a program")
	address, err := url.Parse(u.URL)
	c.must(u.URL == "" || err == nil && (address.Scheme == "http" || address.Scheme == "https") && address.Host != "" && address.User == nil &&
		address.RawQuery == "" && !address.ForceQuery && address.Fragment == "", path+".url",
		"must be http://host:port/path or https://host/path, without user, password and query: secrets belong in headers")
	for tool := range u.Tools {
		if u.Tools[tool] == nil {
			c.fault(path+".tools."+tool, "must say what its calls do")
			continue
		}
		c.tool(path+".tools."+tool, u.Tools[tool])
	}
}

func (c *checker) tool(path string, t *tool) {
	c.must(strings.TrimSpace(t.PolicyID) != "", path+".policy_id", "is required")
	c.must(t.ActionType != "", path+".action_type", "is required")
	c.must(t.Amount != nil, path+".amount", "is required")
	c.must(t.Currency != nil, path+".currency", "is required")
	c.must(t.Counterparty != nil, path+".counterparty", "is required")
	c.must(strings.Contains("  refund credit discount spend ", " "+t.ActionType+" "), path+".action_type",
		"must be refund, credit, discount or spend")
	if t.Amount != nil {
		c.argument(path+".amount", t.Amount.Argument)
		d := t.Amount.Digits
		c.must(d == nil || *d >= 0 && *d <= maxDigits, path+".amount.digits", "must be 0 to %d", maxDigits)
		c.must(d == nil || !t.Amount.MinorUnits, path+".amount", "has minor_units or digits, one of them")
	}
	if t.Counterparty != nil {
		c.argument(path+".counterparty", t.Counterparty.Argument)
		c.must(t.Counterparty.Value == nil, path+".counterparty", "is read from the call: it cannot be a value")
	}
	if t.Currency != nil {
		c.source(path+".currency", *t.Currency)
		code, isText := textOf(t.Currency.Value)
		_, known := spend.MinorDigits(code)
		switch {
		case t.Currency.Value == nil:
		case !isText:
			c.fault(path+".currency.value", "must be text")
		case !regexp.MustCompile(`^[A-Z]{3}$`).MatchString(code):
			c.fault(path+".currency.value", "must be three letters such as USD")
		case t.Amount != nil && t.Amount.MinorUnits && !known:
			c.fault(path+".currency.value", "has no minor unit in ISO 4217")
		}
	}
	for name, from := range t.Metadata {
		c.source(path+".metadata."+name, from)
	}
	c.same(path+".same", t)
	c.arguments(path+".pass", t.Pass)
	c.rest(path, t)
}

// same checks which arguments name a payment. Without any, nothing tells a repeated call from another payment.
func (c *checker) same(path string, t *tool) {
	switch {
	case t.Same == nil && !c.file.Shadow:
		c.fault(path, "is required to enforce: a list of the arguments that name the payment, or all")
	case t.Same == nil && t.Once:
		c.fault(path, "is required with once: which arguments name the payment for good")
	case t.Same != nil && !t.Same.all && len(t.Same.paths) == 0:
		c.fault(path, "must name arguments")
	case t.Same != nil:
		c.arguments(path, t.Same.paths)
	}
}

func (c *checker) rest(path string, t *tool) {
	c.must(!strings.Contains(t.IdempotencyArgument, "."), path+".idempotency_argument", "must be an argument itself, not one inside another")
	read := t.reads()
	for _, member := range slices.Sorted(maps.Keys(read)) { // the server would get another value than the one that was judged
		first, _, _ := strings.Cut(read[member], ".")
		c.must(first == "" || !strings.EqualFold(first, t.IdempotencyArgument), path+"."+member,
			"cannot be the idempotency_argument, which the gateway fills")
	}
	if t.DeclinedIf != nil {
		c.argument(path+".declined_if", t.DeclinedIf.Result)
		c.must(len(t.DeclinedIf.In) > 0, path+".declined_if.in", "must have the values that mean that nothing moved")
		for i, v := range t.DeclinedIf.In {
			c.must(v.Kind() == '"' || v.Kind() == '0', fmt.Sprintf("%s.declined_if.in[%d]", path, i), "must be text or a number")
		}
	}
	if t.Reference != nil {
		c.argument(path+".reference", t.Reference.Result)
	}
	t.WaitSeconds = cmp.Or(t.WaitSeconds, new(defaultWait))
	c.must(*t.WaitSeconds >= 0 && *t.WaitSeconds <= maxWait, path+".wait_seconds", "must be 0 to %d", maxWait)
}

// source checks that a field comes from an argument or from the file.
func (c *checker) source(path string, from source) {
	c.must((from.Argument == "") != (from.Value == nil), path, "must be {argument: NAME} or {value: ...}")
	if from.Argument != "" && from.Value == nil {
		c.argument(path, from.Argument)
	}
}

func (c *checker) arguments(path string, list []string) {
	for i, argument := range list {
		c.argument(fmt.Sprintf("%s[%d]", path, i), argument)
	}
}

// argument checks the path of an argument.
func (c *checker) argument(path, argument string) {
	c.must(!slices.Contains(strings.Split(argument, "."), ""), path, "must name an argument, with dots for what is inside")
}
