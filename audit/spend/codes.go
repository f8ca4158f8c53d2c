package spend

import "strings"

// The codes that ISO has assigned.
const (
	// countries are those of ISO 3166-1 as in Debian's iso-codes 4.15.0, the same since 2011, and XK: ISO
	// leaves it to its users, who mean Kosovo.
	countries = "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ " +
		"CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO " +
		"FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE " +
		"JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO " +
		"MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW " +
		"PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM " +
		"TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW"
	// currencies are those of ISO 4217 with a minor unit, as in CLDR 48.1.
	currencies = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF " +
		"CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD " +
		"HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD " +
		"MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN " +
		"PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD " +
		"TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED VES VND VUV WST XAD XAF XCD XCG XOF XPF YER ZAR ZMW ZWG"
	// unitless are those without one: metals, funds and codes for tests.
	unitless = "XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX"
)

// ParseCurrency returns the upper-case form of three ASCII letters (S7).
func ParseCurrency(s string) (string, bool) {
	if len(s) != 3 || !letters(s) {
		return "", false
	}
	return strings.ToUpper(s), true
}

// CurrencyAssigned reports whether ISO 4217 has the currency, in upper case.
func CurrencyAssigned(currency string) bool {
	return listed(currencies, currency) || listed(unitless, currency)
}

// MinorDigits returns how many digits a currency has behind the point, in its minor unit. Currencies without a minor unit in ISO 4217
// are not known.
func MinorDigits(currency string) (digits int, known bool) {
	return minorDigits(currency), listed(currencies, currency)
}

// minorDigits is 2 for a currency that is not known.
func minorDigits(currency string) int {
	switch currency {
	case "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF":
		return 0
	case "BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND":
		return 3
	case "CLF", "UYW":
		return 4
	}
	return 2
}

// ParseCountry returns the upper-case form of two ASCII letters, and GB for UK and GR for EL, by which the United Kingdom and the
// European Union name the two (S89).
func ParseCountry(s string) (string, bool) {
	if len(s) != 2 || !letters(s) {
		return "", false
	}
	switch s = strings.ToUpper(s); s {
	case "UK":
		return "GB", true
	case "EL":
		return "GR", true
	}
	return s, true
}

// CountryAssigned reports whether ISO 3166-1 has the country, in upper case.
func CountryAssigned(country string) bool { return listed(countries, country) }

// listed reports whether a list, whose entries are of one length, has a code.
func listed(codes, code string) bool {
	return !strings.Contains(code, " ") && len(code) == strings.IndexByte(codes, ' ') && strings.Contains(codes, code)
}

func letters(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}
