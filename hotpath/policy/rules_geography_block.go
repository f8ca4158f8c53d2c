package policy

import (
	"strings"

	"spendgate/audit/spend"
)

// geographyBlock blocks actions in the listed countries.
type geographyBlock struct{ set } // upper-case

var geographyBlockParameters = []Parameter{
	{Name: "blocked_countries", Required: true, Example: `["KP", "IR"]`, Text: "countries of two letters, as in ISO 3166"},
	onMissingParameter, approvalParameter,
}

func compileGeographyBlock(o *objectReader, r *rule) string {
	var listed []string
	o.list("blocked_countries", func(entry string) string {
		country, ok := spend.ParseCountry(entry)
		switch {
		case !ok:
			return "must be a country code of two letters"
		case o.log.stored:
		case !strings.EqualFold(country, entry):
			return "must be " + country + ", as ISO 3166 names the country"
		case !spend.CountryAssigned(country):
			return "must be a country of ISO 3166, which has no " + country
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
