package money

import "strings"

// Currencies of ISO 4217 by the number of digits of their minor unit. Currencies
// that were withdrawn lately are still here, so that old amounts can be read:
// ANG, BGN, CUC, HRK, SLL, ZWL. Metals, bond units, drawing rights and the codes
// for tests have no minor unit and are not.
const (
	iso0 = " BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF "
	iso2 = " AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN" +
		" BZD CAD CDF CHE CHF CHW CNY COP COU CRC CUC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP" +
		" GEL GHS GIP GMD GTQ GYD HKD HNL HRK HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP" +
		" LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD" +
		" PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SLL SOS SRD SSP STN SVC" +
		" SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW" +
		" ZWG ZWL "
	iso3 = " BHD IQD JOD KWD LYD OMR TND "
	iso4 = " CLF UYW "
)

func currencyExponent(code string) (int, bool) {
	if !made(code, 3, 3, upper) {
		return 0, false
	}
	for _, group := range []struct {
		codes  string
		digits int
	}{{iso2, 2}, {iso0, 0}, {iso3, 3}, {iso4, 4}} {
		if strings.Contains(group.codes, " "+code+" ") {
			return group.digits, true
		}
	}
	return 0, false
}
