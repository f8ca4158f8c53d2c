package gateway

import "strings"

// minorDigits returns how many digits a currency of ISO 4217 has behind the point,
// in its minor unit. Codes without a minor unit (gold, test codes, funds codes
// such as XDR) are not known.
func minorDigits(currency string) (digits int, known bool) {
	const (
		none  = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
		three = "BHD IQD JOD KWD LYD OMR TND"
		four  = "CLF UYW"
		two   = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW CNY " +
			"COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR " +
			"JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO " +
			"NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS " +
			"TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG"
	)
	if len(currency) != 3 || strings.Contains(currency, " ") {
		return 0, false
	}
	for digits, codes := range []string{none, "", two, three, four} {
		if strings.Contains(codes, currency) {
			return digits, true
		}
	}
	return 0, false
}
