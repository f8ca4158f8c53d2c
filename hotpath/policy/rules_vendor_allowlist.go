package policy

import (
	"strconv"

	"spendgate/audit/spend"
)

// vendorAllowlist blocks spends to counterparties that are not listed, which
// compare exactly (S11).
type vendorAllowlist struct{ set }

var vendorAllowlistParameters = []Parameter{
	{Name: "vendors", Required: true, Example: `["aws", "github"]`, Text: "the only counterparties of spends, compared exactly"},
}

func compileVendorAllowlist(o *objectReader, r *rule) string {
	listed := o.entries("vendors")
	r.condition = &vendorAllowlist{newSet(listed)}
	return "Blocks spends to any but the vendors " + enumerate(listed)
}

func (c *vendorAllowlist) judge(a *spend.Action, _ moment) spend.Reason {
	if !contains(&c.set, a.Counterparty) {
		return spend.ReasonVendorNotOnAllowlist
	}
	return spend.ReasonNone
}

func (c *vendorAllowlist) explain(_ Finding, a *spend.Action, _ *guardSettings) (message, nextStep string) {
	return "vendor " + strconv.Quote(a.Counterparty) + " is not on the allowlist",
		"Do not proceed. Use an approved vendor, spelt exactly as on the list, or ask the policy's owner to add this one."
}
