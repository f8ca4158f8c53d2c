package policy

import "spendgate/audit/spend"

// geographyBlock blocks actions in the listed countries.
type geographyBlock struct{ set } // upper-case

var geographyBlockParameters = []Parameter{
	{Name: "blocked_countries", Required: true, Example: `["KP", "IR"]`, Text: "countries of two letters"},
	onMissingParameter, approvalParameter,
}

func compileGeographyBlock(o *objectReader, r *rule) string {
	var listed []string
	o.list("blocked_countries", func(entry string) string {
		country, ok := spend.ParseCountry(entry)
		if !ok {
			return "must be a country code of two letters"
		}
		listed = append(listed, country)
		return ""
	})
	r.condition = &geographyBlock{newSet(listed)}
	return "Blocks actions in the countries " + enumerate(listed)
}

func (c *geographyBlock) judge(a *spend.Action, _ weekMinute) spend.Reason {
	if a.Metadata.Country == "" {
		return spend.ReasonRequiredContextMissed
	}
	if contains(&c.set, a.Metadata.Country) {
		return spend.ReasonBlockedGeography
	}
	return spend.ReasonNone
}

func (c *geographyBlock) explain(_ Finding, a *spend.Action, _ *guardSettings) (message, nextStep string) {
	return "country " + a.Metadata.Country + " is blocked",
		"Do not proceed: the policy allows nothing in this country. Do not name another country to get past it."
}
