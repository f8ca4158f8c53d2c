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
		country, problem := o.country(entry)
		listed = append(listed, country)
		return problem
	})
	r.condition = &geographyBlock{newSet(listed)}
	return "Blocks actions in the countries " + enumerate(listed)
}

// country returns the code of a country, or what is wrong with it. Stored versions may have codes that ISO
// does not know (S89).
func (o *objectReader) country(entry string) (country, problem string) {
	country, ok := spend.ParseCountry(entry)
	switch {
	case !ok:
		problem = "must be a country code of two letters"
	case o.log.stored:
	case !strings.EqualFold(country, entry):
		problem = "must be " + country + ", as ISO 3166 names the country"
	case !spend.CountryAssigned(country):
		problem = "must be a country of ISO 3166, which has no " + country
	}
	return country, problem
}

func (c *geographyBlock) judge(a *spend.Action, _ moment) spend.Reason {
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
