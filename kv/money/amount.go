package money

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/shopspring/decimal"
)

// MaxIntegerDigits is the most digits before the point: enough for every
// 256-bit number of a chain, whatever its exponent.
const MaxIntegerDigits = 78

// maxText is the longest text of an amount: a sign, the digits and the point.
const maxText = 1 + MaxIntegerDigits + 1 + MaxFractionDigits

// Amount is an exact amount of an asset. The zero Amount is none at all, which is
// not the same as zero of something; it cannot be printed as JSON.
type Amount struct {
	// value has exactly the digits behind the point that are printed.
	value decimal.Decimal
	asset Asset
}

// Error says which field of an amount is at fault, why, and what to do.
type Error struct {
	Field   string // "amount", "asset", "exponent"
	Value   string // what was given, cut when it is long
	Problem string
	Remedy  string
}

// Error prints field, value, problem and remedy.
func (e *Error) Error() string {
	v := e.Value
	if len(v) > 60 {
		v = v[:60] + "…"
	}
	return fmt.Sprintf("money: %s %q %s; %s", e.Field, v, e.Problem, e.Remedy)
}

// MismatchError is returned where amounts of two assets meet.
type MismatchError struct{ A, B Asset }

// Error names both assets.
func (e *MismatchError) Error() string {
	if e.A.id == e.B.id {
		return fmt.Sprintf("money: amounts of %s with different exponents do not mix; "+
			"describe an asset once", e.A)
	}
	return fmt.Sprintf("money: amounts of %s and %s do not mix; convert one of them first", e.A, e.B)
}

var errUnset = &Error{Field: "amount", Problem: "is not set", Remedy: "give an amount and its asset"}

// Parse reads a canonical decimal text of zero or more. Fewer digits behind the
// point than the asset's exponent are filled up with zeros, more are an error,
// zeros too. Where the exponent is not known the digits stay as they are.
func Parse(text string, a Asset) (Amount, error) {
	m, err := ParseSigned(text, a)
	if err == nil && m.Sign() < 0 {
		return Amount{}, &Error{Field: "amount", Value: text, Problem: "is negative",
			Remedy: "give zero or more"}
	}
	return m, err
}

// ParsePositive is [Parse] for more than zero.
func ParsePositive(text string, a Asset) (Amount, error) {
	m, err := Parse(text, a)
	if err == nil && m.Sign() == 0 {
		return Amount{}, &Error{Field: "amount", Value: text, Problem: "is zero",
			Remedy: "give more than zero"}
	}
	return m, err
}

// ParseSigned is [Parse] that also takes a minus in front, for differences.
func ParseSigned(text string, a Asset) (Amount, error) {
	if a.id == "" {
		return Amount{}, &Error{Field: "asset", Problem: "is missing", Remedy: "name the asset of the amount"}
	}
	places, err := checkText(text)
	if err != nil {
		return Amount{}, err
	}
	n, ok := new(big.Int).SetString(strings.Replace(text, ".", "", 1), 10)
	if !ok {
		return Amount{}, &Error{Field: "amount", Value: text, Problem: "is not a number",
			Remedy: remedyDigits}
	}
	m := Amount{value: decimal.NewFromBigInt(n, -int32(places)), asset: Asset{id: a.id}}
	return m.as(a)
}

const remedyDigits = `write plain digits such as "12.34"`

// checkText refuses every text but the canonical one, and counts the digits
// behind the point.
func checkText(text string) (places int, err error) {
	bad := func(problem string) (int, error) {
		return 0, &Error{Field: "amount", Value: text, Problem: problem, Remedy: remedyDigits}
	}
	if len(text) > maxText {
		return bad(fmt.Sprintf("is longer than %d characters", maxText))
	}
	body, negative := strings.CutPrefix(text, "-")
	whole, frac, point := strings.Cut(body, ".")
	switch {
	case text == "":
		return bad("is empty")
	case strings.Trim(whole+frac, digit) != "":
		return bad("has other characters than the digits 0 to 9 and one point")
	case whole == "":
		return bad("has no digit before the point")
	case point && frac == "":
		return bad("has no digit behind the point")
	case len(whole) > 1 && whole[0] == '0':
		return bad("begins with a zero")
	case len(whole) > MaxIntegerDigits:
		return bad(fmt.Sprintf("has more than %d digits before the point", MaxIntegerDigits))
	case len(frac) > MaxFractionDigits:
		return bad(fmt.Sprintf("has more than %d digits behind the point", MaxFractionDigits))
	case negative && strings.Trim(body, "0.") == "":
		return bad("is minus zero")
	}
	return len(frac), nil
}

// as gives m the exponent of a, whose identifier m has.
func (m Amount) as(a Asset) (Amount, error) {
	want, known := a.Exponent()
	have := m.places()
	switch {
	case known && have > want:
		return Amount{}, &Error{Field: "amount", Value: m.Text(),
			Problem: fmt.Sprintf("has %d digits behind the point, and %s has at most %d", have, a, want),
			Remedy:  "round it in the way your contract says, then send it again"}
	case known && have < want:
		n := new(big.Int).Mul(m.value.Coefficient(), pow10(want-have))
		m.value = decimal.NewFromBigInt(n, -int32(want))
	}
	m.asset = a
	return m, m.bounded()
}

func (m Amount) bounded() error {
	// The coefficient's digits less those behind the point.
	if n := m.value.NumDigits() - m.places(); n > MaxIntegerDigits {
		return &Error{Field: "amount", Value: m.Text(),
			Problem: fmt.Sprintf("has more than %d digits before the point", MaxIntegerDigits),
			Remedy:  "check the numbers it was computed from"}
	}
	return nil
}

func (m Amount) places() int { return -int(m.value.Exponent()) }

func pow10(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// maxUnits is above the most units of any amount.
var maxUnits = pow10(MaxIntegerDigits + MaxFractionDigits)

// FromMinor makes an amount of the asset's smallest units (cents, satoshi, wei),
// as chains and some gateways report them. The exponent must be known and the
// number not negative.
func FromMinor(units *big.Int, a Asset) (Amount, error) {
	exp, known := a.Exponent()
	switch {
	case !known:
		return Amount{}, errNoExponent(a)
	case units == nil:
		return Amount{}, errUnset
	case units.Sign() < 0:
		return Amount{}, &Error{Field: "amount", Problem: "is negative", Remedy: "give zero or more units"}
	case units.BitLen() > maxUnits.BitLen(): // beyond the bound of every asset, and cheap to see
		return Amount{}, &Error{Field: "amount",
			Problem: fmt.Sprintf("has more than %d bits", maxUnits.BitLen()),
			Remedy:  "check where the number comes from"}
	}
	m := Amount{value: decimal.NewFromBigInt(units, -int32(exp)), asset: a}
	if err := m.bounded(); err != nil {
		return Amount{}, err
	}
	return m, nil
}

func errNoExponent(a Asset) error {
	return &Error{Field: "asset", Value: a.id, Problem: "has no known exponent",
		Remedy: "describe it with NewAsset or in the configuration"}
}

// Minor is the amount in the asset's smallest units. The exponent must be known.
func (m Amount) Minor() (*big.Int, error) {
	switch _, known := m.asset.Exponent(); {
	case !m.IsSet():
		return nil, errUnset
	case !known:
		return nil, errNoExponent(m.asset)
	}
	return m.value.Coefficient(), nil
}

// IsSet reports that m is an amount of something.
func (m Amount) IsSet() bool { return m.asset.id != "" }

// Asset is what the amount is of.
func (m Amount) Asset() Asset { return m.asset }

// Sign is -1, 0 or 1.
func (m Amount) Sign() int { return m.value.Sign() }

// Decimal is the exact value, for computing. Do not print it: its own text and
// JSON drop zeros.
func (m Amount) Decimal() decimal.Decimal { return m.value }

// Text is the canonical digits: "12.30". It has exactly the asset's exponent of
// digits behind the point, or those that were read where none is known.
func (m Amount) Text() string {
	if !m.IsSet() {
		return ""
	}
	n := m.value.Coefficient()
	sign := ""
	if n.Sign() < 0 {
		sign = "-"
		n.Neg(n)
	}
	s, places := n.String(), m.places()
	if len(s) <= places {
		s = strings.Repeat("0", places+1-len(s)) + s
	}
	if places == 0 {
		return sign + s
	}
	return sign + s[:len(s)-places] + "." + s[len(s)-places:]
}

// String is the digits and the asset: "12.30 USD".
func (m Amount) String() string {
	if !m.IsSet() {
		return "no amount"
	}
	return m.Text() + " " + m.asset.id
}
